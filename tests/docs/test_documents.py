"""The documents stay true: links resolve, commands parse, named settings and files exist, generated pages are current."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest

from clients.cli.main import main
from cortex.settings import Settings
from docs.build_reference import PAGES, pages
from tests.docs.documents import ROOT, anchors, documents, links, prose, shell_lines

DOCUMENTS = pytest.mark.parametrize("path", documents(), ids=lambda path: path.relative_to(ROOT).as_posix())


@DOCUMENTS
def test_links_resolve(path: Path) -> None:
    """Every link inside of the repository leads to a file and, if it names one, to a heading."""
    for link in links(path):
        name, _, heading = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), link
        assert not heading or heading in anchors(target), link


@DOCUMENTS
def test_commands_parse(path: Path) -> None:
    """Every `cortex` command in a `bash` block exists with the options and arguments that it is given."""
    for line in shell_lines(path):
        words = shlex.split(line, comments=True)
        if words[-2:-1] == [">"]:
            words = words[:-2]  # the shell's, not the command's
        if words and words[0].rpartition("/")[2] == "cortex":
            parse(main, "cortex", words[1:])


def parse(command: click.Command, name: str, words: list[str], parent: click.Context | None = None) -> None:
    """Parse a command line down to its last sub-command without running it; paths need not exist here."""
    try:
        context = command.make_context(name, list(words), parent=parent)
    except click.BadParameter as error:
        assert isinstance(error.param, click.Parameter), error
        assert isinstance(error.param.type, click.Path), f"{name}: {error.format_message()}"
        return
    if isinstance(command, click.Group):
        rest: list[Any] = [*context._protected_args, *context.args]
        if not rest and command.invoke_without_command:
            return
        child_name, child, child_words = command.resolve_command(context, rest)
        assert child is not None, name
        parse(child, f"{name} {child_name}", child_words, context)


@DOCUMENTS
def test_make_targets_exist(path: Path) -> None:
    """Every `make` target in a `bash` block is in the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    for line in shell_lines(path):
        for target in re.findall(r"(?:^|&& )make ([a-z-]+)", line):
            assert target in targets, line


@DOCUMENTS
def test_named_settings_exist(path: Path) -> None:
    """Every `CORTEX_…` variable that a document names is a setting."""
    known = {f"CORTEX_{name.upper()}" for name in Settings.model_fields} | {
        "CORTEX_AS",
        "CORTEX_TOKEN",
        "CORTEX_SPICEDB_LIBRARY",
    }
    named = set(re.findall(r"\bCORTEX_[A-Z0-9_]+\b", path.read_text(encoding="utf-8")))
    assert named <= known


@DOCUMENTS
def test_named_files_exist(path: Path) -> None:
    """Every file or folder of the repository that a document names in backticks is there."""
    folders = "cortex connectors memory retrieval adapters data_jobs serve_apps clients eval cluster kuberay tests docs examples locks"
    pattern = rf"`((?:{'|'.join(folders.split())})/[\w./-]*)`"
    for name in re.findall(pattern, prose(path)):
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("name", sorted(pages()))
def test_generated_pages_are_current(name: str) -> None:
    """A generated page equals what its script writes; run `make docs` after a change."""
    assert (PAGES / name).read_text(encoding="utf-8") == pages()[name], (
        f"docs/reference/{name}: run `make docs`"
    )
