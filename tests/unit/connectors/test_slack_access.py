"""Who may open what was said in Slack: channels of every kind, guests, bots, strangers, and e-mail addresses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cortex.documents import NOBODY, Acl, Grant, GrantKind, ParsedBody
from cortex.errors import InputError
from tests.unit.connectors.slack_exports import connector, failures, files, items, said, user, write

VERIFIED = {"is_email_confirmed": True}


def account(user_id: str, email: str = "", **more: Any) -> dict[str, Any]:
    """Write an account with an address."""
    given = user(user_id, **more)
    return {**given, "profile": {**given["profile"], "email": email}}


def groups_of(root: Path) -> dict[str, set[str]]:
    """Return the members of every group of an export."""
    groups: dict[str, set[str]] = {}
    for edge in connector(root).memberships():
        groups.setdefault(edge.group_name, set()).add(edge.member.name)
    return groups


def allowed(root: Path) -> dict[str, Acl]:
    """Return each channel's access list."""
    source = connector(root)
    return {external_id.partition("/")[0]: source.acls(item) for external_id, item in items(root).items()}


def group(*names: str) -> Acl:
    return Acl(frozenset(Grant(GrantKind.GROUP, f"slack:{name}") for name in names))


def test_a_public_channel_is_for_the_full_members_of_the_workspace(tmp_path: Path) -> None:
    """Bots, deleted accounts, guests and people of other workspaces are no members; being in the channel is not needed."""
    people = [
        user("U0ANA"),
        user("U0BEN"),
        user("U0BOT", is_bot=True),
        user("USLACKBOT"),
        user("U0GONE", deleted=True),
        user("U0GUEST", is_restricted=True),
        user("U0ONE", is_ultra_restricted=True),
        {**user("U0EXT"), "team_id": "T0OTHER"},
        user("U0STRANGER", is_stranger=True),
    ]
    root = write(tmp_path, files(said("Hello"), **{"users.json": people}))
    assert allowed(root) == {"C0GEN": group("T0ACME")}
    assert groups_of(root) == {"slack:T0ACME": {"U0ANA", "U0BEN"}}


def test_guests_see_the_public_channels_that_they_are_in(tmp_path: Path) -> None:
    """A public channel with a guest in it is open to that guest too, by a group of its own."""
    channels = [
        {"id": "C0GEN", "name": "general", "members": ["U0ANA", "U0GUEST"]},
        {"id": "C0OPS", "name": "ops", "members": ["U0ANA"]},
    ]
    content = files(said("Hello"), **{"ops/2026-03-02.json": [said("Hi")], "channels.json": channels})
    content["users.json"] = [user("U0ANA"), user("U0GUEST", is_restricted=True)]
    root = write(tmp_path, content)
    assert allowed(root) == {"C0GEN": group("T0ACME", "C0GEN"), "C0OPS": group("T0ACME")}
    assert groups_of(root)["slack:C0GEN"] == {"U0GUEST"}


@pytest.mark.parametrize("name", ["groups.json", "mpims.json", "dms.json"])
def test_other_channels_are_for_their_members(tmp_path: Path, name: str) -> None:
    """A private channel, group message or direct message is open to the accounts in it that are active."""
    channel = {"id": "G0SEC", "name": "glacier", "members": ["U0ANA", "U0GONE", "U0UNKNOWN"]}
    people = [user("U0ANA"), user("U0BEN"), user("U0GONE", deleted=True)]
    root = write(tmp_path, {"users.json": people, name: [channel], "glacier/2026-03-02.json": [said("Hush")]})
    assert allowed(root) == {"G0SEC": group("G0SEC")}
    assert groups_of(root)["slack:G0SEC"] == {"U0ANA"}


@pytest.mark.parametrize(
    "channel",
    [
        {"id": "G0SEC", "name": "glacier"},
        {"id": "G0SEC", "name": "glacier", "members": None},
        {"id": "G0SEC", "name": "glacier", "members": "U0ANA"},
    ],
    ids=["missing", "null", "no-list"],
)
def test_unknown_members_mean_nobody_and_are_reported(tmp_path: Path, channel: dict[str, Any]) -> None:
    """Without a list of members nobody may see a private channel, and the report says so."""
    lists = {"users.json": [user("U0ANA")], "groups.json": [channel]}
    root = write(tmp_path, {**lists, "glacier/2026-03-02.json": [said("Hush")]})
    assert (allowed(root), failures(root)) == ({"G0SEC": NOBODY}, [("G0SEC", "access.unknown")])


@pytest.mark.parametrize("hint", [{"is_private": True}, {"is_im": True}, {"is_mpim": True}], ids=str)
def test_a_channel_may_be_more_private_than_its_list_says(tmp_path: Path, hint: dict[str, bool]) -> None:
    """A channel in the list of public ones that calls itself private is private."""
    channel = {"id": "C0GEN", "name": "general", "members": ["U0ANA"], **hint}
    assert allowed(write(tmp_path, files(said("Hush"), **{"channels.json": [channel]}))) == {
        "C0GEN": group("C0GEN")
    }


