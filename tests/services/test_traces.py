"""One question over the real engines is one trace: from HTTP through every step to each call of an engine and of the model."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from adapters.onnx_embedder import model_version
from cortex.settings import Settings
from serve_apps.backend import open_backend
from serve_apps.http import make_app
from tests.services.asking import token
from tests.services.loaded_home import LoadedHome
from tests.services.staged_home import StreamingModel
from tests.twins.spans import kept_spans

pytestmark = [
    pytest.mark.services,
    pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection"),  # loopback
]
QUESTION = "the plan is to move the queue, page number of wing"
TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
STEPS = ("permit", "understand", "embed", "search", "recheck", "assemble", "support")


async def _answer(settings: Settings) -> Any:
    backend = await open_backend(settings)
    headers = {
        "authorization": f"Bearer {token(settings, 'bo')}",
        "traceparent": f"00-{TRACE_ID}-00f067aa0ba902b7-01",
    }
    transport = httpx.ASGITransport(make_app(backend, settings))
    try:
        async with httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1:8642", headers=headers
        ) as client:
            return (await client.post("/v1/answer", json={"query": QUESTION}, timeout=60)).json()
    finally:
        await backend.close()


def test_every_engine_call_hangs_below_its_step(home: LoadedHome) -> None:
    """Postgres, the index, SpiceDB, the encoder and the model each have spans under the step that asked, without content."""
    with StreamingModel.running() as model, kept_spans() as kept:
        model.n_words, model.pause_s = 3, 0.0
        answer = asyncio.run(
            _answer(
                home.settings.model_copy(
                    update={"llm_url": model.url, "llm_model": "tiny", "abstain_below": 0.0}
                )
            )
        )
        spans, edges, said = kept.all(), kept.edges(), kept.said()
        chat, index = kept.attributes("chat tiny"), kept.attributes("qdrant query_batch_points")
    assert (answer["mode"], answer["trace_id"]) == ("generated", TRACE_ID)
    assert {f"{each.context.trace_id:032x}" for each in spans if each.context} == {TRACE_ID}
    assert edges >= {
        ("", "POST /v1/answer"),
        ("POST /v1/answer", "total"),
        *(("total", step) for step in STEPS),
        ("permit", "postgresql permit"),
        ("embed", f"embeddings {model_version(home.settings)}"),
        ("search", "qdrant query_batch_points"),
        ("recheck", "postgresql hydrate"),
        ("recheck", "spicedb CheckBulkPermissions"),
        ("POST /v1/answer", "generate"),
        ("generate", "chat tiny"),
        ("POST /v1/answer", "postgresql record_answer"),
    }
    assert [each.name for each in spans if not each.status.is_ok] == []
    assert (chat["gen_ai.operation.name"], chat["gen_ai.request.model"]) == ("chat", "tiny")
    assert chat["gen_ai.response.time_to_first_chunk"] > 0
    assert (index["db.system.name"], index["db.operation.batch.size"]) == ("qdrant", 2)
    assert index["db.response.returned_rows"] > 0
    # Nothing of question, documents, people or statements.
    for secret in ("queue", "wing", "plan", "word1", '"bo"', "SELECT", home.settings.postgres_url):
        assert secret not in said
