"""URLs for people (no password in them) and for children (the ones that the operator's settings give)."""

from __future__ import annotations

from urllib.parse import urlsplit

from pydantic import SecretStr

from cortex.settings import Settings

_GIVEN = (
    "postgres_url",
    "qdrant_url",
    "qdrant_api_key",
    "spicedb_url",
    "spicedb_token",
    "objects_url",
    "ray_address",
)


def public_url(url: str) -> str:
    """Strip user and password from a URL."""
    if "://" not in url:
        return url
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def given_env(settings: Settings) -> dict[str, str]:
    """Return the engine settings that are not empty, as environment variables."""
    values = {name: getattr(settings, name) for name in _GIVEN}
    texts = {name: v.get_secret_value() if isinstance(v, SecretStr) else str(v) for name, v in values.items()}
    return {f"CORTEX_{name.upper()}": text for name, text in texts.items() if text}
