"""The Serve config of both placements: whole, understood, bounded, and possible on the cluster that it goes to."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray._common.utils import import_attr
from ray.serve._private.api import call_user_app_builder_with_args_if_necessary
from ray.serve._private.build_app import build_app
from ray.serve.deployment import deployment_to_schema
from ray.serve.schema import ServeDeploySchema

from cluster.engines.ray import ENGINE as RAY
from cluster.place import Place
from cortex.errors import Misconfigured
from cortex.settings import Settings
from serve_apps import apps
from serve_apps.capacity import refuse_impossible
from serve_apps.config import check, serve_config
from serve_apps.placements import SHIPPED, STAGES, deployments_of, read_blocks
from serve_apps.query import BuildArgs, build

EVERY = [("fused", name) for name in deployments_of("fused")] + [
    ("staged", name) for name in deployments_of("staged")
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("CORTEX_HOME", str(tmp_path))
    return Settings(home=tmp_path)


def shipped() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))
    return document


def own(home: Settings, document: object) -> Settings:
    """Settings with a config file of the operator's own."""
    path = home.home / "own.yaml"
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return home.model_copy(update={"serve_config": path})


def test_the_shipped_config_names_every_deployment_once() -> None:
    """Fused is one deployment; staged an ingress and one for each stage of the path."""
    assert {name: tuple(blocks) for name, blocks in shipped().items()} == {
        "fused": ("query",),
        "staged": ("ingress", *STAGES),
    }


@pytest.mark.parametrize(("placement", "name"), EVERY)
def test_a_config_without_a_stage_is_refused(home: Settings, placement: Any, name: str) -> None:
    """The error names what is missing and where to find it."""
    document = shipped()
    del document[placement][name]
    with pytest.raises(Misconfigured, match=f"says nothing of {name}") as caught:
        read_blocks(own(home, document), placement)
    assert caught.value.error_code == "serve_config.incomplete"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"max_ongoing": 5}, "embedding: Serve does not know max_ongoing"),
        ({"ray_actor_options": {"num_gpu": 1}}, "embedding.ray_actor_options: Serve does not know num_gpu"),
        ({"autoscaling_config": {"min": 1}}, "embedding.autoscaling_config: Serve does not know min"),
        ({"autoscaling_config": {"min_replicas": 4, "max_replicas": 1}}, "embedding: .*replicas"),
        ({"max_queued_requests": "many"}, "embedding: max_queued_requests"),
    ],
)
def test_words_that_serve_would_overlook_are_refused(
    home: Settings, change: dict[str, Any], said: str
) -> None:
    """A misspelt option is an error that names it, not a default that nobody notices."""
    document = shipped()
    document["staged"]["embedding"]["deployment"] |= change
    with pytest.raises(Misconfigured, match=said) as caught:
        read_blocks(own(home, document), "staged")
    assert caught.value.error_code == "serve_config.invalid"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "serve_config.invalid"),
        ("[]", "serve_config.invalid"),
        ("fused: {}", "serve_config.invalid"),
        ("fused: {}\nstaged: {}\n", "serve_config.incomplete"),
    ],
)
def test_a_file_that_is_no_config_is_refused(home: Settings, text: str, code: str) -> None:
    """Whatever the file holds, the error is ours and has a code."""
    with pytest.raises(Misconfigured) as caught:
        read_blocks(own(home, text), "staged")
    assert caught.value.error_code == code


def test_a_file_that_is_not_there_is_refused(home: Settings) -> None:
    """A wrong path in the setting says which setting."""
    with pytest.raises(Misconfigured) as caught:
        read_blocks(home.model_copy(update={"serve_config": home.home / "none.yaml"}), "staged")
    assert (caught.value.error_code, "CORTEX_SERVE_CONFIG" in caught.value.hint) == (
        "serve_config.unreadable",
        True,
    )


def test_an_unknown_stage_is_refused(home: Settings) -> None:
    """A block that no deployment takes is a mistake in its name."""
    document = shipped()
    document["staged"]["embeddings"] = document["staged"]["embedding"]
    with pytest.raises(Misconfigured, match="names embeddings"):
        read_blocks(own(home, document), "staged")


@pytest.mark.parametrize("placement", ["fused", "staged"])
def test_every_queue_is_bounded_and_answers_429(home: Settings, placement: Any) -> None:
    """No deployment may gather questions without end, and who is refused is told when to come back."""
    for block in read_blocks(home, placement).values():
        assert 0 < block.options["max_queued_requests"] <= 256, block.name
        assert block.options["backpressure_config"] == {"status_code": 429, "retry_after_s": 1.0}, block.name
        assert block.options["max_ongoing_requests"] > 0, block.name


