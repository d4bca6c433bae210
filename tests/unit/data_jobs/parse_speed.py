"""Times our PDF and Markdown parsers beside the bare library calls on the same bytes, in one process; run it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pypdfium2
from markdown_it import MarkdownIt

from data_jobs.parsers.markdown import parse_markdown
from data_jobs.parsers.pdf import parse_pdf
from tests.unit.data_jobs.real_files import DATA, source_files

_ROUNDS = 5


def best_of(*calls: Callable[[], object]) -> list[float]:
    """Return the least processor time of each call in seconds, over rounds in which all take turns."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(_ROUNDS):
        for call, taken in zip(calls, times, strict=True):
            started = time.process_time()
            call()
            taken.append(time.process_time() - started)
    return [min(taken) for taken in times]


def bare_pdf(content: bytes) -> int:
    """Take the text of every page with the library alone."""
    document = pypdfium2.PdfDocument(content)
    n_chars = sum(len(page.get_textpage().get_text_range()) for page in document)
    document.close()
    return n_chars


def main() -> None:
    """Print pages and megabytes per second."""
    pdfs = [path.read_bytes() for path in source_files(DATA / "docs" / "docling" / "pdf")]
    n_pages = sum(len(pypdfium2.PdfDocument(content)) for content in pdfs)
    ours, bare = best_of(
        lambda: [parse_pdf(content, "a.pdf") for content in pdfs],
        lambda: [bare_pdf(content) for content in pdfs],
    )
    print(
        f"PDF: {n_pages} pages, ours {n_pages / ours:.0f} pages/s, PDFium text alone {n_pages / bare:.0f} pages/s"
    )
    notes = [path.read_bytes() for path in sorted((DATA / "vaults").rglob("*.md"))]
    n_megabytes = sum(map(len, notes)) / 1e6
    library = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    ours, bare = best_of(
        lambda: [parse_markdown(content, "a.md") for content in notes],
        lambda: [library.parse(content.decode()) for content in notes],
    )
    print(
        f"Markdown: {n_megabytes:.2f} MB in {len(notes)} files, ours {n_megabytes / ours:.2f} MB/s, ", end=""
    )
    print(f"markdown-it tokens alone {n_megabytes / bare:.2f} MB/s")


if __name__ == "__main__":
    main()
