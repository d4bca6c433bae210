"""Random worlds are worth searching: they hold every kind of access list, and the oracle knows nesting and denial."""

from cortex.documents import NOBODY, Acl, Grant, GrantKind, Membership
from eval.worlds import SHARED_WORD, World, may_view, random_world

ANA = Grant(GrantKind.USER, "ana")


def world(*memberships: Membership) -> World:
    return World("t", ("ana", "bo"), memberships, (), ())


def test_a_seed_makes_the_same_world_twice() -> None:
    """A failure can be replayed from its seed."""
    assert random_world(7) == random_world(7)
    assert random_world(7) != random_world(8)


def test_every_document_holds_the_shared_word() -> None:
    """So that one search must return everything visible."""
    assert all(
        SHARED_WORD in document.text for seed in range(20) for document in random_world(seed).documents
    )


def test_worlds_hold_allowed_denied_unknown_and_copied_documents() -> None:
    """Over fifty seeds each kind occurs, and both outcomes are common."""
    worlds = [random_world(seed) for seed in range(50)]
    seen = [may_view(w, user, d.acl) for w in worlds for user in w.user_ids for d in w.documents]
    assert 0.2 < sum(seen) / len(seen) < 0.8
    assert any(d.acl == NOBODY for w in worlds for d in w.documents)
    assert any(d.acl.denied for w in worlds for d in w.documents)
    assert any(len({d.text for d in w.documents}) < len(w.documents) for w in worlds)


def test_the_oracle_follows_nested_and_cyclic_groups() -> None:
    """Ana is in b, b in a, a in b: she may view what a may."""
    nested = world(
        Membership("b", ANA),
        Membership("a", Grant(GrantKind.GROUP, "b")),
        Membership("b", Grant(GrantKind.GROUP, "a")),
    )
    acl = Acl(frozenset({Grant(GrantKind.GROUP, "a")}))
    assert may_view(nested, "ana", acl)
    assert not may_view(nested, "bo", acl)


def test_the_oracle_lets_denial_win_and_unknown_hide() -> None:
    """Denied viewers and unknown lists see nothing."""
    assert not may_view(world(), "ana", Acl(frozenset({ANA}), frozenset({ANA})))
    assert not may_view(world(), "ana", NOBODY)
