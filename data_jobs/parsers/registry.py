"""The registry of parsers: format name -> function, imported only when a file of that format comes."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from cortex.documents import ParsedBody
from data_jobs.parsers.failures import FailureCode, unparsable
from data_jobs.parsers.sniff import sniff

Parser = Callable[[bytes, str], ParsedBody]

# Lazy: a child that sees only Markdown never loads the PDF library.
_PARSERS: dict[str, str | Parser] = {
    "text": "data_jobs.parsers.text:parse_text",
    "data": "data_jobs.parsers.text:parse_data",
    "markdown": "data_jobs.parsers.markdown:parse_markdown",
    "note": "data_jobs.parsers.notes:parse_note",
    "dendron": "data_jobs.parsers.notes:parse_dendron_note",
    "org-note": "data_jobs.parsers.org_notes:parse_org_note",
    "html": "data_jobs.parsers.html:parse_html",
    "delimited": "data_jobs.parsers.delimited:parse_delimited",
    "captions": "data_jobs.parsers.captions:parse_captions",
    "mail": "data_jobs.parsers.mail:parse_mail",
    "pdf": "data_jobs.parsers.pdf:parse_pdf",
    "zip": "data_jobs.parsers.package:parse_package",
    "ole": "data_jobs.parsers.legacy:parse_compound",
    "rtf": "data_jobs.parsers.rtf:parse_rtf",
    "asciidoc": "data_jobs.parsers.asciidoc:parse_asciidoc",
    "rst": "data_jobs.parsers.rst:parse_rst",
    "org": "data_jobs.parsers.org:parse_org",
    "tex": "data_jobs.parsers.tex:parse_tex",
    "conversation": "data_jobs.parsers.conversation:parse_conversation",
    "boxnote": "data_jobs.parsers.boxnote:parse_boxnote",
    "code": "data_jobs.parsers.code:parse_code",
}
# File name suffix -> format, for parsers that are registered at run time.
_OWN_SUFFIXES: dict[str, str] = {}


def register(format_name: str, suffix: str, parser: Parser) -> None:
    """Add a parser for files whose name ends in `suffix`; it goes before the built-in formats."""
    _PARSERS[format_name] = parser
    _OWN_SUFFIXES[suffix.lower()] = format_name


def parse(content: bytes, name: str, media_type: str = "") -> ParsedBody:
    """Parse one file in this process; raises Unparsable with a code when it yields no text."""
    if not content:
        raise unparsable(FailureCode.EMPTY, "the file has no bytes")
    own = next((kind for suffix, kind in _OWN_SUFFIXES.items() if name.lower().endswith(suffix)), None)
    format_name = own or sniff(content, name, media_type)
    parsed = find(format_name)(content, name)
    if not parsed.blocks:
        hint = "if it shows text in pictures, run OCR first: pictures are not read yet"
        raise unparsable(FailureCode.NO_TEXT, "no text was found in it", hint)
    return parsed


def find(format_name: str) -> Parser:
    """Return the parser of a format, importing it on first use."""
    parser = _PARSERS.get(format_name)
    if parser is None:
        raise unparsable(FailureCode.UNSUPPORTED, f"there is no parser for {format_name} files")
    if isinstance(parser, str):
        module, _, function = parser.partition(":")
        parser = _PARSERS[format_name] = getattr(import_module(module), function)
    return parser
