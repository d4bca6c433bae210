"""Placements: which deployments each has, and what each deployment gets, read from one YAML file and checked whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from ray.serve.config import AutoscalingConfig
from ray.serve.schema import DeploymentSchema, RayActorOptionsSchema

from cortex.errors import Misconfigured
from cortex.settings import Settings

Placement: TypeAlias = Literal["fused", "staged"]
# What each holds stands in `serve_apps/stages.py`, which loads adapters; whoever only deploys needs the names.
STAGES = ("permissions", "understanding", "embedding", "search", "rerank", "recheck", "generation")
SHIPPED = Path(__file__).with_name("placements.yaml")
INGRESS: Mapping[Placement, str] = {"fused": "query", "staged": "ingress"}
_SHUTDOWN_S = 5.0  # on one machine nobody waits a minute for `cortex down`
# Beyond the questions that the guard counts: pages, health checks and refusals must not wait in Serve's queue.
_SPARE_REQUESTS = 64
# What a stage gets unless the file says otherwise: a new version's replicas start before the old ones stop, and one that
# died is missed within two seconds (Serve: ten), while its callers wait.
_FOR_STAGES = {"max_surge_percent": 100, "health_check_period_s": 2.0}
_TOO_MANY = {"status_code": 429, "retry_after_s": 1.0}
# Serve itself overlooks words that it does not know.
_WORDS: Mapping[str, type[BaseModel]] = {
    "autoscaling_config": AutoscalingConfig,
    "ray_actor_options": RayActorOptionsSchema,
}


@dataclass(frozen=True, slots=True)
class CallLimits:
    """How long a caller waits for one answer of a stage, and how often it sends a call when replicas are lost."""

    timeout_s: float = 20.0
    attempts: int = 3


@dataclass(frozen=True, slots=True)
class Block:
    """One deployment: its options in Serve's own words, and how it is called."""

    name: str
    options: Mapping[str, Any]
    limits: CallLimits = CallLimits()

    @property
    def first_replicas(self) -> int:
        """How many replicas it starts with."""
        scaling = self.options.get("autoscaling_config")
        if scaling is None:
            return int(self.options.get("num_replicas") or 1)
        first = scaling.get("initial_replicas")
        return int(scaling.get("min_replicas", 1) if first is None else first)


class _Calls(BaseModel):
    model_config = ConfigDict(extra="forbid")
    timeout_s: float = Field(default=20.0, gt=0)
    attempts: int = Field(default=3, ge=1, le=10)


class _Block(BaseModel):
    model_config = ConfigDict(extra="forbid")
    calls: _Calls = _Calls()
    deployment: dict[str, Any]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")
    fused: dict[str, _Block]
    staged: dict[str, _Block]


def read_blocks(settings: Settings, placement: Placement, *, small: bool = False) -> dict[str, Block]:
    """Read what each deployment of a placement gets, the ingress first.

    `small` is for one machine that holds everything: no deployment of the shipped file reserves a processor or has more
    than one replica; a file of the operator's own is taken as it is. Raises Misconfigured for a file that leaves out a
    deployment, names an unknown one or says what Serve does not understand.
    """
    path = settings.serve_config or SHIPPED
    said: dict[str, _Block] = getattr(_read(path), placement)
    require_all(placement, said, path.name)
    blocks = {
        name: Block(name, _checked(name, said[name].deployment), CallLimits(**dict(said[name].calls)))
        for name in deployments_of(placement)
    }
    if small and path == SHIPPED:
        blocks = {name: _small(block) for name, block in blocks.items()}
    return {name: _completed(block, settings) for name, block in blocks.items()}


def deployments_of(placement: Placement) -> tuple[str, ...]:
    """Name the deployments of a placement, the ingress first."""
    return (INGRESS[placement], *(STAGES if placement == "staged" else ()))


def require_all(placement: Placement, named: Mapping[str, Any], where: str) -> None:
    """Raise Misconfigured unless exactly the deployments of a placement are named."""
    wanted = deployments_of(placement)
    missing = [name for name in wanted if name not in named]
    unknown = [name for name in named if name not in wanted]
    if missing:
        raise Misconfigured(
            f"{where} says nothing of {', '.join(missing)}: the {placement} placement needs {', '.join(wanted)}",
            code="serve_config.incomplete",
            hint="take the missing blocks from serve_apps/placements.yaml",
        )
    if unknown:
        raise Misconfigured(
            f"{where} names {', '.join(unknown)}; the {placement} placement has {', '.join(wanted)}",
            code="serve_config.unknown",
            hint="remove or rename what is unknown",
        )


def _read(path: Path) -> _File:
    try:
        return _File.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise Misconfigured(
            f"{path} cannot be read: {error.strerror}",
            code="serve_config.unreadable",
            hint="correct or unset CORTEX_SERVE_CONFIG",
        ) from error
    except yaml.YAMLError as error:
        raise _invalid(path.name, "it is not YAML") from error
    except ValidationError as error:
        raise _invalid(path.name, explained(error)) from error


def _checked(name: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return options that Serve takes; raises Misconfigured for a word it does not know or a value it refuses."""
    _require_known(name, options, DeploymentSchema)
    for part, words in _WORDS.items():
        _require_known(f"{name}.{part}", options.get(part) or {}, words)
    try:
        DeploymentSchema(name=name, **options)
        AutoscalingConfig(**(options.get("autoscaling_config") or {}))
    except (ValueError, TypeError) as error:
        raise _invalid(name, explained(error)) from error
    return options


def _require_known(where: str, options: Mapping[str, Any], words: type[BaseModel]) -> None:
    unknown = [word for word in options if word not in words.model_fields or word == "name"]
    if unknown:
        raise _invalid(where, f"Serve does not know {', '.join(unknown)}")


def explained(error: Exception) -> str:
    """Say what a value is refused for, without repeating it."""
    if isinstance(error, ValidationError):
        first = error.errors(include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error)


def _invalid(where: str, said: str) -> Misconfigured:
    return Misconfigured(
        f"{where}: {said}", code="serve_config.invalid", hint="see serve_apps/placements.yaml"
    )


def _small(block: Block) -> Block:
    options = {**block.options, "graceful_shutdown_timeout_s": _SHUTDOWN_S}
    options["ray_actor_options"] = {**options.get("ray_actor_options", {}), "num_cpus": 0}
    if scaling := options.get("autoscaling_config"):
        options["autoscaling_config"] = {
            **scaling,
            "min_replicas": min(scaling.get("min_replicas", 1), 1),
            "max_replicas": 1,
        }
    return replace(block, options=options)


def _completed(block: Block, settings: Settings) -> Block:
    """Fill in what the file leaves out, and what settings decide: a stage without a model has no replica."""
    unsaid = {} if block.name == INGRESS["fused"] else _FOR_STAGES
    options = {"backpressure_config": dict(_TOO_MANY), **unsaid, **block.options}
    if block.name in INGRESS.values():
        options.setdefault("max_ongoing_requests", settings.max_concurrent_requests + _SPARE_REQUESTS)
    if not is_configured(block.name, settings):
        options.pop("num_replicas", None)
        scaling = {**(options.get("autoscaling_config") or {}), "min_replicas": 0}
        scaling.pop("initial_replicas", None)
        options["autoscaling_config"] = scaling
    return replace(block, options=options)


def is_configured(name: str, settings: Settings) -> bool:
    """Say whether settings give a deployment anything to do: a stage of a model does nothing until one is set."""
    return bool({"rerank": settings.rerank_model, "generation": settings.llm_url}.get(name, True))