def test_messages_of_a_folder_that_no_list_names_are_for_nobody(tmp_path: Path) -> None:
    """A folder without a channel is loaded, closed and reported."""
    root = write(tmp_path, files(**{"stray/2026-03-02.json": [said("Whose?")]}))
    assert (allowed(root), failures(root)) == ({"stray": NOBODY}, [("stray", "access.unknown")])


def test_a_folder_that_two_channels_claim_is_for_nobody(tmp_path: Path) -> None:
    """When a public and a private channel have one name, their messages cannot be told apart."""
    private = {"id": "G0GEN", "name": "general", "members": ["U0ANA"]}
    assert set(allowed(write(tmp_path, files(said("Hush"), **{"groups.json": [private]}))).values()) == {
        NOBODY
    }


@pytest.mark.parametrize(
    ("people", "known"),
    [
        ([account("U1", "Ana@Acme.example", **VERIFIED)], {"ana@acme.example"}),
        ([account("U1", "ana@acme.example")], {"U1"}),
        ([account("U1", "ana@acme.example", is_email_confirmed=False)], {"U1"}),
        ([account("U1", "nonsense", **VERIFIED)], {"U1"}),
        ([account("U1", "a@b.example", **VERIFIED), account("U2", "A@b.example", **VERIFIED)], {"U1", "U2"}),
        (
            [
                account("U1", "a@b.example", **VERIFIED),
                account("U2", "a@b.example", deleted=True, **VERIFIED),
            ],
            {"a@b.example"},
        ),
    ],
    ids=["verified", "unsaid", "unverified", "no-address", "claimed-twice", "one-is-deleted"],
)
def test_people_are_known_by_a_verified_address(tmp_path: Path, people: list[Any], known: set[str]) -> None:
    """An address counts when Slack has verified it and one active account holds it; else the Slack id is the name."""
    assert groups_of(write(tmp_path, files(**{"users.json": people}))) == {"slack:T0ACME": known}


def test_user_groups_are_groups(tmp_path: Path) -> None:
    """A user group's members become group edges; a disabled group has none."""
    listed = [
        {"id": "S1", "handle": "ops", "users": ["U0ANA"]},
        {"id": "S2", "handle": "old", "users": ["U0ANA"], "date_delete": 1},
    ]
    groups = groups_of(write(tmp_path, files(**{"usergroups.json": listed})))
    assert groups == {"slack:T0ACME": {"U0ANA"}, "slack:S1": {"U0ANA"}}


@pytest.mark.parametrize("name", ["users.json", "channels.json", "groups.json", "dms.json"])
@pytest.mark.parametrize(
    "content",
    [b"", b"[", b"{}", b"\xff\xfe", b"[" * 200_000],
    ids=["empty", "cut", "object", "bytes", "deep"],
)
def test_a_broken_list_stops_the_run(tmp_path: Path, name: str, content: bytes) -> None:
    """Without its lists nobody's access can be known: nothing is loaded and nothing that was loaded changes."""
    root = write(tmp_path, files(said("Hello"), **{name: content}))
    with pytest.raises(InputError, match=name):
        list(connector(root).fetch(""))


@pytest.mark.parametrize(
    "bad", ["G0 slack:T0ACME", "G0\x00", "G0\ud800", "../T0ACME", "", "G" * 200, 7], ids=ascii
)
def test_an_id_that_is_none_of_slacks_opens_nothing(tmp_path: Path, bad: Any) -> None:
    """A channel's id names a group: one that could be read as two, or be stored by nobody, is no id."""
    channel = {"id": bad, "name": "secret", "members": ["U0ANA"]}
    content = files(said("Hello"), **{"groups.json": [channel], "secret/2026-03-02.json": [said("Secret")]})
    root = write(tmp_path, content)
    assert ("groups.json", "channel.malformed") in failures(root)
    assert allowed(root)["secret"] == NOBODY
    assert set(groups_of(root)) == {"slack:T0ACME"}


def test_names_that_no_store_can_hold_are_mended(tmp_path: Path) -> None:
    """NUL and lone surrogates in names, titles and addresses are left out or replaced, and stop nothing."""
    people = [{**account("U0ANA", "a\ud800\x00@acme.example", name="A\x00n\ud800a"), **VERIFIED}]
    channel = {"id": "C0GEN", "name": "gen\x00er\udfffal", "members": ["U0ANA"]}
    shared = {"id": "F0PLAN", "name": "pl\x00an.md", "title": "\ud83d", "mimetype": "text/\x00markdown"}
    content = {"users.json": people, "channels.json": [channel]}
    content["C0GEN/2026-03-02.json"] = [said("Hello \x00\ud800", files=[shared])]
    root = write(tmp_path, content)
    source = connector(root)
    given = [*items(root).values(), *source.memberships()]
    assert len(given) == 3
    for item in items(root).values():
        document = source.normalize(item, ParsedBody("", ()), "0" * 64)
        given.append(document)
    text = repr(given)
    assert "\\x00" not in text
    assert "\\ud" not in text
