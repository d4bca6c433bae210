"""The empty app: what the query bench measures Serve by."""

from __future__ import annotations

import httpx

from eval.raw_parts import EMPTY
from serve_apps.empty import PREFIX, Empty


async def test_its_route_answers_nothing_under_its_prefix() -> None:
    """Where the bench asks, as Serve hands a request on: the prefix is the root path, and the path holds it still."""
    app = Empty.__serve_build_asgi_app__(None)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app, root_path=PREFIX), base_url="http://cortex"
    ) as client:
        response = await client.get(EMPTY)
        assert (response.status_code, response.content) == (200, b"")
        assert (await client.get(f"{PREFIX}/more")).status_code == 404
