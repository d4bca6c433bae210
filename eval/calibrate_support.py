"""Calibrate abstention: fit the logistic models of `retrieval.support` and say how well they tell answerable questions.

Run as `python -m eval.calibrate_support` (about four processor-minutes). English, with cosine and by words alone, from
two corpora: xquad/en, its questions with and without the passage that answers (the rest of its article stays, so these
are near misses), and clapnq, whose unanswerable questions are near misses that people really asked, and which therefore
weighs twice. Answerable questions and near misses weigh the same in each. Questions put to the other corpus (far misses)
are only reported: near misses decide where the line is. Character pairs: cmrc2018, with and without the passage.

Questions are halved by a hash of their ids (clapnq) or their place (the others). Each half is judged by constants that
were fitted on the other, and those figures are printed; the constants printed are fitted on both halves.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from adapters.bm25 import Bm25Encoder
from adapters.onnx_embedder import OnnxEmbedder
from cortex.documents import Anchor
from cortex.evidence import Hit, LaneScores
from cortex.ids import sha256_hex
from cortex.settings import settings
from eval.datasets import JudgedQuery, read_dataset
from retrieval.fuse import Fusion, fuse
from retrieval.support import Calibration, read_features
from retrieval.wording import Wording

_DEPTH = 100
_WEIGHTS = {"clapnq_dev": 2}
_N_QUESTIONS = 400  # of each kind; more do not move the constants' first digit


@dataclass(frozen=True, slots=True)
class Example:
    """One question put to one corpus: what support reads of it, its kind (answerable, near or far), its half (0 or 1)."""

    top_cosine: float
    term_share: float
    kind: str
    corpus: str
    half: int

    @property
    def is_answerable(self) -> bool:
        """Whether the corpus holds the answer."""
        return self.kind == "answerable"


class Corpus:
    """A corpus in memory, searched exactly by both lanes as the index would."""

    def __init__(self, folder: Path, lexical: Bm25Encoder, embedder: OnnxEmbedder | None) -> None:
        self.name = folder.name
        self.queries = read_dataset(folder).queries
        rows = [json.loads(line) for line in (folder / "corpus.jsonl").open(encoding="utf-8")]
        self._hits = [_hit(row) for row in rows]
        texts = ["\n".join((hit.title, hit.text)) for hit in self._hits]
        self._lexical, self._embedder = lexical, embedder
        self._dense = embedder.embed_documents(texts) if embedder else None
        vectors = [lexical.encode_document(text) for text in texts]
        self._sparse = [dict(zip(each.indices, each.values, strict=True)) for each in vectors]
        self._df = Counter(index for each in self._sparse for index in each)

    def examine(self, query: JudgedQuery, kind: str, half: int, *, without: bool = False) -> Example:
        """Search for a question (`without`: as if its answers were not there) and read the features of what is found."""
        hidden = query.relevant if without else {}
        cosines, words = self._cosines(query.text), self._word_scores(query.text)
        shown = [at for at, hit in enumerate(self._hits) if hit.document_id not in hidden]
        dense = sorted(shown, key=lambda at: -cosines[at])[:_DEPTH] if self._embedder else []
        bm25 = [at for at in sorted(shown, key=lambda at: -words[at])[:_DEPTH] if words[at] > 0]
        lanes = dict.fromkeys((*dense, *bm25), LaneScores())
        for rank, at in enumerate(dense, start=1):
            lanes[at] = LaneScores(float(cosines[at]), rank)
        for rank, at in enumerate(bm25, start=1):
            lanes[at] = LaneScores(lanes[at].dense_score, lanes[at].dense_rank, float(words[at]), rank)
        wording = Wording(self._lexical, query.text)
        found = [replace(self._hits[at], lanes=scores) for at, scores in lanes.items()]
        hits = [each.as_hit() for each in fuse(found, Fusion(1.5, 1.0, 10, _DEPTH), wording)]
        top_cosine, term_share = read_features(wording, hits) if hits else (None, 0.0)
        return Example(top_cosine or 0.0, term_share, kind, self.name, half)

    def _cosines(self, text: str) -> NDArray[np.float32]:
        if self._embedder is None or self._dense is None:
            return np.zeros(len(self._hits), dtype=np.float32)
        cosines: NDArray[np.float32] = (self._dense @ self._embedder.embed_queries([text]).T)[:, 0]
        return cosines

    def _word_scores(self, text: str) -> NDArray[np.float64]:
        query = self._lexical.encode_query(text)
        n = len(self._hits)
        scores = np.zeros(n)
        for index, weight in zip(query.indices, query.values, strict=True):
            df = self._df[index]
            idf = math.log(1 + (n - df + 0.5) / (df + 0.5))
            scores += [weight * idf * each.get(index, 0.0) for each in self._sparse]
        return scores


def _hit(row: dict[str, str]) -> Hit:
    return Hit(
        chunk_id=row["id"], document_id=row["id"], source_id="", source_type="", collection="",
        title=row.get("title", ""), text=row["text"], heading_path=(), anchor=Anchor(), permalink="", score=0.0,
        lanes=LaneScores(), ordinal=0, byte_start=0, byte_end=0, group_id="", content_sha256="", profile_id=0,
    )  # fmt: skip


def english(data: Path, lexical: Bm25Encoder, embedder: OnnxEmbedder) -> list[Example]:
    """Examine xquad and clapnq, each by its own questions and by the other's."""
    xquad = Corpus(data / "ml" / "xquad" / "en", lexical, embedder)
    clapnq = Corpus(data / "rag" / "clapnq_dev", lexical, embedder)
    examples = []
    step = max(1, len(xquad.queries) // _N_QUESTIONS)
    for place, query in enumerate(xquad.queries[::step]):
        examples += [
            xquad.examine(query, "answerable", place % 2),
            xquad.examine(query, "near", place % 2, without=True),
            clapnq.examine(query, "far", place % 2),
        ]
    for query in clapnq.queries:
        half = int(sha256_hex(query.query_id.encode()), 16) % 2
        kind = "answerable" if query.relevant else "near"
        examples += [clapnq.examine(query, kind, half), xquad.examine(query, "far", half)]
    return examples


def chinese(data: Path, lexical: Bm25Encoder) -> list[Example]:
    """Make the examples for questions that only character pairs can match."""
    corpus = Corpus(data / "ml" / "cmrc2018_zh_hans" / "trial", lexical, None)
    examples = []
    for place, query in enumerate(corpus.queries[: 2 * _N_QUESTIONS]):
        examples += [
            corpus.examine(query, "answerable", place % 2),
            corpus.examine(query, "near", place % 2, without=True),
        ]
    return examples


def fit(examples: Sequence[Example], *, with_cosine: bool) -> Calibration:
    """Fit the logistic model to answerable questions and near misses by Newton's method."""
    examples = [each for each in examples if each.kind != "far"]
    columns = [[1.0, each.top_cosine if with_cosine else 0.0, each.term_share] for each in examples]
    rows, wanted = np.array(columns), np.array([each.is_answerable for each in examples], dtype=float)
    counts = Counter((each.corpus, each.kind) for each in examples)
    weights = np.array([_WEIGHTS.get(each.corpus, 1) / counts[each.corpus, each.kind] for each in examples])
    solution = np.zeros(3)
    for _ in range(50):
        chance = 1 / (1 + np.exp(-rows @ solution))
        gradient = rows.T @ (weights * (wanted - chance))
        curvature = (rows * (weights * chance * (1 - chance))[:, None]).T @ rows + 1e-6 * np.eye(3)
        solution += np.linalg.solve(curvature, gradient)
    bias, cosine, terms = (round(float(value), 1) for value in solution)
    return Calibration(bias, cosine, terms)


def report(name: str, examples: Sequence[Example], abstain_below: float, *, with_cosine: bool) -> None:
    """Print the constants, and per corpus and half what constants fitted on the other half do."""
    constants = fit(examples, with_cosine=with_cosine)
    print(name, json.dumps([constants.bias, constants.cosine, constants.terms]))
    for half in (0, 1):
        fitted = fit([each for each in examples if each.half != half], with_cosine=with_cosine)
        for corpus in sorted({each.corpus for each in examples}):
            held_out = [each for each in examples if each.half == half and each.corpus == corpus]
            figures = _judge(fitted, held_out, abstain_below)
            print(f"  {corpus}, half {half}, held out:", json.dumps(figures))


def _judge(calibration: Calibration, held_out: Sequence[Example], abstain_below: float) -> dict[str, object]:
    chances = {
        kind: np.array(
            [calibration.probability(e.top_cosine, e.term_share) for e in held_out if e.kind == kind]
        )
        for kind in ("answerable", "near", "far")
    }
    right, near = chances["answerable"], chances["near"]
    pairs = right[:, None] - near[None, :]
    return {
        "auroc": round(float(np.mean(pairs > 0) + np.mean(pairs == 0) / 2), 3),
        "wrong_refusals_at_95_right": round(float(np.mean(right < np.quantile(near, 0.95))), 3),
        "answered": {k: round(float(np.mean(c >= abstain_below)), 3) for k, c in chances.items() if c.size},
        "n": {kind: int(each.size) for kind, each in chances.items()},
    }


def main() -> None:
    """Fit and report the three models."""
    given = settings()
    data = given.eval_data or Path("../shared/data")
    lexical, embedder = Bm25Encoder.from_settings(given), OnnxEmbedder.from_settings(given)
    examples = english(data, lexical, embedder)
    report("WITH_COSINE", examples, given.abstain_below, with_cosine=True)
    report("WORDS_ALONE", examples, given.abstain_below, with_cosine=False)
    report("PAIRS_ALONE", chinese(data, lexical), given.abstain_below, with_cosine=False)


if __name__ == "__main__":
    main()
