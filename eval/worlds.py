"""Random worlds: people, nested groups and documents with every kind of access list, and a naive oracle of who may see what."""

from __future__ import annotations

import random
from dataclasses import dataclass

from cortex.documents import EVERYONE, NOBODY, Acl, Grant, GrantKind, Membership

# One word is in every document, so that a search for it must return exactly the visible ones.
SHARED_WORD = "ledger"
_WORDS = [
    "valve",
    "sensor",
    "invoice",
    "harbour",
    "quorum",
    "pallet",
    "torque",
    "budget",
    "falcon",
    "lattice",
    "ember",
    "contract",
    "gasket",
    "orchard",
    "beacon",
    "tariff",
    "kernel",
    "ballast",
    "copper",
    "meadow",
    "signal",
    "archive",
    "tundra",
    "winch",
]


@dataclass(frozen=True, slots=True)
class WorldDocument:
    """One document of a world."""

    name: str
    text: str
    acl: Acl


@dataclass(frozen=True, slots=True)
class World:
    """A tenant of its own: people, group edges (nested, sometimes cyclic) and documents."""

    tenant_id: str
    user_ids: tuple[str, ...]
    memberships: tuple[Membership, ...]
    documents: tuple[WorldDocument, ...]
    queries: tuple[str, ...]


def random_world(seed: int) -> World:
    """Make a world from a seed: 3-6 people, 2-6 groups, 8-24 documents; about a fifth are copies or near-copies."""
    dice = random.Random(seed)  # noqa: S311 - a test world, no secret
    users = tuple(f"person{i}@world{seed}.example" for i in range(dice.randint(3, 6)))
    groups = tuple(f"group {i}" for i in range(dice.randint(2, 6)))
    memberships = tuple(
        dict.fromkeys(
            [
                Membership(dice.choice(groups), Grant(GrantKind.USER, dice.choice(users)))
                for _ in range(len(users) * 2)
            ]
            + [Membership(a, Grant(GrantKind.GROUP, b)) for a, b in _group_edges(dice, groups)]
        )
    )
    documents: list[WorldDocument] = []
    for i in range(dice.randint(8, 24)):
        is_copy = bool(documents) and dice.random() < 0.2
        text = dice.choice(documents).text if is_copy else _text(dice)
        if is_copy and dice.random() < 0.5:
            text += f" {dice.choice(_WORDS)}."
        documents.append(WorldDocument(f"doc {i}.txt", text, _acl(dice, users, groups)))
    queries = (SHARED_WORD, *(" ".join([SHARED_WORD, *dice.sample(_WORDS, 2)]) for _ in range(2)))
    return World(f"world-{seed}", users, memberships, tuple(documents), queries)


def _group_edges(dice: random.Random, groups: tuple[str, ...]) -> list[tuple[str, str]]:
    pairs = [(dice.choice(groups), dice.choice(groups)) for _ in range(len(groups))]
    return [(a, b) for a, b in pairs if a != b]


def _text(dice: random.Random) -> str:
    sentences = [" ".join(dice.choices(_WORDS, k=dice.randint(4, 9))) for _ in range(dice.randint(1, 3))]
    return f"The {SHARED_WORD} says: " + ". ".join(sentences) + "."


def _acl(dice: random.Random, users: tuple[str, ...], groups: tuple[str, ...]) -> Acl:
    roll = dice.random()
    if roll < 0.1:
        return NOBODY
    if roll < 0.2:
        return EVERYONE
    grants = [Grant(GrantKind.USER, user) for user in users] + [
        Grant(GrantKind.GROUP, group) for group in groups
    ]
    viewers = set(dice.sample(grants, dice.randint(0, 3)))
    if dice.random() < 0.15:
        viewers.add(Grant(GrantKind.EVERYONE))
    denied = set(dice.sample(grants, dice.randint(1, 2))) if dice.random() < 0.3 else set()
    return Acl(frozenset(viewers), frozenset(denied))


def may_view(world: World, user_id: str, acl: Acl) -> bool:
    """Say by brute force whether a person may view: the oracle that shares no code with the product."""
    subjects = {Grant(GrantKind.USER, user_id), Grant(GrantKind.EVERYONE)}
    while True:
        wider = subjects | {
            Grant(GrantKind.GROUP, edge.group_name) for edge in world.memberships if edge.member in subjects
        }
        if wider == subjects:
            break
        subjects = wider
    return acl.is_known and bool(acl.viewers & subjects) and not acl.denied & subjects
