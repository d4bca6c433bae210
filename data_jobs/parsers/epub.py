"""EPUB books: the chapters in reading order, each parsed as HTML."""

from __future__ import annotations

import posixpath
from urllib.parse import unquote

from cortex.documents import ParsedBody
from data_jobs.parsers.archive import Archive, attribute, descendants, local
from data_jobs.parsers.body import BodyBuilder
from data_jobs.parsers.dates import parse_date
from data_jobs.parsers.failures import FailureCode, unparsable
from data_jobs.parsers.html import parse_html


def parse_epub(archive: Archive, name: str) -> ParsedBody:
    """Parse a book."""
    if "META-INF/encryption.xml" in archive and "META-INF/rights.xml" in archive:
        raise unparsable(FailureCode.ENCRYPTED, "it is protected by digital rights management")
    container = archive.xml("META-INF/container.xml")
    roots = [attribute(e, "full-path") for e in descendants(container, "rootfile")]
    if not roots:
        raise unparsable(FailureCode.CORRUPT, "the book does not say where its contents are")
    package = archive.xml(roots[0])
    folder = posixpath.dirname(roots[0])
    hrefs = {attribute(item, "id"): attribute(item, "href") for item in descendants(package, "item")}
    builder = BodyBuilder()
    for reference in descendants(package, "itemref"):
        part = posixpath.normpath(
            posixpath.join(folder, unquote(hrefs.get(attribute(reference, "idref"), "")))
        )
        if part in archive:
            builder.extend(parse_html(archive.read(part), part), at_source=False)
    found: dict[str, str] = {}
    for element in next(descendants(package, "metadata"), ()):
        if element.text and element.text.strip():
            found.setdefault(local(element), element.text.strip())
    return builder.finish(
        title=found.get("title", ""),
        author=found.get("creator", ""),
        language=found.get("language", "")[:2].lower(),
        created_at=parse_date(found.get("date", "")),
        meta={name: found[name] for name in ("publisher", "subject", "identifier") if name in found},
    )
