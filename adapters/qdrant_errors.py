"""Errors of the Qdrant clients as errors of Cortex."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp
import httpx
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from cortex.errors import CortexError, Misconfigured, TimedOut, Unavailable

_HINT = "look at `cortex status`; `cortex up` starts what is down"


@contextmanager
def translated() -> Iterator[None]:
    """Raise CortexErrors in place of the client's."""
    try:
        yield
    except UnexpectedResponse as error:
        raise _of_response(error) from error
    except (ApiException, httpx.HTTPError, aiohttp.ClientError, TimeoutError) as error:
        source = error.source if isinstance(error, ResponseHandlingException) else error
        if isinstance(source, (httpx.TimeoutException, TimeoutError)):
            raise TimedOut(
                "the vector index did not answer in time", code="index.timed_out", hint=_HINT
            ) from error
        raise Unavailable("the vector index does not answer", code="index.unavailable", hint=_HINT) from error


def _of_response(error: UnexpectedResponse) -> CortexError:
    status = error.status_code or 500
    said = error.content.decode(errors="replace")
    if status in (401, 403):
        return Misconfigured(
            "the vector index refuses the key", code="index.refused", hint="correct CORTEX_QDRANT_API_KEY"
        )
    if status == 404:
        return Unavailable(
            "there is no vector index yet",
            code="index.missing",
            hint="load documents with `cortex ingest files PATH`",
        )
    if "imension" in said:
        return Misconfigured(
            "the vector index was built with another embedding model",
            code="index.mismatch",
            hint="load the sources again, or restore CORTEX_EMBEDDING_MODEL",
        )
    if status in (408, 429) or status >= 500:
        return Unavailable(f"the vector index answered {status}", code="index.unavailable", hint=_HINT)
    return Misconfigured(f"the vector index refused a request: {status}", code="index.refused")
