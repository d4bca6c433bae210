"""Slack into real engines: a recorded archive whole and once, and channels that are for their members alone."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.catalog.pushes import CatalogPushes
from connectors import slack_api
from cortex.evidence import Question
from cortex.principals import Principal
from cortex.settings import Settings
from cortex.settings import settings as read
from data_jobs.ingest import ingest
from data_jobs.refetch import refetch
from data_jobs.run import IngestReport
from data_jobs.sources import Naming, slack_source
from retrieval.path import search
from serve_apps.parts import open_parts
from tests.twins.slack_workspace import TOKEN, Workspace, serving

pytestmark = [
    pytest.mark.services,
    pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection"),  # loopback
]

EXPORT = Path(__file__).parents[1] / "fixtures" / "slack" / "export"
DATA = Path(os.environ.get("CORTEX_EVAL_DATA", Path(__file__).parents[3] / "shared" / "data"))
ARCHIVE = DATA / "connectors" / "slack_export_archive" / "testarchive.zip"
SECRET = "What did they offer?"


@pytest.fixture
def settings(home_engines: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """Settings of a tenant of its own, and a token for the workspace on loopback."""
    monkeypatch.setenv("CORTEX_SLACK_TOKEN", TOKEN)
    at_once = slack_api.Clock(sleep=lambda seconds: None)
    monkeypatch.setattr(slack_api, "Clock", lambda: at_once)
    read.cache_clear()
    yield home_engines.model_copy(update={"tenant_id": f"slack-{uuid.uuid4().hex[:8]}"})
    read.cache_clear()


def load(settings: Settings, place: str) -> IngestReport:
    """Load an export or workspace in this process."""
    return ingest(settings, slack_source(settings, place, Naming("acme", "chat"), domain="acme"))


def counts(report: IngestReport) -> tuple[int, int, int]:
    return report.indexed, report.unchanged, report.removed


async def found(settings: Settings, user_id: str, text: str) -> list[tuple[str, str]]:
    """Ask as a person; returns the title and the first message's address of what is found."""
    async with open_parts(settings) as parts:
        result = await search(parts, Principal(settings.tenant_id, user_id), Question(text))
    return [(fragment.hit.title, fragment.anchor.fragment) for fragment in result.fragments]


@pytest.mark.shared_data
@pytest.mark.skipif(not ARCHIVE.is_file(), reason="the recorded archive is not on this machine")
async def test_a_recorded_archive_is_loaded_whole_and_once(settings: Settings) -> None:
    """Every day of a real export is indexed, what is not is named, a second load changes nothing."""
    first, second = load(settings, str(ARCHIVE)), load(settings, str(ARCHIVE))
    assert (counts(first), counts(second)) == ((18, 0, 0), (0, 18, 0))
    assert [failed.code for failed in first.failed] == ["file.not_exported"] * 3
    assert {kind.code: kind.n for kind in first.skipped} == {
        "archive.not_read": 1,
        "message.bot_add": 3,
        "message.channel_join": 8,
    }
    titles = [
        title for title, _ in await found(settings, "U0BMQB6JE", "genetic algorithm or simulated annealing?")
    ]
    assert titles[0] == "#enrique, 2016-03-17"


async def test_a_private_channel_is_for_its_members_until_they_leave(settings: Settings) -> None:
    """A member finds the thread with its message's address, a colleague does not; after leaving nor does the member."""
    workspace = Workspace.of_export(EXPORT)
    with serving(workspace):
        load(settings, workspace.url)
        thread = ("#glacier: They offered forty million.", "p1772700000000900")
        assert thread in await found(settings, "yuki@acme.example", SECRET)
        assert thread not in await found(settings, "ben@acme.example", SECRET)

        workspace.members["G0SEC"].remove("U0YUKI")
        assert counts(load(settings, workspace.url)) == (0, 8, 0)
        assert thread not in await found(settings, "yuki@acme.example", SECRET)
        assert thread in await found(settings, "ana@acme.example", SECRET)


async def test_a_shared_file_is_found_by_those_of_its_channel(settings: Settings) -> None:
    """What a file in a private channel says is for the channel's members; its thread leads to it, a second load reads nothing."""
    workspace = Workspace.of_export(EXPORT)
    with serving(workspace):
        report = load(settings, workspace.url)
        assert (report.indexed, report.links.resolved) == (8, 1)
        question = "When is the second instalment paid?"
        assert "The offer, in full" in [
            title for title, _ in await found(settings, "yuki@acme.example", question)
        ]
        titles = [title for title, _ in await found(settings, "ben@acme.example", question)]
        assert "The offer, in full" not in titles
        workspace.calls.clear()
        assert counts(load(settings, workspace.url)) == (0, 8, 0)
        assert [method for method, _ in workspace.calls if method == "GET"] == []


async def test_guests_and_leavers_find_what_slack_shows_them(settings: Settings) -> None:
    """A guest finds the public channel that they are in and no other; a dark channel is for nobody."""
    load(settings, str(EXPORT))
    assert "#design, 2026-03-04" in [
        title for title, _ in await found(settings, "gil@agency.example", "blue lamp draft")
    ]
    assert await found(settings, "gil@agency.example", "When do we ship Lumi 4?") == [
        ("#design, 2026-03-04", "p1772620000000800")
    ]
    for person in ("ana@acme.example", "ben@acme.example"):
        titles = [title for title, _ in await found(settings, person, "Whoever could read this?")]
        assert "#dark, 2026-03-05" not in titles


async def test_a_push_brings_what_changed_and_takes_what_left(settings: Settings) -> None:
    """A late reply is found, a deleted thread is gone and a leaver shut out, with no load of the rest in between."""
    workspace = Workspace.of_export(EXPORT)
    with serving(workspace):
        source_id = load(settings, workspace.url).source_id
        queue = CatalogPushes(settings.postgres_url)
        workspace.messages["C0GEN"].append(
            {"type": "message", "user": "U0BEN", "text": "It slipped to the ninth of May.",
             "ts": "1772900000.000000", "thread_ts": "1772444000.000200"}
        )  # fmt: skip
        assert queue.record(source_id, "Ev1", ["C0GEN/1772444000.000200", "C0GEN/2026-03-02"])
        refetch(settings, source_id)
        title = "#general: When do we ship Lumi 4 (https://acme.example/lumi)?"
        assert title in [
            one for one, _ in await found(settings, "ben@acme.example", "slipped to the ninth of May")
        ]

        thread = ("#glacier: They offered forty million.", "p1772700000000900")
        workspace.members["G0SEC"].remove("U0YUKI")
        assert thread in await found(settings, "yuki@acme.example", SECRET)
        queue.record(source_id, "Ev2", [])
        refetch(settings, source_id)
        assert thread not in await found(settings, "yuki@acme.example", SECRET)

        workspace.messages["G0SEC"].clear()
        queue.record(source_id, "Ev3", ["G0SEC/1772700000.000900", "G0SEC/F0OFFER"])
        refetch(settings, source_id)
        titles = {one for one, _ in await found(settings, "ana@acme.example", SECRET)}
        assert not titles & {"#glacier: They offered forty million.", "The offer, in full"}
        assert queue.waiting(source_id) == []
        assert counts(load(settings, workspace.url)) == (0, 6, 0)
