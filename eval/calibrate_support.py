"""Calibrate abstention: fit the logistic models of `retrieval.support` and say how well they tell answerable questions.

Run as `python -m eval.calibrate_support`. English, with cosine and by words alone: the answerable questions of
xquad/en; the same with the passage that answers taken away (the rest of its article stays, so these are near misses);
questions of clapnq and xquad asked of each other's passages (far misses); and that half of clapnq whose question ids
hash to an even number. Each of answerable, near and far weighs a third. The other half of clapnq is held out, and the
figures printed are of it alone. Character pairs: cmrc2018 with and without the answering passage, odd questions held
out. No figure here is of a set that the constants were fitted on.
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
_N_QUESTIONS = 400  # of each kind; more do not move the constants' first digit


@dataclass(frozen=True, slots=True)
class Example:
    """One question put to one corpus: what support reads of it, whether the corpus answers it, and its kind."""

    top_cosine: float
    term_share: float
    is_answerable: bool
    kind: str


class Corpus:
    """A corpus in memory, searched exactly by both lanes as the index would."""

    def __init__(self, folder: Path, lexical: Bm25Encoder, embedder: OnnxEmbedder | None) -> None:
        self.queries = read_dataset(folder).queries
        rows = [json.loads(line) for line in (folder / "corpus.jsonl").open(encoding="utf-8")]
        self._hits = [_hit(row) for row in rows]
        texts = ["\n".join((hit.title, hit.text)) for hit in self._hits]
        self._lexical, self._embedder = lexical, embedder
        self._dense = embedder.embed_documents(texts) if embedder else None
        vectors = [lexical.encode_document(text) for text in texts]
        self._sparse = [dict(zip(each.indices, each.values, strict=True)) for each in vectors]
        self._df = Counter(index for each in self._sparse for index in each)

    def examine(
        self, query: JudgedQuery, is_answerable: bool, kind: str, *, without: bool = False
    ) -> Example:
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
        hits = fuse(found, Fusion(1.5, 1.0, 10, _DEPTH), wording)
        top_cosine, term_share = read_features(wording, hits) if hits else (None, 0.0)
        return Example(top_cosine or 0.0, term_share, is_answerable, kind)

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


def english(data: Path, lexical: Bm25Encoder, embedder: OnnxEmbedder) -> tuple[list[Example], list[Example]]:
    """Make the examples to fit on and those held out."""
    xquad = Corpus(data / "ml" / "xquad" / "en", lexical, embedder)
    clapnq = Corpus(data / "rag" / "clapnq_dev", lexical, embedder)
    fitted, held_out = [], []
    for query in xquad.queries[:: max(1, len(xquad.queries) // _N_QUESTIONS)]:
        fitted += [
            xquad.examine(query, True, "answerable"),
            xquad.examine(query, False, "near", without=True),
            clapnq.examine(query, False, "far"),
        ]
    for query in clapnq.queries:
        is_answerable = bool(query.relevant)
        example = clapnq.examine(query, is_answerable, "answerable" if is_answerable else "near")
        if int(sha256_hex(query.query_id.encode()), 16) % 2:
            held_out += [example, xquad.examine(query, False, "far")]
        else:
            fitted += [example, xquad.examine(query, False, "far")]
    return fitted, held_out


def chinese(data: Path, lexical: Bm25Encoder) -> tuple[list[Example], list[Example]]:
    """Make the examples for questions that only character pairs can match."""
    corpus = Corpus(data / "ml" / "cmrc2018_zh_hans" / "trial", lexical, None)
    halves: tuple[list[Example], list[Example]] = ([], [])
    for place, query in enumerate(corpus.queries[: 2 * _N_QUESTIONS]):
        answered, missed = (
            corpus.examine(query, True, "answerable"),
            corpus.examine(query, False, "near", without=True),
        )
        halves[place % 2].extend((answered, missed))
    return halves


def fit(examples: Sequence[Example], *, with_cosine: bool) -> Calibration:
    """Fit the logistic model by Newton's method; each kind of example weighs the same in all."""
    columns = [[1.0, each.top_cosine if with_cosine else 0.0, each.term_share] for each in examples]
    rows, wanted = np.array(columns), np.array([each.is_answerable for each in examples], dtype=float)
    counts = Counter(each.kind for each in examples)
    weights = np.array([1 / counts[each.kind] for each in examples])
    solution = np.zeros(3)
    for _ in range(50):
        chance = 1 / (1 + np.exp(-rows @ solution))
        gradient = rows.T @ (weights * (wanted - chance))
        curvature = (rows * (weights * chance * (1 - chance))[:, None]).T @ rows + 1e-6 * np.eye(3)
        solution += np.linalg.solve(curvature, gradient)
    bias, cosine, terms = (round(float(value), 1) for value in solution)
    return Calibration(bias, cosine, terms)


def report(name: str, calibration: Calibration, held_out: Sequence[Example]) -> None:
    """Print the constants and what they do on examples they were not fitted on."""
    chances = {
        kind: np.array(
            [calibration.probability(e.top_cosine, e.term_share) for e in held_out if e.kind == kind]
        )
        for kind in ("answerable", "near", "far")
    }
    right, near = chances["answerable"], chances["near"]
    pairs = right[:, None] - near[None, :]
    auroc = float(np.mean(pairs > 0) + np.mean(pairs == 0) / 2)
    figures = {
        "constants": [calibration.bias, calibration.cosine, calibration.terms],
        "auroc_near": round(auroc, 3),
        "wrong_refusals_at_95_right_near": round(float(np.mean(right < np.quantile(near, 0.95))), 3),
        "answered_at_half": {k: round(float(np.mean(c >= 0.5)), 3) for k, c in chances.items() if c.size},
        "n": {kind: int(each.size) for kind, each in chances.items()},
    }
    print(name, json.dumps(figures))


def main() -> None:
    """Fit and report the three models."""
    given = settings()
    data = given.eval_data or Path("../shared/data")
    lexical, embedder = Bm25Encoder.from_settings(given), OnnxEmbedder.from_settings(given)
    fitted, held_out = english(data, lexical, embedder)
    report("WITH_COSINE", fit(fitted, with_cosine=True), held_out)
    report("WORDS_ALONE", fit(fitted, with_cosine=False), held_out)
    fitted, held_out = chinese(data, lexical)
    report("PAIRS_ALONE", fit(fitted, with_cosine=False), held_out)


if __name__ == "__main__":
    main()
