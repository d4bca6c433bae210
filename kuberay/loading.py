"""What loads: a RayJob with a cluster of its own that goes when it ends, and a RayCluster that stays for backfills."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from kuberay.pods import (
    DOCUMENTS,
    DOCUMENTS_TO_READ,
    OBJECT_STORE_BYTES,
    SCRATCH,
    SHARED_HOME,
    Size,
    container,
    labels,
    named_ports,
    node_answers,
    pod,
    secrets,
    variables,
)

COMPONENT = "load"
# Workers that parse and embed reserve no processor, so Ray puts them on any node, the head too: all are alike.
NODE = Size("2", "6Gi")
_STORAGE = (SCRATCH, SHARED_HOME, DOCUMENTS_TO_READ)
# Texts travel through it in small blocks; what does not fit is spilled to the scratch volume.
_RAY = {"object-store-memory": str(OBJECT_STORE_BYTES)}
_HEAD_PORTS = {"gcs-server": 6379, "dashboard": 8265, "client": 10001}


def rayjob() -> dict[str, Any]:
    """State the RayJob: `cortex ingest` in a cluster made for it. A retry goes on from what the first try wrote."""
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "cortex-load", "labels": labels(COMPONENT)},
        "spec": {
            "entrypoint": f"cortex ingest files {DOCUMENTS} --json",
            "backoffLimit": 2,
            "shutdownAfterJobFinishes": True,
            "ttlSecondsAfterFinished": 600,
            "submitterPodTemplate": _submitter(),
            "rayClusterSpec": _cluster(n_workers=1),
        },
    }


def raycluster() -> dict[str, Any]:
    """State the RayCluster to which `cortex backfill submit` hands loads, as often as you like."""
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "cortex-loads", "labels": labels(COMPONENT)},
        "spec": _cluster(n_workers=1),
    }


def _cluster(*, n_workers: int) -> dict[str, Any]:
    """Describe a cluster of a fixed size: a load counts the cores when it starts, and demands none by which to scale."""
    return {
        "rayVersion": version("ray"),
        "authOptions": {"mode": "token"},
        "enableInTreeAutoscaling": False,
        "headGroupSpec": {"rayStartParams": dict(_RAY), "template": _node("ray-head", is_head=True)},
        "workerGroupSpecs": [
            {
                "groupName": "load",
                "replicas": n_workers,
                "minReplicas": n_workers,
                "maxReplicas": n_workers,
                "rayStartParams": dict(_RAY),
                "template": _node("ray-worker", is_head=False),
            }
        ],
    }


def _node(name: str, *, is_head: bool) -> dict[str, Any]:
    """Describe a node. The head also runs the load's driver, which must know where Ray is."""
    address = [
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        *variables({"CORTEX_RAY_ADDRESS": "$(POD_IP):6379"}),
    ]
    node = container(
        name,
        NODE,
        _STORAGE,
        [*(address if is_head else []), *secrets()],
        **({"ports": named_ports(_HEAD_PORTS)} if is_head else {}),
        livenessProbe=node_answers(),
        readinessProbe=node_answers(for_work=True),
    )
    return pod(COMPONENT, [node], _STORAGE)


def _submitter() -> dict[str, Any]:
    """Describe the pod that hands the job to the head and follows its log; KubeRay fills in what it runs."""
    submitter = container("ray-job-submitter", Size("500m", "1Gi"), (SCRATCH,), [])
    return pod(COMPONENT, [submitter], (SCRATCH,), restartPolicy="Never")
