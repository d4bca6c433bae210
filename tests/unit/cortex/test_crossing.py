"""Values that cross between processes: equal on the other side, and pickled without a loop over their fields in Python."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime
from typing import Any

import pytest

from cortex.documents import Anchor
from cortex.evidence import Candidate, Hit, LaneScores

LANES = LaneScores(0.5, 1, None, None)
HIT = Hit(
    chunk_id="c1",
    document_id="d1",
    source_id="s1",
    source_type="files",
    collection="notes",
    title="Birds",
    text="The kestrel.",
    heading_path=("Birds", "Falcons"),
    anchor=Anchor("line", 3, 4, ""),
    permalink="file:///birds.md",
    score=0.25,
    lanes=LANES,
    ordinal=2,
    byte_start=10,
    byte_end=22,
    group_id="g1",
    content_sha256="0" * 64,
    profile_id=7,
    author="Ada",
    updated_at=datetime(2026, 3, 1, tzinfo=UTC),
)
VALUES = [LANES, Anchor("page", 2, 2, ""), Candidate("c1", "d1", 0.5, LANES), HIT]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_value_arrives_equal(value: Any, protocol: int) -> None:
    arrived = pickle.loads(pickle.dumps(value, protocol))
    assert arrived == value and type(arrived) is type(value)
    assert copy.copy(value) == copy.deepcopy(value) == value


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_is_sent_as_its_fields(value: Any) -> None:
    kind, arguments = value.__reduce__()
    assert kind is type(value) and kind(*arguments) == value
