"""Write the manifests that carry pods: the Serve config in them is the one that `cortex serve-config` prints.

`python -m kuberay.build` writes the shipped ones again; a test fails while a file differs from what this writes.
`--to FOLDER` writes a copy of all manifests for your image, your settings and your accelerators.
"""

from __future__ import annotations

import re
from pathlib import Path

import click

from cortex.console import command
from cortex.errors import InputError
from cortex.settings import Settings, read_settings
from kuberay.loading import raycluster, rayjob
from kuberay.pods import IMAGE
from kuberay.serving import dumped, gpu_patch, rayservice, small_patch
from kuberay.tending import ask_job, relay

FOLDER = Path(__file__).resolve().parent
ACCELERATOR = "L4"
_NOTE = "# Written by kuberay/build.py; change the code and run `make docs`.\n"
_ACCELERATOR = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,62}", re.ASCII)
_IMAGE = re.compile(r"[a-z0-9][a-z0-9._/:-]*(?::[A-Za-z0-9_][\w.-]{0,127}|@sha256:[0-9a-f]{64})", re.ASCII)


def shipped() -> Settings:
    """Return the settings of the shipped manifests: the defaults, whatever this machine's are."""
    return Settings.model_construct()


def manifests(settings: Settings, accelerator: str = ACCELERATOR) -> dict[str, str]:
    """Return every written manifest by its path in this folder."""
    written = {
        "base/rayservice.yaml": rayservice(settings),
        "base/relay.yaml": relay(),
        "overlays/small/rayservice.patch.yaml": small_patch(settings),
        "overlays/gpu/rayservice.patch.yaml": gpu_patch(settings, accelerator),
        "load/rayjob.yaml": rayjob(),
        "load-cluster/raycluster.yaml": raycluster(),
        "ask/job.yaml": ask_job(),
    }
    return {name: _NOTE + dumped(document) for name, document in written.items()}


def copy_all(target: Path, written: dict[str, str], image: str) -> None:
    """Copy every manifest to a new folder, with what was written for it and with its image; raises InputError."""
    if target.exists() or FOLDER in target.resolve().parents:
        raise InputError(
            f"{target} exists already, or is part of Cortex",
            code="folder.exists",
            hint="name a new folder of yours",
        )
    for path in sorted(FOLDER.rglob("*.yaml")):
        name = path.relative_to(FOLDER).as_posix()
        text = written.get(name) or path.read_text(encoding="utf-8")
        copied = target / name
        try:
            copied.parent.mkdir(parents=True, exist_ok=True)
            copied.write_text(text.replace(f"image: {IMAGE}", f"image: {image}"), encoding="utf-8")
        except OSError as error:
            raise InputError(
                f"{copied} cannot be written: {error.strerror}", code="folder.unwritable"
            ) from error


def require_exact(image: str, accelerator: str) -> None:
    """Raise InputError for an image that may be another one tomorrow, and for what is no type of accelerator."""
    if not _IMAGE.fullmatch(image) or image.endswith(":latest"):
        raise InputError(
            "an image needs a tag that says what it is, or a digest",
            code="image.inexact",
            hint=f"--image {IMAGE}",
        )
    if not _ACCELERATOR.fullmatch(accelerator):
        raise InputError(
            "this is no type of accelerator",
            code="accelerator.malformed",
            hint=f"--accelerator {ACCELERATOR}",
        )


@click.command(help=__doc__)
@click.option(
    "--to", "target", type=click.Path(path_type=Path), metavar="FOLDER", help="A new folder of yours."
)
@click.option("--image", default=IMAGE, show_default=True, help="With a tag other than latest, or a digest.")
@click.option(
    "--accelerator",
    default=ACCELERATOR,
    show_default=True,
    help="The type of GPU, as Ray names it (A10G, H100).",
)
@command
def main(target: Path | None, image: str, accelerator: str) -> None:
    require_exact(image, accelerator)
    if target is None:
        if (image, accelerator) != (IMAGE, ACCELERATOR):
            raise InputError(
                "the shipped manifests name no image of yours", code="folder.missing", hint="--to FOLDER"
            )
        for name, text in manifests(shipped()).items():
            (FOLDER / name).write_text(text, encoding="utf-8")
            click.echo(f"kuberay/{name}")
        return
    copy_all(target, manifests(read_settings(), accelerator), image)
    click.echo(f"{target}: apply one of its folders with `kubectl apply -k`")


if __name__ == "__main__":
    main()
