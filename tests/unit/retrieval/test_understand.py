"""The shape of a question, and the lanes chosen by it."""

from __future__ import annotations

import pytest

from cortex.evidence import Question
from cortex.settings import Settings
from retrieval.plan import Plan
from retrieval.understand import read_shape, script_shares, understand


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("why does OPS-142 block the release", ("OPS-142",)),
        ('find "notice period" in the contract', ("notice period",)),
        ("「経費精算」の期限", ("経費精算",)),
        ("max_retry_count default", ("max_retry_count",)),
        ("where is parseConfig called", ("parseConfig",)),
        ("HttpClient timeouts", ("HttpClient",)),
        ("what is in retrieval/path.py", ("retrieval/path.py",)),
        ("os.path.join() on windows", ("os.path.join()",)),
        ("error 0x80070057 in v1.2.3", ("0x80070057", "v1.2.3")),
        ("When does the canteen open? And the office", ()),
        ("it was late. Then it rained", ()),
        ("state-of-the-art methods at 9 a.m. in the U.S.", ()),
    ],
)
def test_exact_terms(text: str, terms: tuple[str, ...]) -> None:
    """Quoted phrases and identifiers are found; ordinary words, full stops and hyphens are not."""
    assert read_shape(text).exact_terms == terms


def test_exact_terms_weigh_the_lexical_lane() -> None:
    """A ticket number raises the lexical lane and the plan says why."""
    lanes = understand(Question("status of OPS-142"), Plan())
    assert lanes.weight_bm25 > lanes.weight_dense
    assert lanes.reasons == ("exact terms weigh more: OPS-142",)


@pytest.mark.parametrize(
    ("text", "weight_dense"),
    [("経費精算の期限", 0.0), ("срок отчёта", 0.0), ("when is the deadline", 1.5), ("2024", 1.5)],
)
def test_a_script_unknown_to_the_model_leaves_the_dense_lane_out(text: str, weight_dense: float) -> None:
    """An English model's vectors of other scripts are noise; figures belong to every script."""
    assert understand(Question(text), Plan()).weight_dense == weight_dense


def test_mixed_scripts_weigh_the_dense_lane_by_its_share() -> None:
    """Of a question half in English the dense lane understands half."""
    lanes = understand(Question("Rayクラスタdeployの手順"), Plan())
    assert 0 < lanes.weight_dense < 1.5
    assert lanes.weight_bm25 == 1


def test_a_multilingual_model_takes_every_script() -> None:
    """A model folder set by the operator counts as multilingual unless its scripts are named."""
    plan = Plan.from_settings(Settings(embedding_model="/models/e5"))
    assert understand(Question("経費精算の期限"), plan).weight_dense == 1.5
    named = Plan.from_settings(Settings(embedding_model="/models/e5", embedding_scripts="latin, Han"))
    assert named.embedding_scripts == {"latin", "han"}


def test_the_askers_choice_of_lanes_holds() -> None:
    """One lane asked for is the only one that runs, whatever the shape of the question."""
    dense = understand(Question("経費精算", lanes=("dense",)), Plan())
    assert (dense.weight_dense, dense.weight_bm25) == (1.0, 0.0)
    bm25 = understand(Question("canteen", lanes=("bm25",)), Plan(weight_bm25=0.0))
    assert (bm25.weight_dense, bm25.weight_bm25) == (0.0, 1.0)


def test_scripts_are_counted_by_letters() -> None:
    """Shares sum to one over letters; kana and ideographs are two scripts."""
    assert script_shares("abc 経費 かな 12!") == {"latin": 3 / 7, "han": 2 / 7, "kana": 2 / 7}
    assert script_shares("12!") == {}
