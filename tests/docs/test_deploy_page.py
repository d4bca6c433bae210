"""The page about KubeRay: the commands inside of kubectl's exist, and so do the files and folders that are applied."""

from __future__ import annotations

import re
import shlex

import click
import pytest
import yaml

from clients.cli.main import main
from kuberay import build
from tests.docs.documents import FENCE, ROOT, shell_lines
from tests.docs.test_documents import parse
from tests.unit.kuberay.rendered import Pod, pods, ray_cluster, rendered

PAGE = ROOT / "docs" / "howto" / "deploy-on-kuberay.md"
LINES = list(shell_lines(PAGE))


@pytest.mark.parametrize("line", [line for line in LINES if " -- cortex " in line])
def test_commands_in_a_pod_parse(line: str) -> None:
    """What kubectl runs in a pod is a command of ours, with options that it has."""
    parse(main, "cortex", shlex.split(line.partition(" -- cortex ")[2]))


def test_the_writer_is_given_options_that_it_has() -> None:
    """Every line that writes manifests names a new folder."""
    written = [line.partition("kuberay.build ")[2] for line in LINES if "kuberay.build" in line]
    assert len(written) == 3
    assert isinstance(build.main, click.Command)
    for arguments in written:
        assert "target" in build.main.make_context("build", shlex.split(arguments)).params


def test_what_is_applied_exists() -> None:
    """Each folder behind --kustomize is one of ours, and each of ours but components is applied somewhere."""
    applied = {
        re.sub(r"^\.\./deploy[^/]*/", "", name)
        for line in LINES
        for name in re.findall(r"--kustomize (\S+)", line)
    }
    ours = {
        path.parent.relative_to(ROOT / "kuberay") for path in (ROOT / "kuberay").rglob("kustomization.yaml")
    }
    names = {path.as_posix() for path in ours}
    assert applied <= names
    assert names - applied == {"base", "overlays/small", "components/head-recovery"}


def test_the_image_is_built_from_a_file_that_exists() -> None:
    """The page builds what the repository has."""
    (line,) = [line for line in LINES if line.startswith("docker build")]
    assert (ROOT / line.partition("--file ")[2].split()[0]).is_file()


def test_named_secrets_are_those_that_pods_read() -> None:
    """The table names every key of the Secret `cortex` that some pod reads, and no other."""
    text = PAGE.read_text(encoding="utf-8")
    table = text.partition("| name | |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`((?:CORTEX|AWS)_[A-Z_]+)`", table))
    read = set()
    for path in (ROOT / "kuberay").rglob("*.yaml"):
        if path.parent.name != "head-recovery":
            read |= set(
                re.findall(r"secretKeyRef:\n\s+name: cortex\n\s+key: (\w+)", path.read_text(encoding="utf-8"))
            )
    assert named == read


def test_snippets_of_yaml_are_yaml() -> None:
    """What is to be pasted into a manifest can be read."""
    for language, block in FENCE.findall(PAGE.read_text(encoding="utf-8")):
        if language == "yaml":
            assert isinstance(yaml.safe_load(block), dict)


@pytest.mark.parametrize("name", ["overlays/small", "overlays/gpu", "load"])
def test_what_it_takes_is_what_pods_ask_for(name: str) -> None:
    """The processors and GiB on the page are the sums of what the first pods request."""
    cpus, gib = requested(name)
    assert f"{cpus:g} processors and {gib:g} GiB" in PAGE.read_text(encoding="utf-8")


def requested(name: str) -> tuple[float, float]:
    """Add up the requests of a kustomization's first pods, the autoscaler's container included."""
    found = []
    for pod in pods(rendered(name)):
        found += [container["resources"]["requests"] for container in pod.spec["containers"]] * first_pods(
            name, pod
        )
    for document in rendered(name):
        if document["kind"].startswith("Ray") and "autoscalerOptions" in ray_cluster(document):
            found.append(ray_cluster(document)["autoscalerOptions"]["resources"]["requests"])
    return sum(amount(each["cpu"]) for each in found), sum(amount(each["memory"]) for each in found)


def first_pods(name: str, pod: Pod) -> int:
    """Count the pods of a template that are there from the start."""
    for document in rendered(name):
        if document["kind"].startswith("Ray"):
            for group in ray_cluster(document)["workerGroupSpecs"]:
                if pod.where == f"{document['kind']} {group['groupName']}":
                    return int(group["minReplicas"])
    return 1


def amount(quantity: str) -> float:
    """Read a quantity of Kubernetes, in processors or GiB."""
    units = {"m": 1 / 1000, "Mi": 1 / 1024, "Gi": 1.0}
    for unit, size in units.items():
        if quantity.endswith(unit):
            return float(quantity.removesuffix(unit)) * size
    return float(quantity)
