"""The page about the HTTP API lists exactly the routes that are served."""

from __future__ import annotations

import re
from pathlib import Path

from cortex.settings import Settings
from serve_apps.http import make_app
from serve_apps.service import Backend
from tests.docs.documents import ROOT
from tests.twins.service import TwinDesk, TwinService


def test_page_lists_every_route(tmp_path: Path) -> None:
    """Each operation of the OpenAPI document stands in the table, and nothing else."""
    page = (ROOT / "docs" / "reference" / "http-api.md").read_text(encoding="utf-8")
    listed = set()
    for cell in re.findall(r"^\| (`[A-Z].*?) \|", page, re.M):
        path = re.findall(r"(/[\w/{}-]+)`", cell)[-1]
        listed |= {(method.lower(), path) for method in re.findall(r"\b(GET|POST|PUT|DELETE)\b", cell)}
    document = make_app(Backend(TwinService(), TwinDesk()), Settings(home=tmp_path)).openapi()
    served = {(method, path) for path, operations in document["paths"].items() for method in operations}
    assert listed == served
