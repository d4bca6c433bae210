"""People who were removed: no route answers them, whatever they still hold."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cortex.codes import mint_code
from cortex.principals import Principal
from cortex.settings import Settings
from serve_apps.http import make_app
from serve_apps.service import Backend
from tests.twins.service import ADA, BEN, LIBRARY, TwinDesk, TwinService
from tests.unit.serve_apps.conftest import MakeClient, token
from tests.unit.serve_apps.test_bad_requests import check
from tests.unit.serve_apps.test_sessions import OWN

BODIES = {
    "/v1/search": {"query": "hotels"},
    "/v1/answer": {"query": "hotels"},
    "/v1/feedback": {"answer_id": "answer-1", "helpful": True},
    "/v1/sources": {"path": "/srv/handbook"},
    "/v1/session": {"person": BEN},
    "/mcp": {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
}
# Signing out needs nobody's word.
OPEN = {("DELETE", "/v1/session")}


def routes(settings: Settings) -> Iterator[tuple[str, str]]:
    """Every method and path of the API that speaks for a caller."""
    paths = make_app(Backend(TwinService(), TwinDesk()), settings).openapi()["paths"]
    for path, operations in paths.items():
        for method, operation in operations.items():
            if "security" in operation:
                yield method.upper(), path


async def test_every_route_refuses_a_removed_person(
    make_client: MakeClient, home: Settings, service: TwinService
) -> None:
    """A token that was good a moment ago is 401 user.removed on each of them, with every scope."""
    demo = home.model_copy(update={"is_demo": True, "demo_people": f"{BEN}=search"})
    client = make_client(demo, ADA, "search operate")
    asked = [each for each in routes(demo) if each not in OPEN]
    assert len(asked) >= 7
    for is_removed in (False, True):
        service.removed = {ADA} if is_removed else set()
        for method, path in asked:
            url = path.format(document_id=LIBRARY[0].document_id)
            response = await client.request(method, url, json=BODIES.get(path))
            if is_removed:
                check(response, 401, "user.removed")
            else:
                assert response.is_success, (method, path)


@pytest.mark.parametrize("way", ["code", "token"])
async def test_a_removed_person_cannot_sign_in(
    make_client: MakeClient, home: Settings, service: TwinService, way: str
) -> None:
    """A code or token that was made before signs nobody in and sets no cookie; a session that was open is over."""
    client, late = make_client(home), make_client(home)
    secret = mint_code(home, Principal("default", ADA), ttl_s=60) if way == "code" else token(home, ADA)
    again = mint_code(home, Principal("default", ADA), ttl_s=60) if way == "code" else secret
    assert (await client.post("/v1/session", json={"code": secret})).status_code == 200
    service.removed = {ADA}
    check(await client.get("/v1/session"), 401, "user.removed")
    check(await client.post("/v1/search", json={"query": "hotels"}, headers=OWN), 401, "user.removed")
    refused = await late.post("/v1/session", json={"code": again})
    check(refused, 401, "user.removed")
    assert "set-cookie" not in refused.headers
