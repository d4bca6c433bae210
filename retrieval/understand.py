"""Understand: the shape of a question, and from it which lanes run with which weight, as data that says why.

No model is asked. Three things are read off the text: the scripts it is written in, the terms that must match to the
letter (quoted phrases, identifiers), and whether it is a natural question or a row of keywords.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from cortex.evidence import Question
from retrieval.plan import ANY_SCRIPT, Plan

# Below this share of letters in a script the dense model knows, its vector is noise and the lane stays out.
_KNOWN_SHARE = 0.25
# Exact terms decide a search that holds them; a dense vector blurs them.
_EXACT_BOOST = 2.0

_QUOTED = re.compile(r"[\"“”«»「」『』]([^\"“”«»「」『』]{2,})[\"“”«»「」『』]")
_IDENTIFIER = re.compile(
    r"""(?<![\w-])(?:
        [A-Za-z]{2,}-\d+                      # a ticket: OPS-142
      | \w+(?:[_/\\]\w+)+(?:\.\w+)*           # snake_case, a path
      | [a-z]+(?:[A-Z][a-z0-9]+)+             # camelCase
      | (?:[A-Z][a-z0-9]+){2,}                # PascalCase
      | \w{2,}(?:\.[A-Za-z]\w+)+(?:\(\))?     # module.name, file.ext
      | \w+\(\)                               # call()
      | 0x[0-9A-Fa-f]+ | \#\d+ | v?\d+\.\d+\.\d+
    )(?![\w-])""",
    re.VERBOSE,
)
_ASKING = re.compile(
    r"^\s*(?:who|whom|whose|what|when|where|which|why|how|is|are|was|were|do|does|did|can|could|should|will|would|has|have)\b",
    re.IGNORECASE,
)
_UNSPACED = frozenset({"han", "kana", "hangul", "thai", "lao", "khmer", "myanmar"})
_SCRIPT_NAMES = {"CJK": "han", "HIRAGANA": "kana", "KATAKANA": "kana"}


@dataclass(frozen=True, slots=True)
class Shape:
    """What a question looks like: the share of its letters per script, its exact terms, and whether it asks."""

    scripts: Mapping[str, float]
    exact_terms: tuple[str, ...]
    is_question: bool


@dataclass(frozen=True, slots=True)
class LanePlan:
    """Which lanes run (weight 0: not at all), and the reasons in words."""

    weight_dense: float
    weight_bm25: float
    reasons: tuple[str, ...] = ()


class Understanding(Protocol):
    """Whoever reads a question for its lanes: the rules of this file, here or in a process of their own."""

    async def understand(self, question: Question) -> LanePlan:
        """Choose lanes and weights for a question."""


class ByRules:
    """An Understanding by the rules of this file."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    async def understand(self, question: Question) -> LanePlan:
        """Choose lanes and weights for a question; takes well under a millisecond."""
        return understand(question, self._plan)


def understand(question: Question, plan: Plan) -> LanePlan:
    """Choose lanes and weights for a question; the asker's own choice of lanes is a limit that always holds."""
    shape = read_shape(question.text)
    dense, bm25, reasons = plan.weight_dense, plan.weight_bm25, []
    if shape.exact_terms:
        bm25 *= _EXACT_BOOST
        reasons.append("exact terms weigh more: " + ", ".join(shape.exact_terms))
    known = known_share(shape.scripts, plan.embedding_scripts)
    if known < 1:
        dense = dense * known if known >= _KNOWN_SHARE else 0.0
        reasons.append(f"the embedding model knows {known:.0%} of the letters")
    return _within(question.lanes, dense, bm25, tuple(reasons))


def read_shape(text: str) -> Shape:
    """Read the shape of a question off its text."""
    quoted = [match.group(1).strip() for match in _QUOTED.finditer(text)]
    identifiers = [match.group(0) for match in _IDENTIFIER.finditer(text)]
    exact = tuple(dict.fromkeys(filter(None, quoted + identifiers)))
    asks = bool(_ASKING.match(text)) or text.rstrip().endswith(("?", "？"))
    return Shape(script_shares(text), exact, asks)


def script_shares(text: str) -> dict[str, float]:
    """Count letters per script, as shares of all letters; empty for a text without letters."""
    counts = Counter(_script(letter) for letter in text if letter.isalpha())
    total = counts.total()
    return {script: count / total for script, count in counts.most_common()}


def unspaced_share(text: str) -> float:
    """Return the share of letters in scripts that are written without spaces between words."""
    return sum(share for script, share in script_shares(text).items() if script in _UNSPACED)


def known_share(scripts: Mapping[str, float], known: frozenset[str]) -> float:
    """Return the share of letters in scripts that a model knows; 1 for a text without letters."""
    if ANY_SCRIPT in known or not scripts:
        return 1.0
    return sum(share for script, share in scripts.items() if script in known)


def _script(letter: str) -> str:
    name = unicodedata.name(letter, "UNKNOWN").split()[0].split("-")[0]
    return _SCRIPT_NAMES.get(name, name.lower())


def _within(lanes: tuple[str, ...], dense: float, bm25: float, reasons: tuple[str, ...]) -> LanePlan:
    """Keep to the lanes asked for; a lane that is the only one asked for runs whatever the shape says."""
    if "bm25" not in lanes:
        return LanePlan(dense or 1.0, 0.0, reasons)
    if "dense" not in lanes:
        return LanePlan(0.0, bm25 or 1.0, reasons)
    return LanePlan(dense, bm25, reasons)
