"""The RayService: the staged placement's Serve config around Ray's pods, for a cluster, for one node, and with GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import yaml

from cortex.settings import Settings
from kuberay.pods import (
    CONTAINER_SECURITY,
    FAST_STAGES,
    KEYS,
    OBJECT_STORE_BYTES,
    OWN_HOME,
    SCRATCH,
    SERVE_PORT,
    SERVE_SECRETS,
    SHARED_HOME,
    Size,
    answers_a_query,
    container,
    labels,
    named_ports,
    node_answers,
    pod,
    secrets,
    variables,
)
from serve_apps.config import serve_config

COMPONENT = "serve"
HEAD = Size("1", "3Gi")
WORKER = Size("4", "8Gi")
GPU_WORKER = Size("4", "16Gi", gpus=1)
SMALL_WORKER = Size("2", "6Gi")
# Both encoders fit on one GPU, so the first node that comes holds them both.
GPU_SHARE = 0.5
GPU_STAGES = ("embedding", "rerank")
MOST_GPUS = 4
# With nothing reserved a replica could be put on the head, whose memory is for the cluster's own state.
SMALL_CPUS = 0.25
# A stream ends within a minute; the pods of the old version stay until theirs have.
_OLD_CLUSTER_S = 120
_LEAVE_S = 20  # until every node knows that a pod gets no more traffic


def rayservice(settings: Settings) -> dict[str, Any]:
    """State the RayService of a cluster: two workers at least, as many as all stages at their largest need at most."""
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": {"name": "cortex", "labels": labels(COMPONENT)},
        "spec": {
            "excludeHeadPodFromServeSvc": True,
            "upgradeStrategy": {"type": "NewCluster"},
            "rayClusterDeletionDelaySeconds": _OLD_CLUSTER_S,
            "serveConfigV2": dumped(serve_config(settings, "staged")),
            "rayClusterConfig": {
                "rayVersion": version("ray"),
                "authOptions": {"mode": "token"},
                "enableInTreeAutoscaling": True,
                "autoscalerOptions": _autoscaler(),
                "headGroupSpec": _head(),
                "workerGroupSpecs": [_workers("serve", WORKER, replicas=(2, 10))],
            },
        },
    }


def small_patch(settings: Settings) -> list[dict[str, Any]]:
    """Change it for one node: a replica of each stage, one worker, nothing that grows."""
    config = with_cpus(serve_config(settings, "staged", small=True), SMALL_CPUS)
    cluster = "/spec/rayClusterConfig"
    worker = _workers("serve", SMALL_WORKER, replicas=(1, 1))
    # Twice what the stages reserve: a new version of the Serve config starts before the old one stops.
    worker["rayStartParams"]["num-cpus"] = str(
        int(2 * SMALL_CPUS * len(config["applications"][0]["deployments"]))
    )
    return [
        {"op": "replace", "path": "/spec/serveConfigV2", "value": dumped(config)},
        {"op": "replace", "path": f"{cluster}/enableInTreeAutoscaling", "value": False},
        {"op": "remove", "path": f"{cluster}/autoscalerOptions"},
        {"op": "replace", "path": f"{cluster}/workerGroupSpecs/0", "value": worker},
    ]


def gpu_patch(settings: Settings, accelerator: str) -> list[dict[str, Any]]:
    """Change it for GPUs: a group of nodes that grows from none, and encoders that ask for a share of one."""
    config = on_gpus(serve_config(settings, "staged"), accelerator)
    cluster = "/spec/rayClusterConfig"
    # A probe that embeds would keep a GPU awake, and paid for, day and night.
    probe = answers_a_query(by_words=True)
    ready = f"{cluster}/workerGroupSpecs/0/template/spec/containers/0/readinessProbe"
    return [
        {"op": "replace", "path": "/spec/serveConfigV2", "value": dumped(config)},
        {"op": "replace", "path": ready, "value": probe},
        {"op": "add", "path": f"{cluster}/workerGroupSpecs/-", "value": _gpu_workers(accelerator, probe)},
    ]


def on_gpus(config: dict[str, Any], accelerator: str) -> dict[str, Any]:
    """Have the encoders ask for a share of a GPU of a type, and start none before they are asked."""
    return _changed(
        config,
        GPU_STAGES,
        {"min_replicas": 0, "max_replicas": MOST_GPUS},
        {"num_gpus": GPU_SHARE, "accelerator_type": accelerator},
    )


def with_cpus(config: dict[str, Any], cpus: float) -> dict[str, Any]:
    """Have every deployment reserve the same share of a processor."""
    names = [each["name"] for each in config["applications"][0]["deployments"]]
    return _changed(config, names, {}, {"num_cpus": cpus})


def dumped(document: object) -> str:
    """Write YAML as it stands in the manifests: keys in their order, no aliases."""
    text: str = yaml.dump(document, Dumper=_Plain, sort_keys=False, width=110, allow_unicode=True)
    return text


class _Plain(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _as_block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Plain.add_representer(str, _as_block)


def _changed(
    config: dict[str, Any], names: Sequence[str], scaling: Mapping[str, Any], actor: Mapping[str, Any]
) -> dict[str, Any]:
    (application,) = config["applications"]
    deployments = [
        each
        | {"autoscaling_config": {**each["autoscaling_config"], **scaling}}
        | {"ray_actor_options": {**each["ray_actor_options"], **actor}}
        if each["name"] in names
        else each
        for each in application["deployments"]
    ]
    return {**config, "applications": [{**application, "deployments": deployments}]}


def _autoscaler() -> dict[str, Any]:
    return {
        "version": "v2",
        "idleTimeoutSeconds": 300,
        "resources": Size("500m", "512Mi").resources,
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [SCRATCH.mount],
    }


def _head() -> dict[str, Any]:
    """Describe the head: it serves nothing, knows no password, and alone may talk to the Kubernetes API, to scale."""
    storage = (SCRATCH, OWN_HOME)
    ports = {"gcs-server": 6379, "dashboard": 8265, "client": 10001, "serve": SERVE_PORT}
    head = container(
        "ray-head",
        HEAD,
        storage,
        variables(FAST_STAGES),
        ports=named_ports(ports),
        livenessProbe=node_answers(),
        readinessProbe=node_answers(for_work=True),
    )
    return {
        "rayStartParams": {"num-cpus": "0", "object-store-memory": str(OBJECT_STORE_BYTES)},
        "template": pod(
            COMPONENT,
            [head],
            storage,
            serviceAccountName="cortex-head",
            automountServiceAccountToken=True,
        ),
    }


def _workers(group: str, size: Size, *, replicas: tuple[int, int]) -> dict[str, Any]:
    storage = (SCRATCH, SHARED_HOME, KEYS)
    worker = container(
        "ray-worker",
        size,
        storage,
        [*variables(FAST_STAGES), *secrets(*SERVE_SECRETS)],
        ports=named_ports({"serve": SERVE_PORT}),
        lifecycle={"preStop": {"exec": {"command": ["sleep", str(_LEAVE_S)]}}},
        livenessProbe=node_answers(),
        readinessProbe=answers_a_query(),
    )
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels(COMPONENT)},
    }
    fewest, most = replicas
    return {
        "groupName": group,
        "replicas": fewest,
        "minReplicas": fewest,
        "maxReplicas": most,
        "rayStartParams": {"object-store-memory": str(OBJECT_STORE_BYTES)},
        "template": pod(
            COMPONENT,
            [worker],
            storage,
            terminationGracePeriodSeconds=_LEAVE_S + 40,
            topologySpreadConstraints=[spread],
        ),
    }


def _gpu_workers(accelerator: str, probe: Mapping[str, Any]) -> dict[str, Any]:
    """Describe the nodes with GPUs; while there is none, the autoscaler knows from here what one would offer."""
    group = _workers("gpu", GPU_WORKER, replicas=(0, MOST_GPUS))
    spec = group["template"]["spec"]
    spec["containers"][0]["readinessProbe"] = probe
    spec["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    return {**group, "idleTimeoutSeconds": 600, "resources": {f"accelerator_type:{accelerator}": "1"}}
