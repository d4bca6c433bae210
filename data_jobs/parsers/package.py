"""ZIP packages: which kind of office file or book one is, told by what is in it."""

from __future__ import annotations

from importlib import import_module

from cortex.documents import ParsedBody
from data_jobs.parsers.archive import Archive
from data_jobs.parsers.failures import FailureCode, unparsable

# What the main part's content type holds -> the parser of that kind.
_BY_CONTENT_TYPE = {
    b"wordprocessingml": "docx:parse_docx",
    b"ms-word": "docx:parse_docx",
    b"presentationml": "pptx:parse_pptx",
    b"ms-powerpoint": "pptx:parse_pptx",
    b"spreadsheetml": "xlsx:parse_xlsx",
    b"ms-excel.sheet.macroenabled": "xlsx:parse_xlsx",
}
_BY_FOLDER = {"word/": "docx:parse_docx", "ppt/": "pptx:parse_pptx", "xl/": "xlsx:parse_xlsx"}


def parse_package(content: bytes, name: str) -> ParsedBody:
    """Parse whatever the package is; raises Unparsable for archives that are no document."""
    archive = Archive(content)
    module, _, function = _kind(archive).partition(":")
    parsed: ParsedBody = getattr(import_module(f"data_jobs.parsers.{module}"), function)(archive, name)
    return parsed


def _kind(archive: Archive) -> str:
    if "mimetype" in archive:
        mimetype = archive.read("mimetype").strip()
        if mimetype.startswith(b"application/vnd.oasis.opendocument"):
            return "odf:parse_odf"
        if mimetype == b"application/epub+zip":
            return "epub:parse_epub"
    if "[content_types].xml" in archive:
        if "xl/workbook.bin" in archive:
            raise unparsable(FailureCode.UNSUPPORTED, "it is a binary workbook", "save it as .xlsx")
        types = archive.read("[content_types].xml").lower()
        mains = types.split(b".main+xml")[:-1]
        for start in mains:
            for mark, kind in _BY_CONTENT_TYPE.items():
                if mark in start[-80:]:
                    return kind
    for folder, kind in _BY_FOLDER.items():
        if any(part.startswith(folder) for part in archive.names):
            return kind
    raise unparsable(FailureCode.UNSUPPORTED, "it is an archive", "unpack it")
