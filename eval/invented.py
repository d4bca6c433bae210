"""Invented documents for benchmarks: as many or as long as wanted, no two alike, of the words of ordinary prose."""

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
_WORDS_PER_LINE = 12
_LINES_PER_PAGE = 30


def write_documents(
    folder: Path, n_documents: int, seed: int, reader: str, words_each: tuple[int, int] = PAGES
) -> None:
    """Write Markdown files that one person may read, the same for the same seed; most are near the fewest words."""
    chance, words = random.Random(seed), vocabulary()  # noqa: S311  repeatable, not secret
    folder.mkdir(parents=True)
    (folder / ".cortex-access.yaml").write_text(f"viewers: {{users: [{reader}]}}\n")
    for number in range(n_documents):
        (folder / f"{number:06}.md").write_text(markdown(chance, words, number, words_each))


def markdown(chance: random.Random, words: list[str], number: int, words_each: tuple[int, int]) -> str:
    """Write one document: a title of four words and its number, and paragraphs."""
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
    return "\n\n".join(text) + "\n"


def write_pdf(path: Path, n_pages: int, seed: int) -> None:
    """Write a PDF of text alone, full pages in one column, the same for the same seed."""
    chance, words = random.Random(seed), vocabulary()  # noqa: S311
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for _ in range(n_pages):
        lines = [" ".join(chance.choices(words, k=_WORDS_PER_LINE)) for _ in range(_LINES_PER_PAGE)]
        drawn = f"BT /F1 10 Tf 14 TL 50 780 Td {' '.join(f'({line}) Tj T*' for line in lines)} ET"
        objects.append(f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {len(objects)} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
    kids = " ".join(f"{number} 0 R" for number in range(5, len(objects) + 1, 2))
    objects[1] = f"<< /Type /Pages /Kids [{kids}] /Count {n_pages} >>"
    _write_objects(path, objects)


def _write_objects(path: Path, objects: list[str]) -> None:
    """Write a PDF's numbered objects, the first being its catalog, with the table of where they are."""
    offsets = []
    with path.open("wb") as file:
        file.write(b"%PDF-1.4\n")
        for number, body in enumerate(objects, start=1):
            offsets.append(file.tell())
            file.write(f"{number} 0 obj\n{body}\nendobj\n".encode())
        start = file.tell()
        table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
        file.write(f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}".encode())
        file.write(f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF".encode())


def questions(n: int, seed: int) -> list[str]:
    """Make questions of the same words."""
    chance, words = random.Random(seed), vocabulary()  # noqa: S311
    return [" ".join(chance.choices(words, k=6)) for _ in range(n)]


def vocabulary() -> list[str]:
    """Return the running words of the sample company's pages: frequent ones are drawn as often as people write them."""
    texts = (path.read_text(encoding="utf-8") for path in sorted(_PROSE.rglob("*.md")))
    return [word for text in texts for word in re.findall(r"[a-z]{2,}", text.lower())]
