"""Where Slack delivers over HTTP: believed by its signature alone, read no longer and no further than Slack would send.

All refusals look alike. See https://docs.slack.dev/authentication/verifying-requests-from-slack.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from slack_bolt.adapter.starlette.async_handler import to_starlette_response
from slack_bolt.async_app import AsyncApp, AsyncBoltRequest
from slack_sdk.signature import SignatureVerifier
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cortex.errors import CortexError, InputError, TimedOut, TooLarge, Unauthenticated
from cortex.telemetry import event

PATH = "/slack/events"
MAX_BODY_BYTES = 1_000_000
_READ_TIMEOUT_S = 10.0
_MOST_FIELDS = 100


def make_ingress(bolt: AsyncApp, signing_secret: str, read_timeout_s: float = _READ_TIMEOUT_S) -> Starlette:
    """Make the app that takes events, commands and button presses at one address."""
    verifier = SignatureVerifier(signing_secret)

    async def receive(request: Request) -> Response:
        try:
            body = await _read(request, read_timeout_s)
            require_signed(verifier, request.headers, body)
            delivery = read_delivery(request.headers.get("content-type", ""), body)
        except CortexError as error:
            event("slack.refuse", code=error.error_code)
            refused = {"error": "refused"}
            return JSONResponse(refused, error.status, {"connection": "close"})
        except ClientDisconnect:
            return Response(status_code=400)
        # Verified and read here, it is handed on as Socket Mode would.
        verified = AsyncBoltRequest(mode="socket_mode", body=delivery)
        response: Response = to_starlette_response(await bolt.async_dispatch(verified))
        return response

    async def alive(_: Request) -> Response:
        return JSONResponse({"status": "alive"})

    return Starlette(routes=[Route(PATH, receive, methods=["POST"]), Route("/healthz", alive)])


def require_signed(verifier: SignatureVerifier, headers: Mapping[str, str], body: bytes) -> None:
    """Raise Unauthenticated unless a delivery bears a fresh signature (within five minutes) made with the secret."""
    sent_at = headers.get("x-slack-request-timestamp", "")
    signature = headers.get("x-slack-signature", "")
    # The SDK's verifier expects a number, ASCII and UTF-8.
    is_wellformed = sent_at.isascii() and sent_at.isdecimal() and len(sent_at) <= 12 and signature.isascii()
    try:
        body.decode()
    except UnicodeDecodeError:
        is_wellformed = False
    if not is_wellformed or not verifier.is_valid(body, sent_at, signature):
        raise Unauthenticated("the delivery bears no valid signature", code="webhook.refused")


def read_delivery(content_type: str, body: bytes) -> dict[str, Any]:
    """Read JSON, or a form whose fields or `payload` are what is delivered; raises InputError for anything else.

    Bolt's own reading loses a command that has the word "payload" in its text.
    """
    try:
        if content_type.partition(";")[0].strip().lower() == "application/json":
            found = json.loads(body)
        else:
            fields = dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS))
            found = json.loads(fields["payload"]) if "payload" in fields else fields
    except (ValueError, RecursionError) as error:
        raise InputError("the delivery cannot be read", code="webhook.malformed") from error
    if not isinstance(found, dict) or not found:
        raise InputError("the delivery is no object", code="webhook.malformed")
    return found


async def _read(request: Request, timeout_s: float) -> bytes:
    """Read a body within its limits of size and time; raises TooLarge or TimedOut."""
    pieces, n_bytes = [], 0
    try:
        async with asyncio.timeout(timeout_s):
            async for piece in request.stream():
                n_bytes += len(piece)
                if n_bytes > MAX_BODY_BYTES:
                    raise TooLarge(
                        f"the delivery is larger than {MAX_BODY_BYTES} bytes", code="body.too_large"
                    )
                pieces.append(piece)
    except TimeoutError as error:
        raise TimedOut("the delivery did not arrive in time", code="body.slow") from error
    return b"".join(pieces)
