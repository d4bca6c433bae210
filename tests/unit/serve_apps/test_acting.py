"""Services that ask for people: who may, as whom, for whom else, and nothing more."""

from __future__ import annotations

import httpx
import pytest

from cortex.api import ACT_FOR
from cortex.settings import Settings
from serve_apps.identity import COOKIE
from tests.twins.service import ADA, BEN, CLEO, LIBRARY, TwinService
from tests.unit.serve_apps.conftest import MakeClient, token
from tests.unit.serve_apps.test_bad_requests import check
from tests.unit.serve_apps.test_sessions import OWN

BOT = "slack-bot"
SALARY = {"query": "salary band of a senior engineer"}


@pytest.fixture
def bot(make_client: MakeClient, home: Settings, service: TwinService) -> httpx.AsyncClient:
    """A client of a registered service that may act for people."""
    service.services = {BOT}
    return make_client(home, BOT, "act")


async def titles(client: httpx.AsyncClient, person: str, **more: object) -> set[str]:
    response = await client.post("/v1/search", json={**SALARY, **more}, headers={ACT_FOR: person})
    assert response.status_code == 200, response.text
    return {hit["title"] for hit in response.json()["hits"]}


async def test_a_service_finds_what_the_person_finds(bot: httpx.AsyncClient, service: TwinService) -> None:
    """For each person it names, a service gets that person's findings, and the query path knows who acts."""
    assert LIBRARY[1].title in await titles(bot, "ada%40example.com")
    assert LIBRARY[1].title not in await titles(bot, BEN)
    assert [(asked.user_id, asked.actor, asked.scopes) for asked, _ in service.asked] == [
        (ADA, BOT, {"search"}),
        (BEN, BOT, {"search"}),
    ]


async def test_a_service_is_nobody_by_itself(bot: httpx.AsyncClient) -> None:
    """Without a person's name its token opens nothing."""
    check(await bot.post("/v1/search", json=SALARY), 403, "scope.missing")


async def test_acting_is_for_questions_alone(
    make_client: MakeClient, home: Settings, service: TwinService
) -> None:
    """A service that might operate by itself cannot do so as somebody."""
    service.services = {BOT}
    bot = make_client(home, BOT, "act operate search")
    check(await bot.get("/v1/sources", headers={ACT_FOR: ADA}), 403, "scope.missing")


async def test_a_person_cannot_act_for_another(make_client: MakeClient, home: Settings) -> None:
    """Whoever lacks the scope is refused, not answered as themselves; a browser's cookie never acts."""
    for scopes in ("search", "search operate"):
        client = make_client(home, BEN, scopes)
        check(await client.post("/v1/search", json=SALARY, headers={ACT_FOR: ADA}), 403, "act.forbidden")
    browser = make_client(home)
    browser.cookies.set(COOKIE, token(home, ADA, "act search"))
    check(await browser.post("/v1/search", json=SALARY, headers={ACT_FOR: ADA, **OWN}), 403, "act.forbidden")


async def test_a_service_that_is_not_registered_any_more_is_refused(
    bot: httpx.AsyncClient, service: TwinService
) -> None:
    """A token of a service that was removed, or was never registered, opens nothing from the next request on."""
    service.removed = {BOT}
    check(await bot.post("/v1/search", json=SALARY, headers={ACT_FOR: ADA}), 401, "service.unknown")
    service.removed, service.services = set(), set()
    check(await bot.post("/v1/search", json=SALARY, headers={ACT_FOR: ADA}), 401, "service.unknown")


async def test_the_person_must_be_known(bot: httpx.AsyncClient, service: TwinService) -> None:
    """Who is not registered or was removed is refused as if they had asked."""
    check(await bot.post("/v1/search", json=SALARY, headers={ACT_FOR: "eve"}), 403, "user.unknown")
    service.removed = {ADA}
    check(await bot.post("/v1/search", json=SALARY, headers={ACT_FOR: ADA}), 401, "user.removed")


@pytest.mark.parametrize("name", [b"", b"%20", b"%ff", b"a%00b", b"a%0ab", b"x" * 321])
async def test_a_malformed_name_is_refused(bot: httpx.AsyncClient, name: bytes) -> None:
    """No name, half a character, a control character and an endless name are the caller's mistake."""
    headers = [(ACT_FOR.encode(), name)]
    check(await bot.post("/v1/search", json=SALARY, headers=headers), 400, "act.malformed")


async def test_two_names_are_refused(bot: httpx.AsyncClient) -> None:
    """A request for two people at once is for neither."""
    headers = [(ACT_FOR, BEN), (ACT_FOR, ADA)]
    check(await bot.post("/v1/search", json=SALARY, headers=headers), 400, "act.malformed")


async def test_an_audience_narrows_search_and_answer(bot: httpx.AsyncClient, service: TwinService) -> None:
    """With a reader who may not see it, neither search nor answer, whole or streamed, holds anything of a document."""
    assert LIBRARY[1].title in await titles(bot, ADA, audience=[ADA])
    assert LIBRARY[1].title not in await titles(bot, ADA, audience=[BEN, CLEO])
    for more in ({}, {"stream": True}):
        body = {**SALARY, "audience": [ADA, BEN], **more}
        response = await bot.post("/v1/answer", json=body, headers={ACT_FOR: ADA})
        assert response.status_code == 200
        assert "82,000" not in response.text
    assert service.asked[-1][0].readers == (BEN,)


async def test_an_audience_is_for_services_alone(make_client: MakeClient, home: Settings) -> None:
    """A person may not learn by it what another can open."""
    client = make_client(home, ADA)
    for path in ("/v1/search", "/v1/answer"):
        check(await client.post(path, json={**SALARY, "audience": [BEN]}), 403, "audience.forbidden")


async def test_an_audience_must_be_known_and_bounded(
    bot: httpx.AsyncClient, make_client: MakeClient, home: Settings
) -> None:
    """A reader whom nobody knows closes the answer; more readers than are checked are refused; so is an empty list."""
    headers = {ACT_FOR: ADA}
    check(
        await bot.post("/v1/answer", json={**SALARY, "audience": [BEN, "eve"]}, headers=headers),
        403,
        "audience.unknown",
    )
    small = make_client(home.model_copy(update={"audience_limit": 2}), BOT, "act")
    check(
        await small.post("/v1/answer", json={**SALARY, "audience": [BEN, CLEO]}, headers=headers),
        413,
        "audience.too_large",
    )
    assert (
        await small.post("/v1/answer", json={**SALARY, "audience": [ADA, BEN, BEN]}, headers=headers)
    ).is_success
    for wrong in ([], "everyone", [""], ["a\u0000"], ["x" * 321], ["x"] * 1_001):
        check(
            await bot.post("/v1/answer", json={**SALARY, "audience": wrong}, headers=headers),
            400,
            "input.invalid",
        )


async def test_a_thumb_is_the_persons_own(bot: httpx.AsyncClient, service: TwinService) -> None:
    """Through a service, the one who asked can rate the answer and another cannot."""
    answer = (await bot.post("/v1/answer", json={"query": "hotels"}, headers={ACT_FOR: ADA})).json()
    thumb = {"answer_id": answer["answer_id"], "helpful": True}
    check(await bot.post("/v1/feedback", json=thumb, headers={ACT_FOR: BEN}), 404, "answer.not_found")
    assert (await bot.post("/v1/feedback", json=thumb, headers={ACT_FOR: ADA})).status_code == 204
    assert service.thumbs == [(answer["answer_id"], True, "")]
