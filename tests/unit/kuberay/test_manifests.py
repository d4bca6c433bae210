"""The manifests: as written, understood by Kubernetes and KubeRay to the last field, and without rights or secrets."""

from __future__ import annotations

import copy
import json
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from kuberay.build import FOLDER, manifests, shipped
from kuberay.pods import HOME, IMAGE
from tests.unit.kuberay.crds import CRDS, faults
from tests.unit.kuberay.rendered import APPLIED, Pod, all_pods, found, pods, ray_cluster, render, rendered

# The oldest that the how-to promises, and the newest that is known.
KUBERNETES = ("1.29", "1.37")
PODS = pytest.mark.parametrize(
    "pod", [pytest.param(pod, id=f"{name}: {pod.where}") for name, pod in all_pods()]
)
needs_crds = [
    pytest.mark.shared_data,
    pytest.mark.skipif(not CRDS.is_dir(), reason=f"no definitions of KubeRay in {CRDS}"),
]


def documents() -> list[dict[str, Any]]:
    """Every resource of every kustomization."""
    return [document for name in APPLIED for document in rendered(name)]


# ---------------------------------------------------------------------------------------------------------- as written


@pytest.mark.parametrize("name", sorted(manifests(shipped())))
def test_written_manifests_are_current(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A written file equals what its code writes, whatever this machine's own settings are; else run `make docs`."""
    monkeypatch.setenv("CORTEX_LLM_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("CORTEX_MAX_CONCURRENT_REQUESTS", "3")
    assert (FOLDER / name).read_text(encoding="utf-8") == manifests(shipped())[name], "run `make docs`"


def test_every_file_is_part_of_a_kustomization() -> None:
    """No manifest lies beside: each is named by the kustomization of its folder."""
    for path in FOLDER.rglob("*.yaml"):
        if path.name != "kustomization.yaml":
            assert path.name in (path.parent / "kustomization.yaml").read_text(encoding="utf-8"), path


# ---------------------------------------------------------------------------------------------------------- understood


@pytest.mark.parametrize("kubernetes", KUBERNETES)
def test_kubernetes_knows_every_field(kubernetes: str) -> None:
    """Resources of Kubernetes, and the pods inside of KubeRay's, pass its schemas with unknown fields refused."""
    plain = [document for document in documents() if not document["kind"].startswith("Ray")]
    resources = [*plain, *(as_pod(pod) for _, pod in all_pods())]
    once = {json.dumps(resource, sort_keys=True): resource for resource in resources}
    assert len(once) > 20
    for resource in once.values():
        kubernetes_validate.validate(resource, kubernetes, strict=True)


def as_pod(pod: Pod) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x", "labels": pod.labels},
        "spec": pod.spec,
    }


def test_the_schemas_would_notice_a_misspelt_field() -> None:
    """One wrong word deep in a pod is refused."""
    pod = as_pod(copy.deepcopy(next(pods(rendered("ask")))))
    pod["spec"]["containers"][0]["securityContext"]["readonlyRootFilesystem"] = True
    with pytest.raises(kubernetes_validate.ValidationError, match="readonlyRootFilesystem"):
        kubernetes_validate.validate(pod, KUBERNETES[-1], strict=True)


class TestAgainstKubeRay:
    """KubeRay's own definitions."""

    pytestmark = needs_crds

    @pytest.mark.parametrize("name", [name for name in APPLIED if name != "ask"])
    def test_kuberay_knows_every_field(self, name: str) -> None:
        """RayService, RayJob and RayCluster pass its definitions with unknown fields refused."""
        ours = [document for document in rendered(name) if document["kind"].startswith("Ray")]
        assert len(ours) == 1
        assert [fault for document in ours for fault in faults(document)] == []

    @pytest.mark.parametrize(
        "path",
        [
            "serveConfig",
            "rayClusterConfig.autoscalerOption",
            "rayClusterConfig.headGroupSpec.rayStartParam",
            "rayClusterConfig.headGroupSpec.template.spec.automountServiceAccountTokens",
        ],
    )
    def test_the_definitions_would_notice_a_misspelt_field(self, path: str) -> None:
        """A word that they do not know is refused wherever it stands."""
        service = copy.deepcopy(found(rendered("overlays/gpu"), "RayService"))
        *parents, word = path.split(".")
        part = service["spec"]
        for each in parents:
            part = part[each]
        part[word] = True
        assert any(f"'{word}' was unexpected" in fault for fault in faults(service))

    def test_the_definitions_would_notice_a_wrong_type(self) -> None:
        """A number where Ray wants words is refused: `ray start` parameters are strings."""
        service = copy.deepcopy(found(rendered("overlays/gpu"), "RayService"))
        service["spec"]["rayClusterConfig"]["headGroupSpec"]["rayStartParams"]["num-cpus"] = 0
        assert len(faults(service)) == 1

    def test_the_component_for_recovery_fits(self, tmp_path: Path) -> None:
        """With the head's state in Redis the RayService is still one, and its password still a reference."""
        (service,) = [document for document in with_recovery(tmp_path) if document["kind"] == "RayService"]
        assert faults(service) == []


def test_recovery_takes_its_password_from_the_secret(tmp_path: Path) -> None:
    """The component adds Redis by reference, and lets the head out to it."""
    built = with_recovery(tmp_path)
    options = ray_cluster(found(built, "RayService"))["gcsFaultToleranceOptions"]
    assert options["redisPassword"] == {
        "valueFrom": {"secretKeyRef": {"name": "cortex", "key": "REDIS_PASSWORD"}}
    }
    assert "cortex-redis" in {each["metadata"]["name"] for each in built if each["kind"] == "NetworkPolicy"}


def with_recovery(folder: Path) -> list[dict[str, Any]]:
    """Render the GPU overlay with the component, as an operator's own kustomization would."""
    own = folder / "kuberay"
    for path in FOLDER.rglob("*.yaml"):
        copied = own / path.relative_to(FOLDER)
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_text(path.read_text())
    overlay = own / "overlays" / "gpu" / "kustomization.yaml"
    overlay.write_text(overlay.read_text() + "components:\n  - ../../components/head-recovery\n")
    return render(overlay.parent)


# ------------------------------------------------------------------------------------------- without rights or secrets


@PODS
def test_pods_run_without_root_and_without_rights(pod: Pod) -> None:
    """Every pod names an unprivileged user; no container can gain a right or write into its image."""
    security = pod.spec["securityContext"]
    assert security["runAsNonRoot"] is True and security["runAsUser"] > 0
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod.spec)
    assert not [volume for volume in pod.spec["volumes"] if "hostPath" in volume]
    for container in pod.containers:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }, container["name"]


