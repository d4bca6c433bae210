"""Packages made to hurt: bombs, entities, lies and damage end in a reason, quickly."""

from __future__ import annotations

import io
import struct
import time
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cortex.errors import Unparsable
from data_jobs.parsers.failures import FailureCode
from tests.unit.data_jobs.seen import FIXTURES, code_of, parsed

TYPES = '<Types><Override ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'
RELATIONS = '<R><Relationship Id="1" Type="x/officeDocument" Target="word/document.xml"/></R>'
TEXT = "<d><body><p><r><t>{}</t></r></p></body></d>"


def word_file(document: str | bytes, **more: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", TYPES)
        archive.writestr("_rels/.rels", RELATIONS)
        archive.writestr("word/document.xml", document)
        for name, content in more.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def test_the_frame_itself_is_readable() -> None:
    """The package that these tests damage is a readable document."""
    assert parsed(word_file(TEXT.format("fine")), "a.docx").body == "fine"


def test_compression_bombs_are_refused_unread() -> None:
    """A part that unpacks to far more than its size is refused by what it declares."""
    started = time.monotonic()
    assert code_of(word_file(b"<d>" + b" " * 30_000_000 + b"</d>"), "a.docx") == "document.too_large"
    assert time.monotonic() - started < 10


def test_declared_sizes_bind() -> None:
    """A part that declares to be small is never unpacked beyond that."""
    content = bytearray(word_file(b"<d>" + b" " * 2_000_000 + b"</d>"))
    directory = content.index(
        b"PK\x01\x02", content.index(b"PK\x01\x02", content.index(b"PK\x01\x02") + 4) + 4
    )
    struct.pack_into("<I", content, directory + 24, 100)
    assert code_of(bytes(content), "a.docx") == "document.corrupt"


def test_too_many_parts() -> None:
    """A package of countless parts is refused."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for n in range(20_001):
            archive.writestr(f"word/{n}", b"")
    assert code_of(buffer.getvalue(), "a.docx") == "document.too_large"


LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))


@pytest.mark.parametrize(
    "prolog",
    [
        f'<!DOCTYPE d [<!ENTITY l0 "ha">{LAUGHS}]>',
        '<!DOCTYPE d [<!ENTITY l9 SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE d SYSTEM "http://127.0.0.1:9/x.dtd" [<!ENTITY l9 "x">]>',
    ],
)
def test_entities_are_refused(prolog: str) -> None:
    """Entities, whether they multiply, read files or fetch, make a package corrupt."""
    assert code_of(word_file(prolog + TEXT.format("&l9;")), "a.docx") == "document.corrupt"


def test_password_protected_zip() -> None:
    """An encrypted part is reported as such."""
    content = bytearray(word_file(TEXT.format("x")))
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = content.find(mark)
        while at >= 0:
            content[at + offset] |= 1
            at = content.find(mark, at + 4)
    assert code_of(bytes(content), "a.docx") == "document.encrypted"


def test_archives_that_are_no_documents() -> None:
    """A ZIP of files is not guessed at."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.txt", "x")
    assert code_of(buffer.getvalue(), "a.zip") == "document.unsupported"


@pytest.mark.parametrize(
    "name", sorted(path.name for path in FIXTURES.iterdir() if path.suffix not in (".pdf", ".md"))
)
@given(data=st.data())
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_damaged_files_fail_with_a_code(name: str, data: st.DataObject) -> None:
    """Any bytes changed or cut in a real file: it parses, or fails in a way that the child turns into a code."""
    content = bytearray((FIXTURES / name).read_bytes())
    for at in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=30)):
        content[at] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(0, len(content)))]
    try:
        parsed(bytes(content), Path(name).name)
    except Unparsable as error:
        assert FailureCode(error.error_code)
    except (
        ArithmeticError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        AssertionError,
        struct.error,
        zlib.error,
    ):
        pass  # the child reports these as document.corrupt
