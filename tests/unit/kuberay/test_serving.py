"""What the RayService deploys: the staged placement, room for all of it, GPUs from none, and probes that ask a query."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ray.autoscaler._private.kuberay.autoscaling_config import _derive_autoscaling_config_from_ray_cr
from ray.serve.schema import ServeDeploySchema

from cluster.engines.ray import _FAST_STAGES
from cortex.errors import Misconfigured
from cortex.settings import Settings
from kuberay.build import manifests, shipped
from kuberay.serving import GPU_STAGES
from serve_apps.capacity import refuse_impossible
from serve_apps.config import check, serve_config
from serve_apps.placements import STAGES, Block
from tests.unit.kuberay.rendered import OVERLAYS, Pod, found, pods, ray_cluster, rendered

Config = dict[str, Any]


def service(overlay: str) -> dict[str, Any]:
    return found(rendered(overlay), "RayService")


def config(overlay: str) -> Config:
    document: Config = yaml.safe_load(service(overlay)["spec"]["serveConfigV2"])
    return document


def blocks(overlay: str) -> dict[str, dict[str, Any]]:
    (application,) = config(overlay)["applications"]
    return {each["name"]: each for each in application["deployments"]}


def nodes(overlay: str) -> dict[str, Any]:
    """What Ray's own autoscaler reads out of the cluster: per group how many nodes, and what one of them offers."""
    cluster = {"metadata": {"name": "cortex", "namespace": "x"}, "spec": ray_cluster(service(overlay))}
    types: dict[str, Any] = _derive_autoscaling_config_from_ray_cr(cluster)["available_node_types"]
    return types


def offered(overlay: str, count: str) -> dict[str, float]:
    """What all groups offer together with their fewest (`min_workers`) or most (`max_workers`) nodes."""
    total: dict[str, float] = {}
    for group, node in nodes(overlay).items():
        for resource, amount in node["resources"].items():
            n_nodes = 1 if group == "headgroup" else node[count]
            total[resource] = total.get(resource, 0.0) + amount * n_nodes
    return total


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_embedded_config_is_whole(overlay: str) -> None:
    """`cortex serve-config --check` takes it: the staged placement with every stage, in Serve's own words."""
    assert check(config(overlay), overlay) == "staged"
    assert set(blocks(overlay)) == {"ingress", *STAGES}
    ServeDeploySchema.model_validate(config(overlay))


def test_the_base_embeds_what_the_command_prints() -> None:
    """Without an overlay's changes it is the config of `cortex serve-config`, by these settings."""
    own = Settings.model_construct(llm_url="http://model:8000/v1", max_concurrent_requests=7)
    for settings in (shipped(), own):
        written = yaml.safe_load(manifests(settings)["base/rayservice.yaml"])["spec"]["serveConfigV2"]
        assert yaml.safe_load(written) == serve_config(settings, "staged")


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_first_replicas_have_room(overlay: str) -> None:
    """What the stages reserve at the start fits the nodes that are there from the start: nothing waits for a node."""
    first = [Block(name, options) for name, options in blocks(overlay).items()]
    refuse_impossible(first, offered(overlay, "min_workers"))


@pytest.mark.parametrize("overlay", ["base", "overlays/gpu"])
def test_the_groups_can_grow_to_the_largest_need(overlay: str) -> None:
    """With every stage at its most replicas, the processors and GPUs of all nodes suffice."""
    most = [
        Block(
            name, {**each, "autoscaling_config": {"min_replicas": each["autoscaling_config"]["max_replicas"]}}
        )
        for name, each in blocks(overlay).items()
    ]
    refuse_impossible(most, offered(overlay, "max_workers"))


def test_one_node_has_room_for_a_new_version() -> None:
    """On one node replicas reserve a share each, so none lands on the head, and twice as many fit while one replaces another."""
    small = blocks("overlays/small")
    reserved = {each["ray_actor_options"]["num_cpus"] for each in small.values()}
    head, worker = (nodes("overlays/small")[group]["resources"]["CPU"] for group in ("headgroup", "serve"))
    assert reserved == {0.25} and head == 0
    assert 2 * sum(each["ray_actor_options"]["num_cpus"] for each in small.values()) <= worker
    assert {each["autoscaling_config"]["max_replicas"] for each in small.values()} == {1}
    assert ray_cluster(service("overlays/small"))["enableInTreeAutoscaling"] is False


