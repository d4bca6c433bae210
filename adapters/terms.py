"""Terms: how text becomes the words of the lexical lane, for prose, code, identifiers, numbers and scripts without spaces."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import snowballstemmer

# Scripts written without spaces (Han, kana, Hangul, Thai, Lao, Burmese, Khmer): matched by character bigrams.
_UNSPACED = (
    "\u3005-\u3007\u3041-\u309f\u30a0-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff\u1100-\u11ff\u3130-\u318f\uac00-\ud7af\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
)
# Python's \w leaves out combining marks, without which Arabic, Hebrew and Indic words would fall apart.
_MARKS = "".join(
    chr(code)
    for code in range(0x300, 0xFE30)
    if unicodedata.category(chr(code)) in ("Mn", "Mc") and not re.match(f"[{_UNSPACED}]", chr(code))
)
_WORD = rf"(?:[^\W_{_UNSPACED}]|[{_MARKS}])"
_TOKEN = re.compile(
    rf"(?P<unspaced>[{_UNSPACED}]+)"
    rf"|(?P<word>{_WORD}+(?:(?:[.@'’_-]|__+|(?<=\d),(?=\d\d\d)){_WORD}+)*(?:\+\+|\#(?!\w))?)"
)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d\d\d)")
_DECIMAL = re.compile(r"\d+\.\d+")
_SPLITS = (re.compile("@"), re.compile(r"\."), re.compile("-"), re.compile("_+"))
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_LONGEST = 128  # characters; what is longer is no word (keys, encoded bytes) and is found by its beginning
_REMEMBERED_LENGTH = (
    40  # characters; longer pieces are addresses or sentences without spaces, which hardly come again
)
_ENDINGS = frozenset(("s", "t", "d", "m", "ll", "re", "ve"))

# Function words and the words questions are made of; they carry no topic of their own.
_STOP_TEXT = """
a about am an and any are as at be been being but by can could did do does doing don for from had has have having
he her hers him his how i if in into is isn it its itself me my no nor not of on or our ours she should so some
such than that the their theirs them then there these they this those to was wasn we were what when where which
while who whom whose why will with would you your yours
"""
STOP_WORDS = frozenset(_STOP_TEXT.split())

_STEMMERS = {
    "latin": snowballstemmer.stemmer("english"),
    "arabic": snowballstemmer.stemmer("arabic"),
    "cyrillic": snowballstemmer.stemmer("russian"),
    "greek": snowballstemmer.stemmer("greek"),
    "devanagari": snowballstemmer.stemmer("hindi"),
}


_NONE: frozenset[str] = frozenset()

# A bigram stands for about 0.6 of a word; single characters bridge what bigrams cut apart (chosen on cmrc2018).
_BIGRAM_LENGTH = 0.6
_CHARACTER_WEIGHT = 0.4


@dataclass(frozen=True, slots=True)
class Term:
    """One term: what it weighs in a question (0 for a stop word) and how much it adds to a passage's length."""

    text: str
    query_weight: float = 1.0
    length: float = 1.0


def split_terms(text: str) -> Iterator[Term]:
    """Yield the terms of a text in order, repeats kept.

    No term reaches over white space, and most words come again: what was read between two spaces is remembered.
    """
    for piece in text.split():
        yield from _known_terms(piece) if len(piece) <= _REMEMBERED_LENGTH else _piece_terms(piece)


def topic_terms(text: str) -> frozenset[str]:
    """Return the distinct terms of a text that weigh fully: no stop words, no single characters of a longer run."""
    pieces = set(text.split())
    return _NONE.union(
        *(_known_topics(piece) if len(piece) <= _REMEMBERED_LENGTH else _topics(piece) for piece in pieces)
    )


@lru_cache(maxsize=50_000)
def _known_terms(piece: str) -> tuple[Term, ...]:
    return tuple(_piece_terms(piece))


@lru_cache(maxsize=50_000)
def _known_topics(piece: str) -> frozenset[str]:
    return _topics(piece)


def _topics(piece: str) -> frozenset[str]:
    return frozenset(term.text for term in _piece_terms(piece) if term.query_weight == 1)


def _piece_terms(piece: str) -> Iterator[Term]:
    for match in _TOKEN.finditer(unicodedata.normalize("NFKC", piece)):
        if match.lastgroup == "unspaced":
            yield from _run_terms(match.group())
        else:
            yield from _word_terms(match.group())


def _run_terms(run: str) -> Iterator[Term]:
    """Yield the bigrams of a run and, lighter, its single characters."""
    if len(run) == 1:
        yield Term(run)
        return
    for left, right in pairwise(run):
        yield Term(left + right, length=_BIGRAM_LENGTH)
    for character in run:
        yield Term(character, query_weight=_CHARACTER_WEIGHT, length=0.0)


def _word_terms(word: str) -> Iterator[Term]:
    if word.isalpha() and (word[1:].islower() or len(word) == 1):
        yield _leaf(word)
        return
    word = _THOUSANDS.sub("", word.replace("’", "'"))
    if "'" in word:
        for part in word.split("'"):
            if part and part.casefold() not in _ENDINGS:
                yield from _word_terms(part)
        return
    yield from _identifier_terms(word)


def _identifier_terms(word: str, level: int = 0) -> Iterator[Term]:
    """Split an identifier level by level (`@`, `.`, `-`, `_`, camelCase); each compound is a term beside its parts
    and adds no length of its own."""
    if word.endswith(("++", "#")) or _DECIMAL.fullmatch(word):
        yield Term(word.casefold()[:_LONGEST])
        return
    for depth in range(level, len(_SPLITS)):
        parts = [part for part in _SPLITS[depth].split(word) if part]
        if len(parts) > 1:
            yield from _whole(word)
            for part in parts:
                yield from _identifier_terms(part, depth + 1)
            return
        word = parts[0] if parts else word
    humps = _CAMEL.split(word)
    if len(humps) > 1:
        yield from _whole(word)
    for hump in humps:
        yield _leaf(hump)


def _whole(word: str) -> Iterator[Term]:
    if len(word) <= _LONGEST:
        yield Term(word.casefold(), length=0.0)


def _leaf(word: str) -> Term:
    return _folded(word[:_LONGEST])


@lru_cache(maxsize=200_000)
def _folded(word: str) -> Term:
    folded = word.casefold()
    script = script_of(folded)
    if script == "latin":
        folded = _fold_accents(folded)
    if folded in STOP_WORDS:
        return Term(folded, query_weight=0.0, length=0.0)
    stemmer = _STEMMERS.get(script) if folded.isalpha() or script in ("arabic", "devanagari") else None
    return Term(stemmer.stemWord(folded) if stemmer else folded)


def _fold_accents(word: str) -> str:
    if word.isascii():
        return word
    return "".join(c for c in unicodedata.normalize("NFKD", word) if not unicodedata.combining(c))


def script_of(word: str) -> str:
    """Name the script of a word's first letter, lower case (latin, cyrillic, arabic, han, …); empty without letters."""
    for character in word:
        if character.isalpha():
            return "latin" if character < "\u0250" else unicodedata.name(character, "").split(" ")[0].lower()
    return ""
