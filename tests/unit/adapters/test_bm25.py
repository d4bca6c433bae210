"""The terms of the lexical lane and their weights."""

from __future__ import annotations

import subprocess
import sys
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters import terms
from adapters.bm25 import Bm25Encoder, term_id
from cortex.settings import Settings

ENCODER = Bm25Encoder.from_settings(Settings())


def finds(question: str, passage: str) -> float:
    """The lexical score without IDF."""
    document = ENCODER.encode_document(passage)
    weights = dict(zip(document.indices, document.values, strict=True))
    query = ENCODER.encode_query(question)
    return sum(
        weights.get(index, 0) * value for index, value in zip(query.indices, query.values, strict=True)
    )


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Running flows", ["run", "flow"]),
        ("form 1099-MISC", ["form", "1099-misc", "1099", "misc"]),
        ("ERR_CONN_RESET", ["err_conn_reset", "err", "conn", "reset"]),
        ("self.getUserName()", ["self.getusername", "self", "getusername", "get", "user", "name"]),
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("C++ and C# code", ["c++", "c#", "code"]),
        ("$1,234.50", ["1234.50"]),
        ("Café CAFE\u0301", ["cafe", "cafe"]),
        ("the team's report", ["team", "report"]),
        ("To be or not to be", ["to", "be", "or", "not", "to", "be"]),
        ("黒猫", ["黒猫"]),
        ("猫", ["猫"]),
        ("книгами", ["книг"]),
        ("المدرسةُ", ["مدرس"]),
        ("ﬁle ＡＢＣ", ["file", "abc"]),
        ("… — !", []),
    ],
)
def test_terms(text: str, terms: list[str]) -> None:
    """Words are folded and stemmed; identifiers and numbers stay whole beside their parts; stop words go last."""
    assert ENCODER.terms(text) == terms
    assert ENCODER.distinct_terms(text) == set(terms)


@pytest.mark.parametrize(
    ("question", "passage"),
    [
        ("err_conn_reset", "We saw ERR_CONN_RESET again."),
        ("conn reset", "We saw ERR_CONN_RESET again."),
        ("user name", "def getUserName(self): ..."),
        ("1099 misc", "Attach form 1099-MISC."),
        ("猫", "屋根の上に黒猫がいる"),
        ("the who", "The Who played here."),
        ("boundary layer", "the boundary-layer equations"),
        ("ไทย", "ประเทศไทย"),
        ("हिन्दी", "यह हिन्दी में है"),
    ],
)
def test_a_question_finds_a_passage_in_other_spelling(question: str, passage: str) -> None:
    """Ids, code, single characters, stop-word names and unspaced scripts are found."""
    assert finds(question, passage) > 0


def test_a_document_is_weighted_by_the_formula() -> None:
    """tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / average)), stop words left out of the length."""
    encoder = Bm25Encoder(k1=0.9, b=0.4, average_tokens=80)
    vector = encoder.encode_document("cat cat dog the")
    weights = dict(zip(vector.indices, vector.values, strict=True))
    norm = 0.9 * (1 - 0.4 + 0.4 * 3 / 80)
    assert weights[term_id("cat")] == pytest.approx(2 * 1.9 / (2 + norm))
    assert weights[term_id("dog")] == pytest.approx(1.9 / (1 + norm))


def test_a_question_counts_what_it_repeats_and_ignores_stop_words() -> None:
    """Each occurrence of a word weighs 1; stop words weigh nothing beside other words."""
    vector = ENCODER.encode_query("the cat and the cat")
    assert vector.indices == (term_id("cat"),)
    assert vector.values == (2.0,)


@given(st.text(max_size=300))
def test_vectors_are_sorted_and_distinct_for_any_text(text: str) -> None:
    """Whatever the text, indices ascend, weights are positive, and every topical term is in the document too."""
    document, query = ENCODER.encode_document(text), ENCODER.encode_query(text)
    for vector in (document, query):
        assert list(vector.indices) == sorted(set(vector.indices))
        assert all(value > 0 for value in vector.values)
    assert set(query.indices) <= set(document.indices)


@given(st.text(max_size=100))
def test_unicode_spelling_does_not_matter(text: str) -> None:
    """Composed and decomposed forms of a text have the same terms."""
    composed, decomposed = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    assert ENCODER.terms(composed) == ENCODER.terms(decomposed)


def test_term_ids_are_the_same_in_every_process() -> None:
    """Ids do not depend on Python's hash seed; this one is stored in indexes."""
    code = "from adapters.bm25 import term_id; print(term_id('cortex'))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert int(done.stdout) == term_id("cortex") == 1552404247


@pytest.mark.parametrize(
    "text",
    [
        "_" * 200_000,
        "a_" * 100_000,
        "a" + "_" * 200_000,
        "aB" * 100_000,
        "x" * 300_000,
        "1," * 100_000,
        "\u0301" * 200_000,
        "漢" * 100_000,
        "a." * 100_000 + "@",
    ],
)
def test_hostile_text_takes_linear_time(text: str) -> None:
    """Long runs of anything are tokenised in a moment and give no monstrous term."""
    started_s = time.process_time()
    terms = ENCODER.terms(text)
    assert time.process_time() - started_s < 3
    assert all(len(term) <= 128 for term in terms)


ODD = " \t\n\u00a0\u2003\u3000\x1c\x85aB1'’.@_-,#+é\u0301\u0308\u00a8ﬁ経費カナ한\u1100\u1161กำ٣मा"


@given(
    st.lists(
        st.one_of(st.text(ODD, max_size=12), st.text(max_size=60), st.sampled_from(["C++ v1.2", "x" * 41]))
    ).map(" ".join)
)
def test_terms_of_a_text_are_those_of_its_pieces(text: str) -> None:
    """White space ends every term, so reading piece by piece, with what is remembered, changes nothing."""
    whole = list(terms._piece_terms(text))
    assert list(terms.split_terms(text)) == whole
    assert list(terms.split_terms(text)) == whole  # from memory