def test_a_stage_without_a_model_has_no_replica(home: Settings) -> None:
    """Rerank and generation start from nothing until a model is set; the others always run."""
    bare = {name: block.first_replicas for name, block in read_blocks(home, "staged").items()}
    assert [name for name, first in bare.items() if first == 0] == ["rerank", "generation"]
    with_models = home.model_copy(update={"rerank_model": "/models/x", "llm_url": "http://x/v1"})
    assert all(block.first_replicas for block in read_blocks(with_models, "staged").values())


def test_on_one_machine_nothing_is_reserved_and_nothing_is_doubled(home: Settings) -> None:
    """`cortex up` takes one replica each; a file of the operator's own is taken as it is."""
    for block in read_blocks(home, "staged", small=True).values():
        assert block.options["ray_actor_options"]["num_cpus"] == 0
        assert block.first_replicas <= block.options["autoscaling_config"]["max_replicas"] == 1
    asked = read_blocks(own(home, shipped()), "staged", small=True)["ingress"]
    assert (asked.first_replicas, asked.options["ray_actor_options"]["num_cpus"]) == (2, 1)


def test_the_app_is_built_from_the_config(home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replicas, GPUs, queues and time limits of the file are those of the deployments."""
    document = shipped()
    document["staged"]["embedding"]["deployment"] |= {
        "ray_actor_options": {"num_cpus": 2, "num_gpus": 0.5, "accelerator_type": "L4"},
        "max_queued_requests": 7,
    }
    document["staged"]["embedding"]["calls"] = {"timeout_s": 3.5, "attempts": 2}
    monkeypatch.setenv("CORTEX_SERVE_CONFIG", str(own(home, document).serve_config))
    built = build_app(build(BuildArgs(placement="staged")), name="cortex")
    deployed = {each.name: each for each in built.deployments}
    assert set(deployed) == {"ingress", *STAGES}
    assert built.ingress_deployment_name == "ingress"
    embedding = deployed["embedding"]
    assert embedding.max_queued_requests == 7
    options = embedding.ray_actor_options or {}
    assert {name: options[name] for name in ("num_cpus", "num_gpus", "accelerator_type")} == {
        "num_cpus": 2,
        "num_gpus": 0.5,
        "accelerator_type": "L4",
    }
    _, _, stages, limits = deployed["ingress"].init_args
    assert set(stages) == set(limits) == set(STAGES)
    assert (limits["embedding"].timeout_s, limits["embedding"].attempts) == (3.5, 2)


@pytest.mark.parametrize("placement", ["fused", "staged"])
def test_ready_made_apps_are_those_of_the_builder(home: Settings, placement: str) -> None:
    """`serve build` takes an app: each placement is offered as one, with the same deployments."""
    ready = build_app(getattr(apps, placement), name="cortex")
    made = build_app(build(BuildArgs(placement=placement)), name="cortex")  # type: ignore[arg-type]
    assert [each.name for each in ready.deployments] == [each.name for each in made.deployments]


def test_arguments_that_nobody_knows_are_refused() -> None:
    """A misspelt argument of a Serve config is an error."""
    with pytest.raises(ValueError, match="placment"):
        build({"placment": "staged"})


# ------------------------------------------------------------------------------------------------ the generated config


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("placement", ["fused", "staged"])
def test_the_generated_config_is_serves_own_and_passes_the_check(
    home: Settings, placement: Any, small: bool
) -> None:
    """What `cortex serve-config` prints is what Serve takes, and survives being written and read."""
    document = serve_config(home, placement, small=small)
    again = yaml.safe_load(yaml.safe_dump(document, sort_keys=False))
    assert again == document
    assert "&id" not in yaml.safe_dump(document)  # people edit it
    ServeDeploySchema.model_validate(again)
    assert check(again, "own.yaml") == placement


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("placement", ["fused", "staged"])
def test_serve_makes_the_app_of_the_generated_config(home: Settings, placement: Any, small: bool) -> None:
    """Serve imports what the config names and hands it the arguments as it does in a cluster."""
    (application,) = serve_config(home, placement, small=small)["applications"]
    builder = import_attr(application["import_path"])
    made = build_app(
        call_user_app_builder_with_args_if_necessary(builder, application["args"]), name="cortex"
    )
    assert {each.name for each in made.deployments} == {each["name"] for each in application["deployments"]}


@pytest.mark.parametrize("placement", ["fused", "staged"])
def test_serve_build_writes_the_same(home: Settings, placement: Any) -> None:
    """What `serve build` reads off the ready-made app says of every deployment what `cortex serve-config` says."""
    (application,) = serve_config(home, placement)["applications"]
    built = build_app(getattr(apps, placement), name="cortex").deployments
    theirs = {each.name: deployment_to_schema(each).model_dump(exclude_unset=True) for each in built}
    assert set(theirs) == {each["name"] for each in application["deployments"]}
    for ours in application["deployments"]:
        assert agreed(ours, theirs[ours["name"]]) == ours


def agreed(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """Of what they say, what we say too."""
    return {
        word: agreed(value, theirs[word]) if isinstance(value, dict) else theirs[word]
        for word, value in ours.items()
        if word in theirs
    }


def test_the_check_knows_what_serve_build_writes(home: Settings) -> None:
    """Its import path is a ready-made app, and says which placement it is."""
    document = serve_config(home, "staged")
    document["applications"][0] |= {"import_path": "serve_apps.apps:staged", "args": {}}
    assert check(document, "own.yaml") == "staged"


@pytest.mark.parametrize("name", deployments_of("staged"))
def test_the_check_refuses_a_deployed_config_without_a_stage(home: Settings, name: str) -> None:
    """Serve would silently take the shipped options for what a file leaves out."""
    document = serve_config(home, "staged")
    document["applications"][0]["deployments"] = [
        each for each in document["applications"][0]["deployments"] if each["name"] != name
    ]
    with pytest.raises(Misconfigured, match=name) as caught:
        check(document, "own.yaml")
    assert caught.value.error_code == "serve_config.incomplete"


@pytest.mark.parametrize(
    "document",
    [None, [], {"applications": []}, {"applications": [{"import_path": "other:app"}]}, {"applications": [{"import_path": "serve_apps.query:build"}]}],
)  # fmt: skip
def test_the_check_refuses_what_is_no_config_of_ours(document: object) -> None:
    """Another app's config, an empty one, or one that names no placement."""
    with pytest.raises(Misconfigured) as caught:
        check(document, "own.yaml")
    assert caught.value.error_code == "serve_config.invalid"


# --------------------------------------------------------------------------------------------------- what a cluster has


def with_gpu(home: Settings, **scaling: int) -> Settings:
    document = shipped()
    block = document["staged"]["embedding"]["deployment"]
    block["ray_actor_options"] = {"num_cpus": 1, "num_gpus": 1, "accelerator_type": "L4"}
    block["autoscaling_config"] |= scaling
    return own(home, document)


def test_a_cluster_without_gpus_that_is_asked_for_some_says_so(home: Settings) -> None:
    """Before anything is deployed: Serve itself would wait for ever."""
    blocks = read_blocks(with_gpu(home), "staged").values()
    with pytest.raises(Misconfigured, match="embedding asks for 2 GPU, and this Ray has none") as caught:
        refuse_impossible(blocks, {"CPU": 64.0})
    assert caught.value.error_code == "cluster.no_gpus"
    with pytest.raises(Misconfigured, match="accelerator_type:L4"):
        refuse_impossible(blocks, {"CPU": 64.0, "GPU": 4.0})
    refuse_impossible(blocks, {"CPU": 64.0, "GPU": 4.0, "accelerator_type:L4": 1.0})


def test_a_stage_that_starts_from_nothing_asks_for_nothing_yet(home: Settings) -> None:
    """With min_replicas 0 the GPU may come later."""
    refuse_impossible(read_blocks(with_gpu(home, min_replicas=0), "staged").values(), {"CPU": 64.0})


def test_a_cluster_that_is_too_small_says_so(home: Settings) -> None:
    """The first replicas of all deployments are added up."""
    with pytest.raises(Misconfigured, match="CPU") as caught:
        refuse_impossible(read_blocks(home, "staged").values(), {"CPU": 2.0})
    assert caught.value.error_code == "cluster.too_small"
    refuse_impossible(read_blocks(home, "staged", small=True).values(), {"CPU": 2.0})
    refuse_impossible(read_blocks(home, "fused").values(), {"CPU": 2.0})


@pytest.mark.parametrize(("placement", "is_fast"), [("fused", False), ("staged", True)])
def test_ray_takes_serves_fast_paths_for_stages_only(placement: str, is_fast: bool) -> None:
    """Stages call each other in gRPC; no replica opens a port of its own for HTTP."""
    assert RAY.launch is not None
    with tempfile.TemporaryDirectory(prefix="cortex-test-") as short:
        env = RAY.launch(Place(Settings(home=Path(short), placement=placement))).env  # type: ignore[arg-type]
    assert (env.get("RAY_SERVE_THROUGHPUT_OPTIMIZED") == "1") == is_fast
    assert env.get("RAY_SERVE_ENABLE_DIRECT_INGRESS", "0") == "0"
    assert "RAY_SERVE_ENABLE_HA_PROXY" not in env
