"""The console contract of every command: one JSON document on stdout, NDJSON progress on stderr, exit codes from errors."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from datetime import date, datetime
from enum import Enum
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

import click

from cortex.errors import CortexError

P = ParamSpec("P")


def plain(value: Any) -> Any:
    """Turn frozen values into what `json` can write."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"cannot write {type(value).__name__} as JSON")


def write_document(document: Any) -> None:
    """Write the one JSON document of a command to stdout."""
    click.echo(json.dumps(document, default=plain, ensure_ascii=False, indent=2))


def write_progress(event: str, **fields: Any) -> None:
    """Write one line of NDJSON progress to stderr."""
    click.echo(json.dumps({"event": event, **fields}, default=plain, ensure_ascii=False), err=True)


def command(function: Callable[P, None]) -> Callable[P, None]:
    """Wrap a click command so that a CortexError becomes one clear message and the error's exit code.

    Put it directly under the click decorators. With a `as_json` parameter set, the error is a JSON document on
    stdout: `{"error": {"code", "message", "remedy", "hint"}}`.
    """

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            function(*args, **kwargs)
        except CortexError as error:
            if kwargs.get("as_json"):
                write_document({"error": describe(error)})
            else:
                click.secho(f"error: {error.message}", fg="red", err=True)
                if error.hint:
                    click.echo(f"  try: {error.hint}", err=True)
                click.echo(f"  code: {error.error_code}", err=True)
            sys.exit(error.exit_code)

    return run


def describe(error: CortexError) -> dict[str, Any]:
    """State an error as data: code, message, remedy, hint."""
    return {
        "code": error.error_code,
        "message": error.message,
        "remedy": error.remedy.value,
        "hint": error.hint,
    }


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document on stdout and NDJSON progress on stderr."
)