@PODS
def test_what_programs_write_to_is_a_volume(pod: Pod) -> None:
    """With a read-only image, the scratch folder and the home are mounted where programs look for them."""
    for container in pod.containers:
        paths = {mount["mountPath"] for mount in container["volumeMounts"]}
        assert "/tmp" in paths
        assert container["name"] == "ray-job-submitter" or HOME in paths
        assert {mount["name"] for mount in container["volumeMounts"]} <= {
            volume["name"] for volume in pod.spec["volumes"]
        }


@PODS
def test_only_the_head_that_scales_may_talk_to_kubernetes(pod: Pod) -> None:
    """No pod gets a token of the API but the head of what serves, whose autoscaler needs it."""
    is_scaling_head = pod.where == "RayService head"
    assert pod.spec["automountServiceAccountToken"] is is_scaling_head
    assert pod.spec["serviceAccountName"] == ("cortex-head" if is_scaling_head else "cortex")


@PODS
def test_every_container_has_requests_and_limits(pod: Pod) -> None:
    """Processor and memory are asked for and bounded."""
    for container in pod.containers:
        for side in ("requests", "limits"):
            assert {"cpu", "memory"} <= set(container["resources"][side]), container["name"]


@PODS
def test_images_say_what_they_are(pod: Pod) -> None:
    """One image everywhere, with the version as its tag."""
    assert {container["image"] for container in pod.containers} == {IMAGE}
    assert not IMAGE.endswith(":latest") and ":" in IMAGE


