"""ZIP packages opened with care: entries, sizes and ratios are bounded before and while anything is unpacked.

XML from them is read without entities, external or not, and without network: office formats forbid document type
declarations, so one is refused as an attack (billion laughs).
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

from lxml import etree

from data_jobs.parsers.failures import FailureCode, unparsable

_MAX_ENTRIES = 20_000
_MAX_ENTRY_BYTES = 300_000_000
_MAX_READ_BYTES = 600_000_000  # over all parts that are read from one package
# Deflate reaches 1,000:1 on one repeated byte; spreadsheets of zeros reach 60:1.
_MAX_RATIO = 200
_RATIO_FROM_BYTES = 5_000_000
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    NotImplementedError,
    ValueError,
    KeyError,
    IndexError,
)
_DOM_XML: dict[str, Any] = {
    "resolve_entities": False,
    "no_network": True,
    "load_dtd": False,
    "huge_tree": False,
}


class Archive:
    """A ZIP package by part name; names are matched without regard to case, as office programs do."""

    def __init__(self, content: bytes) -> None:
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(content))
        except _BROKEN as error:
            raise unparsable(FailureCode.CORRUPT, "it is a broken ZIP package") from error
        entries = self._zip.infolist()
        if len(entries) > _MAX_ENTRIES:
            raise unparsable(FailureCode.TOO_LARGE, f"it packs {len(entries):,} files")
        self._entries = {_normal(entry.filename): entry for entry in entries}
        self._n_read = 0

    def __contains__(self, name: str) -> bool:
        return _normal(name) in self._entries

    @property
    def names(self) -> list[str]:
        """Part names in package order, lower case."""
        return list(self._entries)

    def read(self, name: str) -> bytes:
        """Unpack one part, up to the limits; raises Unparsable if it is absent, broken, encrypted or a bomb."""
        entry = self._entries.get(_normal(name))
        if entry is None:
            raise unparsable(FailureCode.CORRUPT, "a part of the package is missing")
        if entry.flag_bits & 0x1:
            raise unparsable(FailureCode.ENCRYPTED, "it is protected by a password", "remove the password")
        ratio = entry.file_size / max(entry.compress_size, 1)
        is_bomb = entry.file_size > _RATIO_FROM_BYTES and ratio > _MAX_RATIO
        if is_bomb or entry.file_size > _MAX_ENTRY_BYTES or self._n_read + entry.file_size > _MAX_READ_BYTES:
            raise unparsable(FailureCode.TOO_LARGE, f"a part of it unpacks to {entry.file_size:,} bytes")
        try:
            with self._zip.open(entry) as stream:
                content = stream.read(entry.file_size + 1)  # never more than was declared
        except RuntimeError as error:  # what zipfile raises for a password
            raise unparsable(FailureCode.ENCRYPTED, "it is protected by a password") from error
        except _BROKEN as error:
            raise unparsable(FailureCode.CORRUPT, "a part of the package cannot be unpacked") from error
        self._n_read += len(content)
        return content

    def xml(self, name: str) -> Any:
        """Parse one part as XML; returns its root."""
        return parse_xml(self.read(name))

    def xml_or_none(self, name: str) -> Any | None:
        """Parse one part as XML; None if it is absent or broken: for parts that only add to the main one."""
        if name not in self:
            return None
        try:
            return self.xml(name)
        except etree.XMLSyntaxError:
            return None


def parse_xml(content: bytes) -> Any:
    """Parse XML without entities; raises Unparsable."""
    try:
        root = etree.fromstring(content, etree.XMLParser(remove_comments=True, remove_pis=True, **_DOM_XML))
    except etree.XMLSyntaxError as error:
        raise unparsable(FailureCode.CORRUPT, "a part of it is malformed XML") from error
    _refuse_doctype(root)
    return root


def iterate_xml(content: bytes, tag: str) -> Iterator[Any]:
    """Yield every finished element with that local name, then free it: for parts larger than a tree should be."""
    context = etree.iterparse(io.BytesIO(content), events=("end",), tag=f"{{*}}{tag}", **_DOM_XML)
    is_checked = False
    try:
        for _, element in context:
            if not is_checked:
                _refuse_doctype(element)
                is_checked = True
            yield element
            element.clear()
            while element.getprevious() is not None:
                del element.getparent()[0]
    except etree.XMLSyntaxError as error:
        raise unparsable(FailureCode.CORRUPT, "a part of it is malformed XML") from error


def local(element: Any) -> str:
    """Return an element's name without its namespace: strict and transitional documents differ only there."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def attribute(element: Any, name: str) -> str:
    """Return an attribute by its local name; empty if absent."""
    value = element.get(name)
    if value is not None:
        return str(value)
    return next((str(v) for key, v in element.attrib.items() if key.rpartition("}")[2] == name), "")


def child(element: Any, *path: str) -> Any | None:
    """Follow local names downwards; None if one is absent."""
    for name in path:
        element = next((sub for sub in element if local(sub) == name), None)
        if element is None:
            return None
    return element


def descendants(element: Any, *names: str) -> Iterator[Any]:
    """Yield the elements below with one of these local names, in document order."""
    yield from element.iter(*(f"{{*}}{name}" for name in names))


def _refuse_doctype(element: Any) -> None:
    if element.getroottree().docinfo.doctype:
        raise unparsable(FailureCode.CORRUPT, "its XML declares entities, which office files never do")


def _normal(name: str) -> str:
    return name.replace("\\", "/").lstrip("/").lower()
