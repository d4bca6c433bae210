"""Problem documents: every error leaves as RFC 9457 `application/problem+json` with our code and remedy, and no more."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from cortex import errors
from cortex.api import Problem
from cortex.errors import CortexError, Forbidden, InputError, NotFound, Remedy, TooLarge, Unauthenticated
from cortex.telemetry import new_trace_id
from serve_apps.account import account

MEDIA_TYPE = "application/problem+json"
_RETRY_AFTER_S = 2


class MethodUnknown(InputError):
    """The path exists, the method does not."""

    code = "method.unknown"
    status = 405


class Unexpected(CortexError):
    """An error that nobody foresaw; its details stay in the log."""

    code = "server.unexpected"
    remedy = Remedy.RETRY


def problem(error: CortexError) -> Problem:
    """State an error as a problem document. Faults of the server keep their details to the operator's log."""
    is_internal = error.status == HTTPStatus.INTERNAL_SERVER_ERROR
    return Problem(
        type=f"/docs#{error.error_code}",
        title=HTTPStatus(error.status).phrase,
        status=error.status,
        detail="something went wrong on the server; the log has it under this trace id"
        if is_internal
        else error.message,
        code=error.error_code,
        remedy=error.remedy.value,
        hint="" if is_internal else error.hint,
        trace_id=new_trace_id(),
    )


def problem_response(error: CortexError) -> Response:
    """Make the HTTP response of an error, with Retry-After and WWW-Authenticate where they belong, and note it."""
    account().fail(error)
    headers = {"cache-control": "no-store"}
    if error.remedy is Remedy.RETRY_AFTER:
        headers["retry-after"] = str(error.fields.get("retry_after_s", _RETRY_AFTER_S))
    if isinstance(error, Unauthenticated):
        headers["www-authenticate"] = 'Bearer realm="cortex"'
    if allowed := error.fields.get("allow"):
        headers["allow"] = str(allowed)
    return Response(
        problem(error).model_dump_json(), status_code=error.status, headers=headers, media_type=MEDIA_TYPE
    )


def problem_kinds() -> list[dict[str, str | int]]:
    """List the kinds of error by status, with the meanings that the error tree's own documentation gives."""
    meanings = dict(re.findall(r"(\w+) {2,}(\S.*?) {2,}\d{3}", errors.__doc__ or ""))
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, CortexError)
    ]
    return [
        {
            "code": kind.code,
            "status": kind.status,
            "remedy": kind.remedy.value,
            "meaning": meanings.get(kind.__name__, ""),
        }
        for kind in sorted(kinds, key=lambda kind: (kind.status, kind.code))
    ]


def install(app: FastAPI) -> None:
    """Answer every error that routing, validation or a handler raises with a problem document."""

    async def on_cortex(_: Request, error: Exception) -> Response:
        return problem_response(error if isinstance(error, CortexError) else Unexpected("unexpected"))

    async def on_invalid(_: Request, error: Exception) -> Response:
        return problem_response(_from_validation(error))

    async def on_http(_: Request, error: Exception) -> Response:
        return problem_response(_from_http(error))

    app.add_exception_handler(CortexError, on_cortex)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(HTTPException, on_http)


def _from_validation(error: Exception) -> CortexError:
    if not isinstance(error, RequestValidationError):
        return InputError("the request cannot be used")
    return invalid_input(error.errors()[0])


def invalid_input(first: Any, hint: str = "the shapes are in /docs") -> CortexError:
    """Name the first wrong field that pydantic found, and the rule it breaks; never repeat what was sent."""
    if first["type"] == "json_invalid":
        return InputError("the body is not valid JSON", code="body.malformed")
    place = ".".join(str(part) for part in first["loc"] if part != "body")
    if first["type"] == "string_too_long" and place == "query":
        return TooLarge("the question is too long", code="query.too_large", hint="ask a shorter question")
    rule = "the pattern of this field" if first["type"] == "string_pattern_mismatch" else first["msg"]
    return InputError(f"{place or 'body'}: {rule}", hint=hint)


def _from_http(error: Exception) -> CortexError:
    if isinstance(error.__cause__, CortexError):  # raised while the body was read
        return error.__cause__
    status = error.status_code if isinstance(error, HTTPException) else HTTPStatus.BAD_REQUEST
    match status:
        case HTTPStatus.NOT_FOUND:
            return NotFound("there is nothing at this address", code="route.unknown", hint="see /docs")
        case HTTPStatus.METHOD_NOT_ALLOWED:
            headers = (error.headers if isinstance(error, HTTPException) else None) or {}
            return MethodUnknown(
                "this address does not take that method", hint="see /docs", allow=headers.get("Allow", "")
            )
        case HTTPStatus.FORBIDDEN:
            return Forbidden("this is not allowed")
        case _:
            return InputError("the body cannot be read as JSON", code="body.malformed")
