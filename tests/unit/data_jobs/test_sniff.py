"""What a file is: bytes before names before media types."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from data_jobs.parsers.failures import FailureCode
from data_jobs.parsers.sniff import sniff
from tests.unit.data_jobs.seen import code_of

DOCUMENTATION = Path(__file__).parents[3] / "docs" / "reference" / "parse-failures.md"


@pytest.mark.parametrize(
    ("content", "name", "media_type", "expected"),
    [
        (b"%PDF-1.7", "a.txt", "", "pdf"),
        (b"\n\n%PDF-1.7", "a", "", "pdf"),
        (b"PK\x03\x04....", "a.html", "", "zip"),
        (b"{\\rtf1 x}", "a.doc", "", "rtf"),
        (b"<!-- x --><!DOCTYPE html><p>", "a.txt", "", "html"),
        (b"<html>", "page", "", "html"),
        (b"# x", "README.MD", "text/plain", "markdown"),
        (b"# x", "page", "text/markdown; charset=utf-8", "markdown"),
        (b"\xef\xbb\xbfWEBVTT\n", "a.txt", "", "captions"),
        (b"#!/bin/sh\n", "run", "", "code"),
        (b"x", "Makefile", "", "code"),
        (b"BM is a word", "a.txt", "", "text"),
        (b'{"title":"%PDF-1.7"', "", "application/vnd.cortex.conversation+json", "conversation"),
        ("ünï".encode("utf-16"), "a.txt", "", "text"),
        ("ünï".encode("utf-16-le"), "a.txt", "", "text"),
    ],
)
def test_formats(content: bytes, name: str, media_type: str, expected: str) -> None:
    """Magic bytes win over names, names over media types, and unnamed text is looked at."""
    assert sniff(content, name, media_type) == expected


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xd8\xff\xe0",
        b"RIFF....WEBP",
        b"RIFF....WAVE",
        b"....ftypisom",
        b"ID3\x04",
        b"\x1f\x8b\x08",
        b"\x7fELF",
    ],
)
def test_media_archives_and_programs_are_refused(content: bytes) -> None:
    """Pictures, sound, film, archives and programs are unsupported, whatever their name."""
    assert code_of(content, "a.txt") == "document.unsupported"


def test_every_code_is_documented() -> None:
    """The reference page lists exactly the codes that exist."""
    listed = re.findall(r"^\| `(document\.\w+)`", DOCUMENTATION.read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(code.value for code in FailureCode)
