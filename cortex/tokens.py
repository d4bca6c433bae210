"""Tokens: who the caller is, signed. The local issuer uses an Ed25519 key in `$CORTEX_HOME/keys` (RFC 7519, RFC 8037)."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from cortex.errors import Misconfigured, Unauthenticated
from cortex.principals import Principal
from cortex.settings import Settings

LOCAL_ISSUER = "cortex-local"
AUDIENCE = "cortex"
_KEY_NAME = "issuer.pem"
_LEEWAY_S = 5


@dataclass(frozen=True, slots=True)
class Issuer:
    """One trusted issuer: its name and the keys that may sign, as PyJWT key objects by key id."""

    name: str
    keys: dict[str, Any]
    algorithms: tuple[str, ...]


def local_private_key(settings: Settings) -> bytes:
    """Load the operator's signing key as PEM, creating it on first use (mode 0600, folder 0700)."""
    path = settings.keys_path / _KEY_NAME
    if not path.exists():
        settings.keys_path.mkdir(parents=True, exist_ok=True, mode=0o700)
        pem = Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        draft = path.with_name(f"{_KEY_NAME}.{os.getpid()}")
        draft.touch(mode=0o600)
        draft.write_bytes(pem)
        try:
            os.link(draft, path)  # atomic: of two first uses, one key wins
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return path.read_bytes()


def sign(principal: Principal, private_pem: bytes, ttl_s: int, now_s: float | None = None) -> str:
    """Sign a token for a principal that is valid for `ttl_s` seconds."""
    now = int(time.time() if now_s is None else now_s)
    claims = {
        "iss": LOCAL_ISSUER,
        "aud": AUDIENCE,
        "sub": principal.user_id,
        "tenant": principal.tenant_id,
        "scope": " ".join(sorted(principal.scopes)),
        "iat": now,
        "exp": now + ttl_s,
    }
    return jwt.encode(claims, private_pem, algorithm="EdDSA", headers={"kid": LOCAL_ISSUER})


def trusted_issuers(settings: Settings) -> dict[str, Issuer]:
    """List the issuers that may sign: the local one and those of `CORTEX_OIDC_ISSUERS` (issuer=JWKS file)."""
    private = serialization.load_pem_private_key(local_private_key(settings), password=None)
    issuers = {LOCAL_ISSUER: Issuer(LOCAL_ISSUER, {LOCAL_ISSUER: private.public_key()}, ("EdDSA",))}
    for pair in filter(None, (part.strip() for part in settings.oidc_issuers.split(","))):
        name, separator, path = pair.rpartition("=")
        if not separator or name == LOCAL_ISSUER:
            raise Misconfigured(
                "CORTEX_OIDC_ISSUERS must list issuer=path pairs", hint="issuer=/path/to/jwks.json"
            )
        try:
            keys = {key["kid"]: jwt.PyJWK(key).key for key in json.loads(Path(path).read_text())["keys"]}
        except (OSError, ValueError, KeyError, jwt.PyJWTError) as error:
            raise Misconfigured(
                f"the JWKS file of issuer {name} cannot be used: {type(error).__name__}"
            ) from error
        issuers[name] = Issuer(name, keys, ("RS256", "ES256", "EdDSA"))
    return issuers


def verify(token: str, issuers: dict[str, Issuer], default_tenant_id: str) -> Principal:
    """Verify a token's signature, issuer, audience and times; raises Unauthenticated and says no more than why."""
    try:
        unverified = jwt.decode(token, options={"verify_signature": False})
        issuer = issuers[str(unverified["iss"])]
        key = issuer.keys[str(jwt.get_unverified_header(token)["kid"])]
        claims = jwt.decode(
            token,
            key,
            algorithms=list(issuer.algorithms),
            audience=AUDIENCE,
            issuer=issuer.name,
            leeway=_LEEWAY_S,
            options={"require": ["exp", "sub", "iss", "aud"]},
        )
    except jwt.ExpiredSignatureError as error:
        raise Unauthenticated("the token has expired", code="token.expired", hint="sign in again") from error
    except (jwt.PyJWTError, KeyError, ValueError, TypeError) as error:
        raise Unauthenticated(
            "the token is not valid here", hint="get one with `cortex token USER`"
        ) from error
    is_local = issuer.name == LOCAL_ISSUER
    subject = str(claims["sub"]) if is_local else str(claims.get("email") or claims["sub"])
    # Only the operator's own key may name a tenant or grant more than search.
    return Principal(
        tenant_id=str(claims.get("tenant") or default_tenant_id) if is_local else default_tenant_id,
        user_id=subject,
        scopes=frozenset(str(claims.get("scope", "search")).split()) if is_local else frozenset({"search"}),
        issued_at_s=int(claims.get("iat", 0)),
    )
