"""The command that writes the manifests: an operator's copy with their image, settings and accelerators."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from kuberay import build
from kuberay.build import IMAGE, manifests, shipped
from tests.unit.kuberay.rendered import FOLDER, found, pods, render

OWN = "registry.acme.example/search/cortex:0.1.0-acme.2"
DIGEST = f"registry.acme.example/cortex@sha256:{'0a' * 32}"


def run(*arguments: str) -> Result:
    assert isinstance(build.main, click.Command)
    return CliRunner().invoke(build.main, arguments)


@pytest.fixture(autouse=True)
def a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORTEX_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize("image", [OWN, DIGEST])
def test_a_copy_has_the_operators_image_everywhere(tmp_path: Path, image: str) -> None:
    """Every container of every file of the copy runs it, and the copy builds."""
    result = run("--to", str(tmp_path / "own"), "--image", image)
    assert result.exit_code == 0, result.output
    text = "".join(path.read_text() for path in (tmp_path / "own").rglob("*.yaml"))
    named = re.findall(r"^[ -]+image: (.*)$", text, re.M)
    assert len(named) > 10 and set(named) == {image}
    built = render(tmp_path / "own" / "overlays" / "small")
    assert {container["image"] for pod in pods(built) for container in pod.containers} == {image}


def test_a_copy_goes_by_the_operators_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that is set gives its stage a replica; the accelerator is the one that was named."""
    monkeypatch.setenv("CORTEX_LLM_URL", "https://models.acme.example/v1")
    assert run("--to", str(tmp_path / "own"), "--accelerator", "A10G").exit_code == 0
    service = found(render(tmp_path / "own" / "overlays" / "gpu"), "RayService")
    (application,) = yaml.safe_load(service["spec"]["serveConfigV2"])["applications"]
    stages = {each["name"]: each for each in application["deployments"]}
    assert stages["generation"]["autoscaling_config"]["min_replicas"] == 1
    assert stages["embedding"]["ray_actor_options"]["accelerator_type"] == "A10G"


def test_a_copy_without_options_is_what_is_shipped(tmp_path: Path) -> None:
    """File by file, so that a later copy can be compared with an earlier one."""
    own = tmp_path / "own"
    assert run("--to", str(own)).exit_code == 0
    copied = {path.relative_to(own).as_posix(): path.read_text() for path in own.rglob("*") if path.is_file()}
    assert copied == {
        path.relative_to(FOLDER).as_posix(): path.read_text() for path in FOLDER.rglob("*.yaml")
    }
    assert manifests(shipped()).items() <= copied.items()


@pytest.mark.parametrize(
    "image",
    [
        "cortex",
        "cortex:latest",
        "registry.acme.example:5000/cortex",
        "cortex:0.1.0\nx",
        "a b:1",
        "cortex@sha256:12",
    ],
)
def test_an_image_that_does_not_say_what_it_is_is_refused(tmp_path: Path, image: str) -> None:
    """A moving tag or none would make two pods of one cluster run different code; nothing is written."""
    result = run("--to", str(tmp_path / "own"), "--image", image)
    assert result.exit_code == 2 and "needs a tag" in result.output
    assert not (tmp_path / "own").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--accelerator", "L4: 1"), "no type of accelerator"),
        (("--image", OWN), "the shipped manifests name no image of yours"),
        (("--accelerator", "H100"), "the shipped manifests name no image of yours"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: tuple[str, ...], said: str) -> None:
    """The shipped manifests are written by their own values alone, and the error says what to do."""
    before = {path: path.read_text() for path in FOLDER.rglob("*.yaml")}
    result = run(*arguments)
    assert result.exit_code == 2 and said in result.output and "try: " in result.output
    assert {path: path.read_text() for path in FOLDER.rglob("*.yaml")} == before


def test_an_existing_folder_is_left_alone(tmp_path: Path) -> None:
    """What an operator changed in their copy is never overwritten."""
    own = tmp_path / "own"
    assert run("--to", str(own)).exit_code == 0
    (own / "base" / "config.yaml").write_text("mine")
    result = run("--to", str(own), "--image", OWN)
    assert result.exit_code == 2 and "exists already" in result.output
    assert (own / "base" / "config.yaml").read_text() == "mine"
    assert IMAGE in (own / "base" / "relay.yaml").read_text()


@pytest.mark.parametrize("name", ["overlays/own", "own"])
def test_a_folder_of_cortex_is_no_folder_of_yours(name: str) -> None:
    """A copy among the shipped manifests would be shipped."""
    result = run("--to", str(FOLDER / name))
    assert result.exit_code == 2 and "folder.exists" in result.output
    assert not (FOLDER / name).exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """Below a file there is no folder."""
    (tmp_path / "file").write_text("")
    result = run("--to", str(tmp_path / "file" / "own"))
    assert result.exit_code == 2 and "folder.unwritable" in result.output
