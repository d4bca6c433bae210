"""Office Open XML packages (ECMA-376, strict and transitional): main part, relationships, core properties."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import Any

from cortex.documents import ParsedBody
from data_jobs.parsers.archive import Archive, attribute, descendants, local
from data_jobs.parsers.body import BodyBuilder
from data_jobs.parsers.dates import parse_date
from data_jobs.parsers.failures import FailureCode, unparsable


@dataclass(frozen=True, slots=True)
class Relation:
    """One relationship of a part: `kind` is the last word of its type, `target` the name of the part it points to."""

    relation_id: str
    kind: str
    target: str


class Package:
    """An office file: its main part and what belongs to it."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        found = [relation for relation in self.relations("") if relation.kind == "officeDocument"]
        if not found:
            raise unparsable(FailureCode.CORRUPT, "the package does not say which part is the document")
        self.main_part = found[0].target

    def relations(self, part: str) -> list[Relation]:
        """List a part's internal relationships (the package's own for an empty name)."""
        folder, _, name = part.rpartition("/")
        root = self.archive.xml_or_none(f"{folder}/_rels/{name}.rels")
        if root is None:
            return []
        return [
            Relation(
                attribute(element, "Id"),
                attribute(element, "Type").rpartition("/")[2],
                _resolve(folder, attribute(element, "Target")),
            )
            for element in root
            if local(element) == "Relationship" and attribute(element, "TargetMode") != "External"
        ]

    def related(self, part: str, kind: str) -> list[Any]:
        """Parse the parts that a part points to with relationships of one kind; absent ones are left out."""
        names = [relation.target for relation in self.relations(part) if relation.kind == kind]
        return [root for name in names if (root := self.archive.xml_or_none(name)) is not None]

    def finish(self, builder: BodyBuilder, title: str = "", meta: dict[str, str] | None = None) -> ParsedBody:
        """Finish a body with the package's core properties."""
        properties = self._core_properties()
        found = {
            key: properties[key]
            for key in ("subject", "keywords", "category", "description")
            if key in properties
        }
        return builder.finish(
            title=properties.get("title", "") or title,
            author=properties.get("creator", ""),
            language=properties.get("language", "")[:2].lower(),
            created_at=parse_date(properties.get("created", "")),
            updated_at=parse_date(properties.get("modified", "")),
            meta=found | (meta or {}),
        )

    def _core_properties(self) -> dict[str, str]:
        roots = self.related("", "core-properties")
        return {local(e): e.text.strip() for root in roots for e in root if e.text and e.text.strip()}


def comment_text(author: str, date: str, text: str) -> str:
    """Write a reviewer's comment with who said it when: `Ana (comment, 2026-03-02): text`."""
    said = f"comment, {date[:10]}" if date else "comment"
    return f"{author or 'Somebody'} ({said}): {' '.join(text.split())}"


def drawing_texts(root: Any) -> list[str]:
    """Return the paragraphs of DrawingML text anywhere below an element (`a:p`), blank ones left out."""
    return [text for p in descendants(root, "p") if (text := drawing_text(p)).strip()]


def drawing_text(paragraph: Any) -> str:
    """Return the text of one DrawingML paragraph; line breaks and fields included."""
    parts = []
    for element in descendants(paragraph, "t", "br", "tab"):
        name = local(element)
        parts.append((element.text or "") if name == "t" else "\n" if name == "br" else "\t")
    return "".join(parts)


def _resolve(folder: str, target: str) -> str:
    if target.startswith("/"):
        return target.lstrip("/")
    return posixpath.normpath(posixpath.join(folder, target)).lstrip("/")
