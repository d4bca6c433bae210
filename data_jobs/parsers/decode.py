"""Bytes -> text: byte order marks, UTF-8, UTF-16 without a mark, then a guess from the bytes, then Windows-1252."""

from __future__ import annotations

import codecs
import re

from data_jobs.parsers.body import clean

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16: its mark starts with the other's
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SAMPLE_BYTES = 64_000  # the guess is quadratic in hard cases; a sample says as much
_DECLARED = re.compile(rb"""(?:charset|encoding)\s*=\s*["']?\s*([A-Za-z0-9_.:-]{2,40})""")
_TEXT_CONTROLS = frozenset(b"\t\n\r\x0b\x0c\x1b\x08")


def decode(content: bytes, declared: str = "") -> str:
    """Decode to cleaned text; `declared` is an encoding that the file or its envelope names, tried after UTF-8."""
    for mark, name in _MARKS:
        if content.startswith(mark):
            return clean(content.decode(name, errors="replace"))
    try:
        return clean(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        # A file cut in the middle of a character, or one stray byte, is still UTF-8.
        is_nearly_utf8 = error.start > 2_000 and _has_multibyte(content[: error.start])
    encoding = "utf-8" if is_nearly_utf8 else _known(declared) or _guess(content)
    return clean(content.decode(encoding, errors="replace"))


def declared_encoding(content: bytes) -> str:
    """Find the encoding that an HTML or XML head names; empty if none does."""
    match = _DECLARED.search(content[:2_048])
    return match.group(1).decode("ascii") if match else ""


def is_binary(content: bytes) -> bool:
    """Say whether the bytes cannot be text: NULs without the pattern of UTF-16, or many control bytes."""
    sample = content[:8_192]
    if any(content.startswith(mark) for mark, _ in _MARKS) or _bare_utf16(sample):
        return False
    controls = sum(1 for byte in sample if byte < 32 and byte not in _TEXT_CONTROLS)
    return controls > max(len(sample) // 50, 1 if b"\x00" in sample else 8)


def _guess(content: bytes) -> str:
    sample = content[:_SAMPLE_BYTES]
    if bare := _bare_utf16(sample):
        return bare
    n_high = sum(1 for byte in sample if byte >= 0x80)
    if n_high < 0.06 * len(sample):  # Western text: a statistical guess does worse on few accents
        return "cp1252"
    from charset_normalizer import from_bytes

    best = from_bytes(sample).best()
    return best.encoding if best is not None else "cp1252"


def _bare_utf16(sample: bytes) -> str:
    """Recognise UTF-16 without a mark by its zero bytes, which stand almost all on one parity."""
    if len(sample) < 4:
        return ""
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    n_pairs = len(sample) // 2
    if odd > 0.4 * n_pairs and even < 0.05 * n_pairs:
        return "utf-16-le"
    if even > 0.4 * n_pairs and odd < 0.05 * n_pairs:
        return "utf-16-be"
    return ""


def _has_multibyte(content: bytes) -> bool:
    return not content.isascii()


def _known(name: str) -> str:
    try:
        return codecs.lookup(name).name if name else ""
    except LookupError:
        return ""