def test_secrets_are_referred_to_and_never_written() -> None:
    """No Secret is among the resources; every variable with a secret name takes its value from one."""
    assert [document for document in documents() if document["kind"] == "Secret"] == []
    secret = re.compile(r"TOKEN|PASSWORD|SECRET|KEY|POSTGRES_URL|CODE")
    for name, pod in all_pods():
        for container in pod.containers:
            for variable in container["env"]:
                if secret.search(variable["name"]):
                    assert "secretKeyRef" in variable["valueFrom"], (name, variable["name"])
    for config in (document for document in documents() if document["kind"] == "ConfigMap"):
        assert [each for each in config["data"] if secret.search(each)] == []


def test_the_head_that_serves_knows_no_password() -> None:
    """It answers nobody's question, so it gets addresses alone; workers get what they need."""
    service = {pod.where: pod for pod in pods(rendered("overlays/gpu"))}
    head = service["RayService head"].containers[0]
    assert [variable["name"] for variable in head["env"] if "valueFrom" in variable] == []
    for group in ("serve", "gpu"):
        names = {variable["name"] for variable in service[f"RayService {group}"].containers[0]["env"]}
        assert {"CORTEX_POSTGRES_URL", "CORTEX_SPICEDB_TOKEN"} <= names


@pytest.mark.parametrize("name", ["overlays/small", "overlays/gpu", "load", "load-cluster"])
def test_ray_is_the_one_in_the_locks_and_asks_for_a_token(name: str) -> None:
    """KubeRay chooses probes by the version; nothing but a holder of the cluster's token may use Ray."""
    (document,) = [document for document in rendered(name) if document["kind"].startswith("Ray")]
    cluster = ray_cluster(document)
    assert cluster["rayVersion"] == version("ray")
    assert cluster["authOptions"] == {"mode": "token"}
    assert f"ray=={cluster['rayVersion']} " in re.sub(
        r"\[.*?\]", "", (FOLDER.parent / "locks" / "base.txt").read_text(encoding="utf-8")
    )


def test_a_drain_leaves_one_that_serves() -> None:
    """The budget selects the workers of what serves, and is left out where there is only one."""
    budget = found(rendered("overlays/gpu"), "PodDisruptionBudget")["spec"]
    selected = [
        pod.where for _, pod in all_pods() if budget["selector"]["matchLabels"].items() <= pod.labels.items()
    ]
    assert set(selected) == {"RayService serve", "RayService gpu"}
    assert budget["minAvailable"] == 1
    assert [each for each in rendered("overlays/small") if each["kind"] == "PodDisruptionBudget"] == []


def test_what_loads_and_serves_shares_one_home() -> None:
    """A source's lock and a one-time code are files of a home: pods that load or answer must see the same ones."""
    apart = {"RayService head", "RayJob submitter", "Job"}
    for name, pod in all_pods():
        claims = {
            v["persistentVolumeClaim"]["claimName"]
            for v in pod.spec["volumes"]
            if "emptyDir" not in v and "secret" not in v
        }
        assert ("cortex-home" in claims) is (pod.where not in apart), (name, pod.where)
        assert ("cortex-documents" in claims) is (
            pod.where.startswith(("RayJob ", "RayCluster ", "Deployment")) and pod.where not in apart
        )


@pytest.mark.parametrize(
    ("overlay", "mode"), [("overlays/small", "ReadWriteOnce"), ("overlays/gpu", "ReadWriteMany")]
)
def test_on_one_node_a_disk_of_it_will_do(overlay: str, mode: str) -> None:
    """Several nodes need volumes that several can mount."""
    claims = [document for document in rendered(overlay) if document["kind"] == "PersistentVolumeClaim"]
    assert [claim["spec"]["accessModes"] for claim in claims] == [[mode], [mode]]


def test_the_signing_key_is_seen_by_those_alone_that_verify() -> None:
    """Only pods that answer people mount the key, read-only."""
    holders = {
        pod.where
        for _, pod in all_pods()
        if any(
            volume.get("secret") == {"secretName": "cortex-keys", "defaultMode": 0o440}
            for volume in pod.spec["volumes"]
        )
    }
    assert holders == {"RayService serve", "RayService gpu"}
