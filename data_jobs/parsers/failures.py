"""Why a file gave no text: the closed list of codes that parse reports (docs/reference/parse-failures.md)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cortex.errors import Unparsable


class FailureCode(StrEnum):
    """The stable codes; each is explained, with what to do, in docs/reference/parse-failures.md."""

    ENCRYPTED = "document.encrypted"
    CORRUPT = "document.corrupt"
    NO_TEXT = "document.no_text"
    EMPTY = "document.empty"
    TOO_LARGE = "document.too_large"
    TIMEOUT = "document.timeout"
    OUT_OF_MEMORY = "document.out_of_memory"
    UNSUPPORTED = "document.unsupported"
    CRASHED_PARSER = "document.crashed_parser"


@dataclass(frozen=True, slots=True)
class ParseFailure:
    """Why one file could not be parsed: a stable code, a sentence for the report, and what the operator can do."""

    code: FailureCode
    reason: str
    hint: str = ""


def unparsable(code: FailureCode, reason: str, hint: str = "") -> Unparsable:
    """Build the error with which a parser gives up on a file; the reason never quotes the file's text."""
    return Unparsable(reason, code=code.value, hint=hint)
