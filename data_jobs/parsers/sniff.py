"""What a file is: its first bytes decide, then its name, then its media type, then a look at the text."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from cortex.conversations import MEDIA_TYPE as CONVERSATION
from data_jobs.parsers.decode import is_binary
from data_jobs.parsers.failures import FailureCode, unparsable
from data_jobs.parsers.languages import language_of

_SPEECH = "speech is not read yet: give its transcript as subtitles (.vtt, .srt)"
_OCR = "pictures are not read yet: run OCR, and give the text or a PDF that has it"
# First bytes of what is recognised only to be refused with a useful reason.
_REFUSED = (
    (b"\x89PNG", "an image", _OCR),
    (b"\xff\xd8\xff", "an image", _OCR),
    (b"GIF8", "an image", _OCR),
    (b"BM", "an image", _OCR),
    (b"II*\x00", "an image", _OCR),
    (b"MM\x00*", "an image", _OCR),
    (b"ID3", "audio", _SPEECH),
    (b"OggS", "audio", _SPEECH),
    (b"fLaC", "audio", _SPEECH),
    (b"\x1aE\xdf\xa3", "video", _SPEECH),
    (b"\x1f\x8b", "a compressed archive", "unpack it"),
    (b"BZh", "a compressed archive", "unpack it"),
    (b"\xfd7zXZ\x00", "a compressed archive", "unpack it"),
    (b"7z\xbc\xaf\x27\x1c", "a compressed archive", "unpack it"),
    (b"Rar!\x1a\x07", "a compressed archive", "unpack it"),
    (b"\x7fELF", "a program", ""),
    (b"MZ\x90\x00", "a program", ""),
    (b"SQLite format 3\x00", "a database", "export it as CSV"),
)
_RIFF = {b"WEBP": ("an image", _OCR), b"WAVE": ("audio", _SPEECH), b"AVI ": ("video", _SPEECH)}
_BY_SUFFIX = {
    ".txt": "text", ".text": "text", ".log": "text", ".srt": "captions", ".vtt": "captions",
    ".md": "markdown", ".markdown": "markdown", ".mdx": "markdown", ".qmd": "markdown", ".rmd": "markdown",
    ".html": "html", ".htm": "html", ".xhtml": "html",
    ".csv": "delimited", ".tsv": "delimited", ".tab": "delimited", ".psv": "delimited",
    ".eml": "mail", ".mbox": "mail",
    ".adoc": "asciidoc", ".asciidoc": "asciidoc", ".asc": "asciidoc", ".rst": "rst", ".org": "org",
    ".tex": "tex", ".ltx": "tex",
    ".json": "data", ".jsonl": "data", ".ndjson": "data", ".yaml": "data", ".yml": "data", ".toml": "data",
    ".ini": "data", ".cfg": "data", ".conf": "data", ".properties": "data", ".xml": "data", ".env": "data",
    ".boxnote": "boxnote",
}  # fmt: skip
_BY_MEDIA_TYPE = {
    "text/plain": "text", "text/markdown": "markdown", "text/html": "html", "application/xhtml+xml": "html",
    "text/csv": "delimited", "text/tab-separated-values": "delimited", "message/rfc822": "mail",
    "application/mbox": "mail", "text/vtt": "captions", "application/x-subrip": "captions",
    "application/json": "data", "application/xml": "data", "text/xml": "data", "application/yaml": "data",
    "text/x-rst": "rst", "text/asciidoc": "asciidoc", "text/org": "org", "application/x-tex": "tex",
}  # fmt: skip
# Notes keep their own text as the body, so that every span of it is one of the file.
_BY_VARIANT = {
    ("text/markdown", "vault"): "note", ("text/markdown", "dendron"): "dendron", ("text/org", "vault"): "org-note",
}  # fmt: skip
_HTML_START = re.compile(
    rb"\s*(?:<\?xml[^>]*\?>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.I | re.S
)


def sniff(content: bytes, name: str, media_type: str = "") -> str:
    """Name the format of a file, as the registry knows it; raises Unparsable for one that has no parser."""
    if media_type == CONVERSATION and not name:  # what people say may begin like any other format
        return "conversation"
    head = content[:2_048]
    if b"%PDF-" in head[:1_024]:
        return "pdf"
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"
    if head.startswith(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"):
        return "ole"
    if head.startswith(b"{\\rtf"):
        return "rtf"
    _refuse_media(head)
    if is_binary(content):
        raise unparsable(FailureCode.UNSUPPORTED, "it is a binary file of an unknown kind")
    return _text_format(head, name, media_type)


def _text_format(head: bytes, name: str, media_type: str) -> str:
    media_type, _, variant = (part.strip() for part in media_type.lower().partition(";"))
    if note := _BY_VARIANT.get((media_type, variant.removeprefix("variant="))):
        return note
    if head.removeprefix(b"\xef\xbb\xbf").startswith(b"WEBVTT"):
        return "captions"
    suffix = PurePosixPath(name.lower()).suffix
    known = _BY_SUFFIX.get(suffix) or ("code" if language_of(name) else "")
    known = known or _BY_MEDIA_TYPE.get(media_type, "")
    if known and known != "text":
        return known
    if _HTML_START.match(head):
        return "html"
    return known or ("code" if head.startswith(b"#!") else "text")


def _refuse_media(head: bytes) -> None:
    what = hint = ""
    if head[:4] == b"RIFF":
        what, hint = _RIFF.get(head[8:12], ("", ""))
    elif head[4:8] == b"ftyp":
        what, hint = ("audio", _SPEECH) if head[8:11] == b"M4A" else ("video", _SPEECH)
    elif head[:1] == b"\xff" and head[1:2] and head[1] & 0xE0 == 0xE0 and head[1] not in (0xFE, 0xFF):
        what, hint = "audio", _SPEECH
    else:
        what, hint = next(((w, h) for magic, w, h in _REFUSED if head.startswith(magic)), ("", ""))
        if head.startswith(b"BM") and b"\x00" not in head[:26]:  # a text that begins with "BM"
            what = ""
    if what:
        raise unparsable(FailureCode.UNSUPPORTED, f"it is {what}", hint)
