"""One-time codes."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from cortex.codes import looks_like_code, mint_code, redeem_code
from cortex.errors import Unauthenticated
from cortex.principals import Principal
from cortex.settings import Settings

ADA = Principal("default", "ada@example.com", frozenset({"search", "operate"}))


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


def test_a_code_signs_in_once(home: Settings) -> None:
    """A code gives its principal once, whatever its case and dashes, and is then gone."""
    code = mint_code(home, ADA, ttl_s=60)
    assert redeem_code(home, code.lower().replace("-", " ")) == ADA
    with pytest.raises(Unauthenticated) as error:
        redeem_code(home, code)
    assert error.value.error_code == "code.invalid"


def test_a_late_code_is_refused_like_an_unknown_one(home: Settings) -> None:
    """An expired code and a code that never existed get the same message."""
    late = mint_code(home, ADA, ttl_s=-1)
    messages = set()
    for code in (late, "AAAA-BBBB-CCCC", "", "../../etc/passwd"):
        with pytest.raises(Unauthenticated) as error:
            redeem_code(home, code)
        messages.add(error.value.message)
    assert len(messages) == 1


def test_only_a_hash_is_stored_and_only_the_owner_reads_it(home: Settings) -> None:
    """The code itself appears in no file name and no file, and the files are private."""
    code = mint_code(home, ADA, ttl_s=60)
    (path,) = (home.home / "run" / "codes").iterdir()
    plain = code.replace("-", "")
    assert plain not in path.name and plain not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_code_is_told_from_a_token() -> None:
    """Twelve letters and digits are a code; a signed token is not."""
    assert looks_like_code("k7qf-2mxa-9tpd")
    assert not looks_like_code("eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJhIn0.c2ln")
