"""Ray's pods as Kubernetes is told of them: no root, a read-only image, secrets by reference, and probes that look inside.

KubeRay adds what is missing: the command, the wait for the head, `/dev/shm`. A probe that stands here replaces its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cortex

IMAGE = f"cortex:{cortex.__version__}"
USER = 10001  # the one that the Dockerfile makes
HOME = "/srv/cortex"
DOCUMENTS = "/srv/documents"
SERVE_PORT = 8000
AGENT_PORT = 52365  # Ray's own health, of the node and on a head of the whole cluster
PART_OF = {"app.kubernetes.io/part-of": "cortex"}

# Of the Secret `cortex`. Without the first two nothing works, so pods wait for them; the others are for who needs them.
REQUIRED_SECRETS = ("CORTEX_POSTGRES_URL", "CORTEX_SPICEDB_TOKEN")
OPTIONAL_SECRETS = (
    "CORTEX_QDRANT_API_KEY",
    "CORTEX_SLACK_TOKEN",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
)
SERVE_SECRETS = ("CORTEX_LLM_API_KEY", "CORTEX_METRICS_TOKEN", "CORTEX_SLACK_SIGNING_SECRET")

# Decision 0013: stages call each other in plain gRPC; no replica listens beside the proxy.
FAST_STAGES = {"RAY_SERVE_THROUGHPUT_OPTIMIZED": "1", "RAY_SERVE_ENABLE_DIRECT_INGRESS": "0"}
# Little travels through it: what is served goes by gRPC, and loads pass small blocks.
OBJECT_STORE_BYTES = 300_000_000

POD_SECURITY = {
    "runAsNonRoot": True,
    "runAsUser": USER,
    "runAsGroup": USER,
    "fsGroup": USER,
    "fsGroupChangePolicy": "OnRootMismatch",  # a home with a million files is not walked at each start
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER_SECURITY = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}


@dataclass(frozen=True, slots=True)
class Size:
    """What a pod asks for and may use: the same, so that no neighbour takes it away."""

    cpus: str
    memory: str
    gpus: int = 0

    @property
    def resources(self) -> dict[str, dict[str, str]]:
        """State it as a container's resources."""
        amounts = {"cpu": self.cpus, "memory": self.memory}
        gpus = {"nvidia.com/gpu": str(self.gpus)} if self.gpus else {}
        return {"requests": amounts | gpus, "limits": amounts | gpus}


@dataclass(frozen=True, slots=True)
class Storage:
    """A volume and where the container sees it."""

    volume: Mapping[str, Any]
    path: str
    is_read_only: bool = False

    @property
    def mount(self) -> dict[str, Any]:
        """State the container's side."""
        read_only = {"readOnly": True} if self.is_read_only else {}
        return {"name": self.volume["name"], "mountPath": self.path, **read_only}


# Ray's sessions, logs and spilled objects; everything that any program writes elsewhere would fail.
SCRATCH = Storage({"name": "scratch", "emptyDir": {"sizeLimit": "10Gi"}}, "/tmp")  # noqa: S108  the pod's own
# Locks of sources, one-time codes, and what loads go on from: pods that load or serve share a home.
SHARED_HOME = Storage({"name": "home", "persistentVolumeClaim": {"claimName": "cortex-home"}}, HOME)
OWN_HOME = Storage({"name": "home", "emptyDir": {"sizeLimit": "1Gi"}}, HOME)
# The key that signs sessions is seen by those alone that verify them.
KEYS = Storage(
    {"name": "keys", "secret": {"secretName": "cortex-keys", "defaultMode": 0o440}},
    f"{HOME}/keys",
    is_read_only=True,
)
_TO_LOAD = {"name": "documents", "persistentVolumeClaim": {"claimName": "cortex-documents"}}
DOCUMENTS_TO_READ = Storage(_TO_LOAD, DOCUMENTS, is_read_only=True)
DOCUMENTS_TO_FILL = Storage(_TO_LOAD, DOCUMENTS)


def labels(component: str) -> dict[str, str]:
    """Label what belongs to a component; network policies and disruption budgets select by it."""
    return {**PART_OF, "app.kubernetes.io/component": component}


def container(
    name: str, size: Size, storage: Sequence[Storage], env: Sequence[Mapping[str, Any]], **others: Any
) -> dict[str, Any]:
    """Describe a container of the image: addresses from the ConfigMap, its own variables, and no right to anything."""
    return {
        "name": name,
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "envFrom": [{"configMapRef": {"name": "cortex"}}],
        "env": [*variables({"CORTEX_HOME": HOME, "RAY_USAGE_STATS_ENABLED": "0"}), *env],
        **others,
        "resources": size.resources,
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [each.mount for each in storage],
    }


def pod(
    component: str, containers: Sequence[Mapping[str, Any]], storage: Sequence[Storage], **others: Any
) -> dict[str, Any]:
    """Describe a pod around its container; it has no token of the Kubernetes API unless `others` says so."""
    return {
        "metadata": {"labels": labels(component)},
        "spec": {
            "serviceAccountName": "cortex",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,  # CORTEX_SERVE_SVC_… would be taken for settings
            "securityContext": POD_SECURITY,
            **others,
            "containers": list(containers),
            "volumes": [dict(each.volume) for each in storage],
        },
    }


def named_ports(ports: Mapping[str, int]) -> list[dict[str, Any]]:
    """State ports by their names; KubeRay finds the dashboard's and Serve's by them."""
    return [{"name": name, "containerPort": port} for name, port in ports.items()]


def variables(values: Mapping[str, str]) -> list[dict[str, Any]]:
    """State variables with their values."""
    return [{"name": name, "value": value} for name, value in values.items()]


def secrets(*optional: str) -> list[dict[str, Any]]:
    """State variables whose values stand in the Secret `cortex`; a missing optional one is left out."""
    named = [(name, False) for name in REQUIRED_SECRETS]
    named += [(name, True) for name in (*OPTIONAL_SECRETS, *optional)]
    return [
        {
            "name": name,
            "valueFrom": {
                "secretKeyRef": {"name": "cortex", "key": name} | ({"optional": True} if is_optional else {})
            },
        }
        for name, is_optional in named
    ]


def node_answers(*, for_work: bool = False) -> dict[str, Any]:
    """Probe Ray's node for life, or sooner and more often for taking work.

    Two minutes without an answer end the pod; KubeRay's own probe waits for ten. A head must be ready for work before
    anything is served: KubeRay deploys to ready heads.
    """
    delay_s, period_s, n_failures = (10, 5, 10) if for_work else (30, 10, 12)
    return {
        "httpGet": {"path": "/api/healthz", "port": AGENT_PORT},
        "initialDelaySeconds": delay_s,
        "periodSeconds": period_s,
        "timeoutSeconds": 5,
        "failureThreshold": n_failures,
    }


def answers_a_query(*, by_words: bool = False) -> dict[str, Any]:
    """Probe with a real query through this pod's proxy: only pods that answer one get traffic.

    It takes the place of KubeRay's probe, which asks the proxy whether it lives, with a program that our image lacks.
    Often, because KubeRay turns to a new cluster as soon as its stages run; the query is run once a second at most.
    """
    return {
        "httpGet": {
            "path": "/readyz?words=true" if by_words else "/readyz",
            "port": SERVE_PORT,
            "httpHeaders": [{"name": "Host", "value": "localhost"}],  # accepted whatever CORTEX_PUBLIC_URL is
        },
        "initialDelaySeconds": 5,
        "periodSeconds": 2,
        "timeoutSeconds": 12,  # the query itself is given up after ten
        "failureThreshold": 10,
    }
