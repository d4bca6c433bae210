"""Who may talk to whom, by the network policies as Kubernetes reads them: closed, and then what is needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.unit.kuberay.rendered import APPLIED, pods, rendered

Labels = Mapping[str, str]
OURS = {"kubernetes.io/metadata.name": "cortex"}
ASKERS = {"kubernetes.io/metadata.name": "gateway", "cortex-askers": "true"}
ELSEWHERE = {"kubernetes.io/metadata.name": "elsewhere"}
OPERATOR = {"kubernetes.io/metadata.name": "kuberay-system"}, {"app.kubernetes.io/name": "kuberay-operator"}


def peers() -> dict[str, tuple[Labels, Labels]]:
    """Everyone by name, as the labels of a namespace and of a pod."""
    ours = {pod.where: (OURS, pod.labels) for name in APPLIED for pod in pods(rendered(name))}
    names = {"Deployment": "relay", "Job": "ask"}
    return {
        **{names.get(where, where): peer for where, peer in ours.items()},
        "gateway": (ASKERS, {"app": "nginx"}),
        "stranger": (ELSEWHERE, {"app": "nginx"}),
        "neighbour": (OURS, {"app": "nginx"}),
        "operator": OPERATOR,
        "operator's namesake": (ELSEWHERE, OPERATOR[1]),
        "dns": ({"kubernetes.io/metadata.name": "kube-system"}, {"k8s-app": "kube-dns"}),
        "outside": ({}, {}),
    }


POLICIES = [each["spec"] for each in rendered("overlays/gpu") if each["kind"] == "NetworkPolicy"]


def flows(sender: str, receiver: str, port: int) -> bool:
    """Say whether a connection is let out by the sender's policies and in by the receiver's."""
    known = peers()
    return _allows("Egress", known[sender], known[receiver], port) and _allows(
        "Ingress", known[receiver], known[sender], port
    )


def _allows(side: str, own: tuple[Labels, Labels], other: tuple[Labels, Labels], port: int) -> bool:
    """Without a policy that selects a pod, everything is allowed; with some, what any of them allows."""
    namespace, labels = own
    selecting = [
        policy
        for policy in POLICIES
        if namespace == OURS and side in policy["policyTypes"] and _matches(policy["podSelector"], labels)
    ]
    return not selecting or any(_rules_allow(policy, side, other, port) for policy in selecting)


def _rules_allow(policy: dict[str, Any], side: str, other: tuple[Labels, Labels], port: int) -> bool:
    ends = "to" if side == "Egress" else "from"
    return any(
        (ends not in rule or any(_is_peer(peer, other) for peer in rule[ends]))
        and ("ports" not in rule or port in {each["port"] for each in rule["ports"]})
        for rule in policy.get(side.lower(), ())
    )


def _is_peer(peer: dict[str, Any], other: tuple[Labels, Labels]) -> bool:
    assert set(peer) <= {"namespaceSelector", "podSelector"}, "a kind of peer that this test does not read"
    namespace, labels = other
    in_namespace = (
        _matches(peer["namespaceSelector"], namespace) if "namespaceSelector" in peer else namespace == OURS
    )
    return in_namespace and _matches(peer.get("podSelector", {}), labels)


def _matches(selector: dict[str, Any], labels: Labels) -> bool:
    assert {each["operator"] for each in selector.get("matchExpressions", ())} <= {"In"}
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        labels.get(each["key"]) in each["values"] for each in selector.get("matchExpressions", ())
    )


SERVING = ("RayService head", "RayService serve", "RayService gpu")
LOADING = ("RayJob head", "RayJob load", "RayCluster head", "RayCluster load")


def cases() -> Iterator[tuple[str, str, int, bool]]:
    # Ray's nodes among themselves, on any port, and not with those of another use.
    for sender in SERVING:
        yield from ((sender, receiver, 34567, True) for receiver in SERVING)
        yield from ((sender, receiver, 6379, False) for receiver in LOADING)
    for sender in LOADING:
        yield from ((sender, receiver, 34567, True) for receiver in LOADING)
        yield from ((sender, receiver, 8000, False) for receiver in SERVING)
    yield "RayJob submitter", "RayJob head", 8265, True
    yield "RayJob submitter", "RayService head", 8265, False
    # Who asks.
    for worker in ("RayService serve", "RayService gpu"):
        yield from (("gateway", worker, port, port == 8000) for port in (8000, 8265, 52365, 6379))
        yield "ask", worker, 8000, True
        yield from ((who, worker, 8000, False) for who in ("stranger", "neighbour", "relay", "outside"))
    yield "gateway", "RayService head", 8000, False
    # The operator, and nobody who merely calls itself that.
    for head in ("RayService head", "RayJob head", "RayCluster head"):
        yield from (("operator", head, port, port == 8265) for port in (8265, 6379, 10001))
        yield "operator's namesake", head, 8265, False
        yield "gateway", head, 8265, False
    yield "operator", "RayService serve", 8265, False
    # Engines, names, and nothing else outside; a cloud's metadata answers on port 80.
    for ours in (*SERVING, *LOADING, "relay"):
        yield from ((ours, "outside", port, True) for port in (5432, 6333, 50051, 443))
        yield from ((ours, "outside", port, False) for port in (80, 22, 25))
    for ours in (*SERVING, *LOADING, "relay", "ask", "RayJob submitter"):
        yield ours, "dns", 53, True
        yield "stranger", ours, 22, False
    yield "ask", "outside", 443, False
    # Kubernetes' own API: the head that scales.
    yield "RayService head", "outside", 6443, True
    yield from ((who, "outside", 6443, False) for who in ("RayService serve", "relay", *LOADING))


@pytest.mark.parametrize(("sender", "receiver", "port", "is_let"), list(cases()))
def test_who_may_talk_to_whom(sender: str, receiver: str, port: int, is_let: bool) -> None:
    """A connection is let through exactly where one is needed."""
    assert flows(sender, receiver, port) is is_let


def test_every_pod_is_closed_from_both_sides() -> None:
    """Whatever the other policies say, no pod of ours is without one for each direction."""
    for name in APPLIED:
        for pod in pods(rendered(name)):
            closed = [policy for policy in POLICIES if not policy.get("ingress") and not policy.get("egress")]
            assert any(_matches(policy["podSelector"], pod.labels) for policy in closed), pod.where
            assert {side for policy in closed for side in policy["policyTypes"]} == {"Ingress", "Egress"}
