"""The object store: raw payloads in a folder of the home, or a bucket; there is no process to run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from cluster.engine import Engine
from cluster.place import Place
from cortex.errors import Unavailable


def _provides(place: Place) -> dict[str, str]:
    return {"CORTEX_OBJECTS_URL": place.folder("objects").as_uri()}


async def _probe(env: Mapping[str, str]) -> None:
    parts = urlsplit(env["CORTEX_OBJECTS_URL"])
    if parts.scheme != "file":
        return  # a bucket's credentials belong to the programs that use it
    folder = Path(unquote(parts.path))
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise Unavailable(f"{folder} cannot be written to")


ENGINE = Engine(
    name="objects",
    summary="raw payloads",
    probe=_probe,
    provides=_provides,
    launch=None,
    given_url=lambda settings: settings.objects_url,
)
