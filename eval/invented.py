"""Invented documents for benchmarks: as many as wanted, no two alike, of the words and lengths of ordinary prose."""

from __future__ import annotations

import random
import re
from math import ceil
from pathlib import Path

_PROSE = Path(__file__).parents[1] / "examples" / "sample_company"
PAGES = (60, 900)  # words: half of a chunk to about seven
NOTES = (15, 60)  # words: one chunk
_WORDS_PER_SENTENCE = 14
_SENTENCES_PER_PARAGRAPH = 5


def write_documents(
    folder: Path, n_documents: int, seed: int, reader: str, words_each: tuple[int, int] = PAGES
) -> None:
    """Write Markdown files that one person may read, the same for the same seed; most are near the fewest words."""
    chance, words = random.Random(seed), _vocabulary()  # noqa: S311  repeatable, not secret
    folder.mkdir(parents=True)
    (folder / ".cortex-access.yaml").write_text(f"viewers: {{users: [{reader}]}}\n")
    for number in range(n_documents):
        text = [f"# {' '.join(chance.choices(words, k=4)).title()} {number}"]
        fewest, most = words_each
        n_words = round(chance.triangular(fewest, most, fewest))
        while n_words > 0:
            sentences = [
                " ".join(chance.choices(words, k=_WORDS_PER_SENTENCE)).capitalize() + "."
                for _ in range(min(_SENTENCES_PER_PARAGRAPH, ceil(n_words / _WORDS_PER_SENTENCE)))
            ]
            text.append(" ".join(sentences))
            n_words -= _WORDS_PER_SENTENCE * _SENTENCES_PER_PARAGRAPH
        (folder / f"{number:06}.md").write_text("\n\n".join(text) + "\n")


def questions(n: int, seed: int) -> list[str]:
    """Make questions of the same words."""
    chance, words = random.Random(seed), _vocabulary()  # noqa: S311
    return [" ".join(chance.choices(words, k=6)) for _ in range(n)]


def _vocabulary() -> list[str]:
    """Return the running words of the sample company's pages: frequent ones are drawn as often as people write them."""
    texts = (path.read_text(encoding="utf-8") for path in sorted(_PROSE.rglob("*.md")))
    return [word for text in texts for word in re.findall(r"[a-z]{2,}", text.lower())]
