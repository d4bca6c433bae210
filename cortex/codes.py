"""One-time codes: the operator prints one, a person types it once into the page, and it is gone.

Only the SHA-256 of a code is stored, as the name of a file in `$CORTEX_HOME/run/codes` (mode 0700). Whoever renames
that file first has redeemed the code, so two redemptions cannot both succeed.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from pathlib import Path

from cortex.errors import Unauthenticated
from cortex.principals import Principal
from cortex.settings import Settings

# 32 letters and digits that are not mistaken for one another; 12 of them are 60 bits, and a code lives minutes.
_ALPHABET = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"
_GROUPS, _GROUP = 3, 4


def mint_code(settings: Settings, principal: Principal, ttl_s: int) -> str:
    """Make a code that signs `principal` in once within `ttl_s` seconds, like `K7QF-2MXA-9TPD`."""
    letters = [secrets.choice(_ALPHABET) for _ in range(_GROUPS * _GROUP)]
    code = "-".join("".join(letters[i : i + _GROUP]) for i in range(0, len(letters), _GROUP))
    folder = _folder(settings)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    record = {
        "tenant_id": principal.tenant_id,
        "user_id": principal.user_id,
        "scopes": sorted(principal.scopes),
        "issued_at_s": int(time.time()),
        "expires_at_s": time.time() + ttl_s,
    }
    path = folder / _name(code)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(record, file)
    _sweep(folder)
    return code


def redeem_code(settings: Settings, code: str) -> Principal:
    """Trade a code for its principal, once; raises Unauthenticated for a used, late or unknown one, alike."""
    path = _folder(settings) / _name(code)
    taken = path.with_suffix(f".{secrets.token_hex(8)}")
    try:
        path.rename(taken)
        record = json.loads(taken.read_text())
        taken.unlink()
    except (OSError, ValueError):
        record = None
    if record is None or record["expires_at_s"] < time.time():
        raise Unauthenticated(
            "the code is not valid: it was used, has expired, or never existed",
            code="code.invalid",
            hint="ask the operator for a new one: cortex token --code USER",
        )
    scopes, issued_at_s = frozenset(record["scopes"]), record.get("issued_at_s", 0)
    return Principal(record["tenant_id"], record["user_id"], scopes, issued_at_s)


def looks_like_code(text: str) -> bool:
    """Say whether a text has a code's form, as opposed to a token's."""
    return len(_plain(text)) == _GROUPS * _GROUP


def _folder(settings: Settings) -> Path:
    return settings.home / "run" / "codes"


def _plain(code: str) -> str:
    return "".join(letter for letter in code.upper() if letter.isalnum())


def _name(code: str) -> str:
    return hashlib.sha256(_plain(code).encode()).hexdigest()


def _sweep(folder: Path) -> None:
    """Remove codes that nobody redeemed in time."""
    for path in folder.iterdir():
        try:
            if json.loads(path.read_text())["expires_at_s"] < time.time():
                path.unlink(missing_ok=True)
        except (OSError, ValueError, KeyError):
            continue
