"""Fetch engine libraries that live in npm packages: `npm pack`, check the SHA-256, unpack the library."""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path


def main(lock: Path, target: Path) -> None:
    """Install every package named in `lock` (lines of `name@version sha256:…`) under `target`."""
    target.mkdir(parents=True, exist_ok=True)
    for line in filter(None, (text.split("#")[0].strip() for text in lock.read_text().splitlines())):
        package, digest = line.split()
        done = target / f"{package.replace('/', '_')}.ok"
        if not done.exists():
            install(package, digest.removeprefix("sha256:"), target)
            done.touch()


def install(package: str, sha256: str, target: Path) -> None:
    """Pack one package, verify it, and move its shared libraries into `target`."""
    with tempfile.TemporaryDirectory() as work:
        command = [*npm(), "pack", package, "--silent", "--ignore-scripts"]
        packed = subprocess.run(command, cwd=work, capture_output=True, text=True)
        archives = list(Path(work).glob("*.tgz"))
        if packed.returncode or not archives:
            sys.exit(
                f"error: {package} could not be fetched: {packed.stderr.strip()[-300:]}\n  try: check npm's registry"
            )
        actual = hashlib.sha256(archives[0].read_bytes()).hexdigest()
        if actual != sha256:
            sys.exit(
                f"error: {package} has SHA-256 {actual}, the lock says {sha256}\n  try: do not use it; report it"
            )
        with tarfile.open(archives[0]) as archive:
            for member in archive.getmembers():
                content = archive.extractfile(member) if member.name.endswith(".so") else None
                if content is not None:
                    name = Path(member.name).name
                    draft = target / f"{name}.{os.getpid()}"
                    with draft.open("wb") as library:
                        shutil.copyfileobj(content, library)
                    draft.rename(target / name)


def npm() -> list[str]:
    """Return the npm command: the machine's, else the one inside the Node.js wheel, installed for this one use."""
    if found := shutil.which("npm"):
        return [found]
    subprocess.run([sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable,
                    "--require-hashes", "--no-deps", "-r", "locks/node.txt"], check=True)  # fmt: skip
    # npm is a script that looks for `node` on the path.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return [str(Path(sys.executable).with_name("npm"))]


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
