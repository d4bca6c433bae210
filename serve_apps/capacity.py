"""What deployments ask of a cluster beside what it has: said before they are deployed, for Serve itself waits for ever."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from cortex.errors import Misconfigured
from serve_apps.placements import Block

_ANY_OF_A_TYPE = 0.001  # what Ray itself reserves of the resource that stands for a type of accelerator
_ROUNDING = 1e-6


def refuse_impossible(blocks: Iterable[Block], offered: Mapping[str, float]) -> None:
    """Raise Misconfigured when the first replicas of all deployments together ask for more than a cluster has.

    `offered` is what all nodes have in total. A cluster that grows by itself cannot be told from one that lacks nodes:
    there, let the stage start with `min_replicas: 0`.
    """
    asked: defaultdict[str, float] = defaultdict(float)
    askers: defaultdict[str, list[str]] = defaultdict(list)
    for block in blocks:
        for resource, amount in _needs(block):
            asked[resource] += amount
            askers[resource].append(block.name)
    for resource, amount in asked.items():
        if amount > offered.get(resource, 0.0) + _ROUNDING:
            raise _lacking(resource, amount, offered.get(resource, 0.0), askers[resource])


def _needs(block: Block) -> Iterator[tuple[str, float]]:
    """Name what the first replicas of a deployment reserve, in Ray's words; Serve reserves a processor by default."""
    options = block.options.get("ray_actor_options") or {}
    needs = {"CPU": options.get("num_cpus", 1), "GPU": options.get("num_gpus", 0)}
    needs |= options.get("resources") or {}
    if accelerator := options.get("accelerator_type"):
        needs[f"accelerator_type:{accelerator}"] = _ANY_OF_A_TYPE
    for resource, amount in needs.items():
        if amount and block.first_replicas:
            yield resource, float(amount) * block.first_replicas


def _lacking(resource: str, asked: float, offered: float, names: list[str]) -> Misconfigured:
    is_gpu = resource == "GPU" or resource.startswith("accelerator_type:")
    who = f"{names[0]} asks for" if len(names) == 1 else f"{', '.join(names)} together ask for"
    has = f"{offered:g}" if offered else "none"
    return Misconfigured(
        f"{who} {asked:g} {resource}, and this Ray has {has}",
        code="cluster.no_gpus" if is_gpu else "cluster.too_small",
        hint="add nodes, ask for less in CORTEX_SERVE_CONFIG, or let the stage start with min_replicas: 0",
    )
