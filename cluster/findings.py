"""What a check of `cortex doctor` finds: fine, a warning or a problem, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cortex.errors import CortexError


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. `exit_code` is the error tree's, for problems alone."""

    name: str
    level: Level
    said: str
    remedy: str = ""
    exit_code: int = 0


def fine(name: str, said: str) -> Finding:
    """State that all is well."""
    return Finding(name, Level.OK, said)


def warning(name: str, said: str, remedy: str) -> Finding:
    """State what works, but should not stay."""
    return Finding(name, Level.WARNING, said, remedy)


def problem(name: str, said: str, remedy: str, kind: type[CortexError]) -> Finding:
    """State what does not work; `kind` is the error that it would raise."""
    return Finding(name, Level.PROBLEM, said, remedy, kind.exit_code)
