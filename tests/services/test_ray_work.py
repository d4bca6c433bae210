"""A load in a Ray that offers a GPU: the documents of the same load without Ray, made by workers that hold the GPU.

That GPU is a number which Ray was told: all compute on the CPU, and have to say so.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from adapters.onnx_embedder import built_in_files
from cortex.settings import Settings
from tests.services.homes import Ran, ScratchHome
from tests.twins.slack_workspace import TOKEN, Workspace

pytestmark = [pytest.mark.services, pytest.mark.timeout(240)]

SHOWN = """
    SELECT d.external_id, v.title, v.content_sha256,
           (SELECT array_agg(c.text ORDER BY c.ordinal) FROM chunks c WHERE c.version_id = v.version_id)
    FROM documents d JOIN versions v USING (version_id) WHERE d.tenant_id = %s ORDER BY d.external_id
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, home_engines: Settings) -> Iterator[ScratchHome]:
    """A home with the session's engines and a Ray of its own, which believes that it has a GPU."""
    env = {
        "RAY_OVERRIDE_RESOURCES": '{"GPU": 1}',
        "CORTEX_POSTGRES_URL": home_engines.postgres_url,
        "CORTEX_QDRANT_URL": home_engines.qdrant_url,
        "CORTEX_QDRANT_API_KEY": home_engines.qdrant_api_key.get_secret_value(),
        "CORTEX_SPICEDB_URL": home_engines.spicedb_url,
        "CORTEX_SPICEDB_TOKEN": home_engines.spicedb_token.get_secret_value(),
        "CORTEX_SLACK_TOKEN": TOKEN,
        "CORTEX_INGEST_WORKERS": "1",
        "CORTEX_INGEST_GPUS_PER_WORKER": "0.5",
    }
    made = ScratchHome(tmp_path_factory.mktemp("ray") / "home", env)
    try:
        made.up("ray")
        yield made
    finally:
        made.down()


def load(home: ScratchHome, workspace: Workspace, tenant_id: str, *options: str) -> Ran:
    """Load the workspace for a tenant; fails the test where that fails."""
    theirs = replace(home, extra_env={**home.extra_env, "CORTEX_TENANT_ID": tenant_id})
    ran = theirs.cortex("ingest", "slack", workspace.url, *options)
    assert (ran.code, ran.document["failed"]) == (0, []), f"{ran.document}\n{ran.stderr}"
    return ran


def events(ran: Ran) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ran.stderr.splitlines() if line.startswith("{")]


def embedders(home: ScratchHome) -> list[dict[str, Any]]:
    """What the workers that embed said of themselves in Ray's logs."""
    logs = Path(home.state.env["CORTEX_RAY_TEMP_DIR"], "session_latest", "logs").glob("worker-*.err")
    lines = [line for log in logs for line in log.read_text().splitlines()]
    return [json.loads(line) for line in lines if '"embedder.opened"' in line]


def test_ray_stores_the_same_documents_by_workers_that_hold_a_gpu(
    home: ScratchHome, home_engines: Settings, glacier: Workspace
) -> None:
    """A thread and the content of its file, which a worker has from Slack, are stored as without Ray; each worker that embeds
    holds its share of the GPU; that it cannot compute there is told, with what to do.
    """
    in_ray, here = f"ray-{uuid.uuid4().hex[:8]}", f"here-{uuid.uuid4().hex[:8]}"
    load(home, glacier, here, "--no-ray")
    told = events(load(home, glacier, in_ray))
    with psycopg.connect(home_engines.postgres_url) as catalog:
        expected, stored = (catalog.execute(SHOWN, [tenant]).fetchall() for tenant in (here, in_ray))
    assert stored == expected
    assert [external_id for external_id, *_ in stored] == ["G0SEC/1772700000.000900", "G0SEC/F0OFFER"]
    assert [event["code"] for event in told if event["event"] == "ingest.without_gpu"] == [
        "model.without_gpu"
    ]
    assert [(event["gpus"], event["is_on_gpu"]) for event in embedders(home)] == [(["0"], False)]


def test_a_model_that_no_worker_can_open_is_told_in_one_error(home: ScratchHome, tmp_path: Path) -> None:
    """With its code and nothing of Ray's own words, though only the workers open it."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.onnx").write_bytes(b"no model")
    shutil.copyfile(built_in_files().tokenizer, tmp_path / "model" / "tokenizer.json")
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "page.md").write_text("A page.\n")
    broken = {"CORTEX_EMBEDDING_MODEL": str(tmp_path / "model"), "CORTEX_TENANT_ID": uuid.uuid4().hex}
    theirs = replace(home, extra_env={**home.extra_env, **broken})
    ran = theirs.cortex("ingest", "files", str(tmp_path / "pages"))
    assert (ran.code, ran.document["error"]["code"]) == (8, "model.invalid"), ran.stderr
    assert "Traceback" not in ran.stderr
