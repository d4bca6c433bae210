"""The page on MCP clients: its program runs as it stands there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from cortex.principals import Principal
from cortex.tokens import local_private_key, sign
from tests.docs.documents import FENCE, ROOT
from tests.twins.running_app import running_app
from tests.twins.service import ADA

PAGE = ROOT / "docs" / "howto" / "use-from-an-mcp-client.md"


def test_the_page_s_program_finds_something(tmp_path: Path) -> None:
    """With a token in the environment and Cortex at its address, it prints titles with links."""
    (program,) = [
        code for language, code in FENCE.findall(PAGE.read_text(encoding="utf-8")) if language == "python"
    ]
    with running_app(tmp_path) as app:
        token = sign(Principal("default", ADA), local_private_key(app.settings), 60)
        moved = program.replace("http://127.0.0.1:8642", app.url)
        done = subprocess.run(
            [sys.executable, "-c", moved],
            env={**os.environ, "CORTEX_TOKEN": token},
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert "Travel policy https://wiki.example.com/1#L25-L33" in done.stdout.splitlines(), done.stderr
