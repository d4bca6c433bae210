"""The `cortex` command: mounts the sub-commands that each folder offers and imports only the one that is called."""

from __future__ import annotations

import ast
import importlib
from functools import cached_property
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import click

from cortex import __version__

GROUP = "cortex.commands"

# Where a command is listed; one that an installed package adds is listed under "More".
SECTIONS = {
    "Run it": (
        "up",
        "down",
        "status",
        "logs",
        "trace",
        "doctor",
        "migrate",
        "backup",
        "restore",
        "serve-config",
    ),
    "Load": ("ingest", "backfill", "sources", "access"),
    "Ask": ("search", "ask", "mcp", "slack", "token"),
    "Judge": ("eval", "bench"),
}


class LazyCommands(click.Group):
    """A group whose commands are entry points; help lines are read from source, so that listing imports nothing."""

    @cached_property
    def offered(self) -> dict[str, EntryPoint]:
        """The installed entry points by command name."""
        return {entry.name: entry for entry in entry_points(group=GROUP)}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the command names in the order of the sections."""
        listed = [name for names in SECTIONS.values() for name in names if name in self.offered]
        return listed + sorted(set(self.offered) - set(listed))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the one command that was asked for."""
        entry = self.offered.get(cmd_name)
        if entry is None:
            return None
        command = getattr(importlib.import_module(entry.module), entry.attr)
        assert isinstance(command, click.Command), f"{entry.value} is no click command"
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one help line per command, section by section."""
        names = self.list_commands(ctx)
        known = {name for section in SECTIONS.values() for name in section}
        more = {"More": tuple(name for name in names if name not in known)}
        for title, section in {**SECTIONS, **more}.items():
            rows = [(name, summary(self.offered[name])) for name in section if name in self.offered]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows, col_max=12)


def summary(entry: EntryPoint) -> str:
    """Read a command's first docstring line from its source file, without importing it."""
    return _first_line(entry.module, entry.attr)


def _first_line(module: str, name: str) -> str:
    """Find a function in a module, or where the module imports it from."""
    path = source_path(module)
    for node in ast.parse(path.read_text()).body if path else ():
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return (ast.get_docstring(node) or "").partition("\n")[0]
        if isinstance(node, ast.ImportFrom) and node.module and name in {each.name for each in node.names}:
            return _first_line(node.module, name)
    return "(not installed)"


def source_path(module: str) -> Path | None:
    """Find a module's source file; None when there is no such module."""
    search: list[str] | None = None
    spec = None
    for name in module.split("."):
        spec = PathFinder.find_spec(name, search)
        if spec is None:
            return None
        search = list(spec.submodule_search_locations or ())
    return Path(spec.origin) if spec is not None and spec.origin else None


@click.group(
    cls=LazyCommands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with `cortex up`, load a folder with `cortex ingest files PATH`, then `cortex ask` a question.",
)
@click.version_option(__version__, prog_name="cortex")
def main() -> None:
    """Cortex: knowledge search with a memory, on your own machine.

    Every command takes --json (one document on stdout, progress as NDJSON on stderr) and ends with an exit code
    that names the kind of failure: 2 input, 3 access, 4 not found, 5 conflict, 6 busy, 7 unavailable, 8 settings.
    """


if __name__ == "__main__":
    main()
