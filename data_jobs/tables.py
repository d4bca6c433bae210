"""Tables for people."""

from __future__ import annotations

from collections.abc import Sequence


def print_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print rows under their heads; markup in them is text."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(*head)
    for row in rows:
        table.add_row(*map(escape, row))
    Console().print(table)