def test_gpus_are_asked_for_from_none() -> None:
    """Encoders have no replica until they are asked, and their group no node; all other stages need no GPU."""
    gpu = blocks("overlays/gpu")
    for name in GPU_STAGES:
        assert gpu[name]["autoscaling_config"]["min_replicas"] == 0
        assert gpu[name]["ray_actor_options"]["accelerator_type"] == "L4"
    assert {name for name, each in gpu.items() if each["ray_actor_options"].get("num_gpus")} == set(
        GPU_STAGES
    )
    assert (nodes("overlays/gpu")["gpu"]["min_workers"], nodes("overlays/gpu")["serve"]["min_workers"]) == (
        0,
        2,
    )


@pytest.mark.parametrize("name", GPU_STAGES)
def test_the_autoscaler_knows_what_a_gpu_node_would_offer(name: str) -> None:
    """Read by Ray's own autoscaler, an empty group promises what a replica asks for, the type of GPU included."""
    wants = blocks("overlays/gpu")[name]
    one = Block(name, {**wants, "autoscaling_config": {"min_replicas": 1, "max_replicas": 1}})
    refuse_impossible([one], nodes("overlays/gpu")["gpu"]["resources"])
    with pytest.raises(Misconfigured, match="GPU"):
        refuse_impossible([one], nodes("overlays/gpu")["serve"]["resources"])


def test_the_accelerator_is_a_parameter() -> None:
    """Another type stands wherever the first did: what the stages ask for, and what the group offers."""
    shipped_patch, other = (
        manifests(shipped(), accelerator)["overlays/gpu/rayservice.patch.yaml"]
        for accelerator in ("L4", "A10G")
    )
    assert shipped_patch.count("L4") == other.count("A10G") == 3
    assert shipped_patch.replace("L4", "A10G") == other


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_stages_take_the_fast_paths(overlay: str) -> None:
    """Every process of Ray has the variables that `cortex up` gives it for the staged placement."""
    for pod in ray_pods(overlay):
        env = {each["name"]: each.get("value") for each in pod.containers[0]["env"]}
        assert env.items() >= _FAST_STAGES.items(), pod.where


def ray_pods(overlay: str) -> list[Pod]:
    return list(pods([service(overlay)]))


@pytest.mark.parametrize(
    ("overlay", "path"), [("overlays/small", "/readyz"), ("overlays/gpu", "/readyz?words=true")]
)
def test_traffic_goes_to_pods_that_answer_a_query(overlay: str, path: str) -> None:
    """Workers are ready when a real query went through; where GPUs rest, by words, so that probes do not wake them."""
    head, *workers = ray_pods(overlay)
    assert head.where == "RayService head" and workers
    for worker in workers:
        probe = worker.containers[0]["readinessProbe"]
        assert (probe["httpGet"]["path"], probe["httpGet"]["port"]) == (
            path,
            config(overlay)["http_options"]["port"],
        )
        assert probe["timeoutSeconds"] > 10, "the query is given up after ten seconds, not before"
    # KubeRay deploys to a head that is ready, so the head must not wait for what is deployed.
    assert head.containers[0]["readinessProbe"]["httpGet"]["port"] != config(overlay)["http_options"]["port"]
    assert service(overlay)["spec"]["excludeHeadPodFromServeSvc"] is True


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_service_finds_the_port(overlay: str) -> None:
    """KubeRay makes the service of the ports that the head's container names `serve`."""
    head = ray_pods(overlay)[0].containers[0]
    assert {"name": "serve", "containerPort": config(overlay)["http_options"]["port"]} in head["ports"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_restarts_are_left_to_kuberay(overlay: str) -> None:
    """The autoscaler's second version refuses a pod that restarts by itself."""
    assert [pod.where for pod in ray_pods(overlay) if "restartPolicy" in pod.spec] == []
