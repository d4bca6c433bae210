"""Write the generated pages of `docs/reference`: settings, errors and the command line, from the code itself.

Usage: make docs. A test fails while a page differs from what this writes.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, get_args

import click
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from clients.cli.main import SECTIONS, main
from cortex import errors
from cortex.errors import CortexError
from cortex.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "reference"
FOLDERS = (
    "cortex",
    "connectors",
    "memory",
    "retrieval",
    "adapters",
    "data_jobs",
    "serve_apps",
    "clients",
    "eval",
    "cluster",
    "kuberay",
)
_NOTE = "<!-- Written by docs/build_reference.py; change the code and run `make docs`. -->\n\n"


def pages() -> dict[str, str]:
    """Return every generated page by its file name."""
    return {"settings.md": settings_page(), "errors.md": errors_page(), "cli.md": cli_page()}


# ---------------------------------------------------------------------------------------------------------- settings


def settings_page() -> str:
    """List the settings under the headings that their source gives them."""
    text = _NOTE + (
        "# Settings\n\nA setting comes from the environment, else from `$CORTEX_HOME/settings.env` (lines of `NAME=value`), else from what\n"
        "`cortex up` recorded about the engines it started, else from the default. Restart with `cortex down` and `cortex up` after\n"
        "a change. A value that cannot be used stops the command with exit code 8 and names the variable.\n"
    )
    for heading, names in _sections():
        text += f"\n## {heading}\n\n| variable | value | default | meaning |\n|---|---|---|---|\n"
        for name in names:
            field = Settings.model_fields[name]
            text += f"| `CORTEX_{name.upper()}` | {_kind(field)} | {_default(field)} | {_cell(field.description or '')} |\n"
    return text


def _sections() -> Iterator[tuple[str, list[str]]]:
    """Yield the commented sections of the settings class with their fields."""
    heading, names = "", []
    for line in inspect.getsource(Settings).splitlines():
        if comment := re.fullmatch(r"    # ([A-Z].*)", line):
            if names:
                yield heading, names
            heading, names = comment[1], []
        elif (field := re.match(r"    (\w+):", line)) and field[1] in Settings.model_fields:
            names.append(field[1])
    yield heading, names


def _kind(field: FieldInfo) -> str:
    kind: Any = field.annotation
    choices = get_args(kind)
    if type(None) in choices:
        (kind,) = {*choices} - {type(None)}
    elif choices:
        return ", ".join(f"`{choice}`" for choice in choices)
    names = {SecretStr: "secret", bool: "true or false", int: "whole number", float: "number", Path: "path"}
    limits = ", ".join(_limit(item) for item in field.metadata if _limit(item))
    return names.get(kind, "text") + (f", {limits}" if limits else "")


def _limit(item: object) -> str:
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    return " ".join(f"{sign} {getattr(item, name)}" for name, sign in signs.items() if hasattr(item, name))


def _default(field: FieldInfo) -> str:
    if field.default_factory is not None:
        return "`~/.cortex`"
    default = field.get_default()
    if isinstance(default, SecretStr) or default in ("", None):
        return "empty"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


# ------------------------------------------------------------------------------------------------------------ errors


def errors_page() -> str:
    """List the error tree with what derives from it, and the codes that narrow a class where it is raised."""
    text = _NOTE + (
        "# Errors\n\nEvery error that Cortex raises on purpose has a stable code and a remedy. Over HTTP it is a problem document (RFC 9457) with\n"
        '`code`, `remedy`, `hint` and `trace_id`; with `--json` a command prints `{"error": {"code", "message", "remedy", "hint"}}`; the\n'
        "exit code names the kind.\n\n| error | meaning | code | HTTP | exit | remedy |\n|---|---|---|---|---|---|\n"
    )
    meanings = dict(re.findall(r"[├└│─ ]*(\w+) +(\D+?) {2,}\d+", errors.__doc__ or ""))
    for depth, kind in _tree(CortexError):
        name = "&nbsp;&nbsp;" * depth + f"`{kind.__name__}`"
        meaning = _cell(meanings.get(kind.__name__, ""))
        text += f"| {name} | {meaning} | `{kind.code}` | {kind.status} | {kind.exit_code} | {kind.remedy.value} |\n"
    text += "\n## Narrower codes\n\nWhere a class alone would say too little, the place that raises it gives a code of its own.\n\n"
    text += "| code | error | raised in |\n|---|---|---|\n"
    for code, (name, places) in sorted(_narrow_codes().items()):
        text += f"| `{code}` | `{name}` | {', '.join(f'`{place}`' for place in sorted(places))} |\n"
    return text


def _tree(parent: type[CortexError], depth: int = 0) -> Iterator[tuple[int, type[CortexError]]]:
    for kind in parent.__subclasses__():
        if kind.__module__ == errors.__name__:
            yield depth, kind
            yield from _tree(kind, depth + 1)


def _narrow_codes() -> dict[str, tuple[str, set[str]]]:
    """Find `SomeError(…, code="…")` in the source."""
    known = {kind.__name__ for _, kind in _tree(CortexError)}
    found: dict[str, tuple[str, set[str]]] = {}
    for path in sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in known:
                for code in (keyword.value for keyword in node.keywords if keyword.arg == "code"):
                    if isinstance(code, ast.Constant):
                        _, places = found.setdefault(str(code.value), (node.func.id, set()))  # type: ignore[attr-defined]
                        places.add(path.relative_to(ROOT).parts[0])
    return found


# ------------------------------------------------------------------------------------------------------ command line


def cli_page() -> str:
    """Print the help of every command."""
    root = click.Context(main, info_name="cortex", terminal_width=100, **main.context_settings)
    text = _NOTE + (
        "# Command line\n\nEvery command takes `--json`: one JSON document on stdout, progress as one JSON object a line on stderr. The exit code is 0\n"
        "or that of the [error](errors.md).\n\n" + _help(root)
    )
    offered = {entry.name for entry in entry_points(group="cortex.commands")}
    for title, names in SECTIONS.items():
        text += f"\n## {title}\n"
        for name in filter(offered.__contains__, names):
            text += "".join(_commands(main.get_command(root, name), name, root))
    return text


def _commands(command: click.Command | None, name: str, parent: click.Context) -> Iterator[str]:
    assert command is not None, name
    context = click.Context(command, parent, info_name=name, terminal_width=100, **command.context_settings)
    yield f"\n### {context.command_path}\n\n{_help(context)}"
    if isinstance(command, click.Group):
        for child in sorted(command.commands):
            yield from _commands(command.commands[child], child, context)


def _help(context: click.Context) -> str:
    return f"```text\n{context.get_help()}\n```\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    for page_name, content in pages().items():
        (PAGES / page_name).write_text(content, encoding="utf-8")
        print(f"docs/reference/{page_name}")
