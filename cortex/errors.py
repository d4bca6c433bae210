"""The error tree: every error has a stable code and a remedy, and HTTP status and exit code derive from them.

CortexError
├── InputError            the caller sent something we cannot use             400, exit 2
│   ├── TooLarge          a body, question or file beyond its limit           413
│   └── Unparsable        a document that yields no usable text               422
├── Unauthenticated       no token, a forged token or an expired one          401, exit 3
├── Forbidden             the principal may not do this at all                403, exit 3
├── NotFound              unknown, or not visible: the two look the same      404, exit 4
├── Conflict              already running, already exists, wrong version      409, exit 5
├── Busy                  too many requests; retry after a pause              429, exit 6
├── Unavailable           an engine is down or not ready                      503, exit 7
│   └── ChecksUnavailable permissions cannot be checked, so nothing is shown  503
├── TimedOut              a step passed its time limit                        504, exit 7
├── Misconfigured         settings, versions or files that cannot work        500, exit 8
└── Corrupt               stored data contradicts itself                      500, exit 9
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, ClassVar


class Remedy(StrEnum):
    """What the one who meets the error should do."""

    RETRY = "retry"
    RETRY_AFTER = "retry-after"
    RESTART = "restart"
    SKIP = "skip"
    STOP = "stop"
    TELL_USER = "tell-user"


class CortexError(Exception):
    """Base of every error Cortex raises on purpose.

    `code` is stable and machine-readable (`noun.adjective`); a caller may narrow the class default. `hint` is one
    sentence that says what to do. Neither ever holds document text, tokens or e-mail addresses.
    """

    code: ClassVar[str] = "cortex.error"
    remedy: ClassVar[Remedy] = Remedy.STOP
    status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, code: str | None = None, hint: str = "", **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.error_code = code or type(self).code
        self.hint = hint
        self.fields = fields

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep code, hint and fields when the error crosses a process boundary."""
        return (_rebuild, (type(self), self.message, self.error_code, self.hint, self.fields))


def _rebuild(
    kind: type[CortexError], message: str, code: str, hint: str, fields: dict[str, Any]
) -> CortexError:
    return kind(message, code=code, hint=hint, **fields)


class InputError(CortexError):
    code = "input.invalid"
    remedy = Remedy.TELL_USER
    status = 400
    exit_code = 2


class TooLarge(InputError):
    code = "input.too_large"
    status = 413


class Unparsable(InputError):
    code = "document.unparsable"
    remedy = Remedy.SKIP
    status = 422


class Unauthenticated(CortexError):
    code = "token.invalid"
    remedy = Remedy.TELL_USER
    status = 401
    exit_code = 3


class Forbidden(CortexError):
    code = "access.forbidden"
    remedy = Remedy.TELL_USER
    status = 403
    exit_code = 3


class NotFound(CortexError):
    code = "resource.not_found"
    remedy = Remedy.TELL_USER
    status = 404
    exit_code = 4


class Conflict(CortexError):
    code = "resource.conflict"
    remedy = Remedy.TELL_USER
    status = 409
    exit_code = 5


class Busy(CortexError):
    code = "service.busy"
    remedy = Remedy.RETRY_AFTER
    status = 429
    exit_code = 6


class Unavailable(CortexError):
    code = "engine.unavailable"
    remedy = Remedy.RETRY_AFTER
    status = 503
    exit_code = 7


class ChecksUnavailable(Unavailable):
    code = "permissions.unavailable"


class TimedOut(CortexError):
    code = "step.timed_out"
    remedy = Remedy.RETRY
    status = 504
    exit_code = 7


class Misconfigured(CortexError):
    code = "settings.invalid"
    exit_code = 8


class Corrupt(CortexError):
    code = "data.corrupt"
    exit_code = 9
