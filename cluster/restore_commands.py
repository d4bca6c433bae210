"""`cortex restore`: an empty home filled from a backup, with engines started and ended for it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

from cluster import control
from cluster.place import private_folder, write_private
from cortex.console import command, json_option, write_document
from cortex.errors import Conflict, CortexError, Misconfigured
from cortex.settings import Settings, settings

_FOLDERS = ("postgres", "qdrant", "objects")
_ENGINES = "postgres,qdrant,objects"
_UP_TIMEOUT_S = 300.0


@click.command()
@click.argument("path", type=click.Path(path_type=Path, exists=True, file_okay=False))
@json_option
@command
def restore(path: Path, as_json: bool) -> None:
    """Restore the backup PATH into this home, which must be empty. Then run `cortex up`.

    Access is as it was when the backup was taken: people who have lost access since have it again until their sources
    are loaded again, so do that first.
    """
    told = restore_home(settings(), path.absolute(), as_json)
    warning = (
        f"access is as of {told['taken_at']}; changes made since then are forgotten (the newest it knows of was at "
        f"{told['newest_access_change_at']}): load each source again before others may ask"
    )
    if as_json:
        write_document({**told, "warnings": [warning]})
        return
    rows = sum(told["rows"].values())
    click.echo(
        f"restored {rows:,} rows, {told['objects']:,} objects, {told['points']:,} points; now: cortex up"
    )
    click.secho(warning, fg="yellow")


def restore_home(home: Settings, backup: Path, as_json: bool) -> dict[str, Any]:
    """Verify, start engines, restore, end them. What a failed restore made is taken away again."""
    control.check_home(home.home)
    _require_empty(home)
    _run(home, backup, as_json, "--verify")
    marker = _marker(home)
    write_private(marker, str(backup))
    try:
        control.up(home, _ENGINES, _UP_TIMEOUT_S, lambda state: None)
        told = _run(home, backup, as_json)
    except BaseException:  # Ctrl-C too: half a home must not stay
        control.down(home, lambda state: None)
        _clear(home)
        raise
    control.down(home, lambda state: None)
    marker.unlink()
    return told


def refuse_half_restored(home: Settings) -> None:
    """Raise Conflict where a restore was killed: half a home must not serve."""
    if _marker(home).exists():
        raise Conflict(
            f"a restore into {home.home} was not finished",
            code="home.half_restored",
            hint=f"cortex restore {_marker(home).read_text()}",
        )


def _require_empty(home: Settings) -> None:
    """Raise Conflict when the home runs or holds data; the rest of a killed restore is cleared."""
    control.refuse_a_second(home, private_folder(home.home / "run"))
    if _marker(home).exists():
        control.down(home, lambda state: None)
        _clear(home)
    full = [name for name in _FOLDERS if any((home.home / name).glob("*"))]
    if full:
        raise Conflict(
            f"{home.home} is not empty: it has {', '.join(full)}",
            code="restore.not_empty",
            hint="set CORTEX_HOME to a new folder",
        )


def _run(home: Settings, backup: Path, as_json: bool, *options: str) -> dict[str, Any]:
    """Run the ingest side's restore in this home; raises its error."""
    env = {**os.environ, "CORTEX_HOME": str(home.home)}
    command = [sys.executable, "-m", "data_jobs.restore", str(backup), "--json", *options]
    progress = None if as_json else subprocess.DEVNULL
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=progress, text=True, env=env, cwd="/")
    said = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    if done.returncode == 0:
        return dict(said)
    told = said.get("error", {"message": "the restore failed", "code": "restore.failed", "hint": ""})
    kinds = {kind.exit_code: kind for kind in _kinds(CortexError)}
    kind = kinds.get(done.returncode, Misconfigured)
    raise kind(told["message"], code=told["code"], hint=told["hint"])


def _kinds(parent: type[CortexError]) -> list[type[CortexError]]:
    """List the error tree, leaves first, so that an exit code means its widest kind."""
    return [kind for child in parent.__subclasses__() for kind in (*_kinds(child), child)]


def _clear(home: Settings) -> None:
    for name in _FOLDERS:
        shutil.rmtree(home.home / name, ignore_errors=True)
    _marker(home).unlink(missing_ok=True)


def _marker(home: Settings) -> Path:
    return home.home / "restoring"
