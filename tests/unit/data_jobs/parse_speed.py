"""Times our PDF and Markdown parsers beside the bare library calls on the same bytes, in one process; run it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pypdfium2
from markdown_it import MarkdownIt
from real_files import DATA, source_files

from data_jobs.parsers.markdown import parse_markdown
from data_jobs.parsers.pdf import parse_pdf

_ROUNDS = 5


def best_of(call: Callable[[], object]) -> float:
    """Return the shortest wall time of several rounds, in seconds."""
    times = []
    for _ in range(_ROUNDS):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return min(times)


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
    ours = best_of(lambda: [parse_pdf(content, "a.pdf") for content in pdfs])
    bare = best_of(lambda: [bare_pdf(content) for content in pdfs])
    print(
        f"PDF: {n_pages} pages, ours {n_pages / ours:.0f} pages/s, PDFium text alone {n_pages / bare:.0f} pages/s"
    )
    notes = [path.read_bytes() for path in sorted((DATA / "vaults" / "handbook_sgh").rglob("*.md"))]
    n_megabytes = sum(map(len, notes)) / 1e6
    ours = best_of(lambda: [parse_markdown(content, "a.md") for content in notes])
    library = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    bare = best_of(lambda: [library.parse(content.decode()) for content in notes])
    print(
        f"Markdown: {n_megabytes:.2f} MB in {len(notes)} files, ours {n_megabytes / ours:.2f} MB/s, ", end=""
    )
    print(f"markdown-it tokens alone {n_megabytes / bare:.2f} MB/s")


if __name__ == "__main__":
    main()
