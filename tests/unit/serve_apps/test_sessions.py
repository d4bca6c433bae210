"""Browser sessions: one-time codes, the cookie, and requests that other sites cause."""

from __future__ import annotations

import httpx
import pytest

from cortex.codes import mint_code
from cortex.principals import Principal
from cortex.settings import Settings
from tests.twins.service import ADA, BEN
from tests.unit.serve_apps.conftest import BASE, MakeClient, token
from tests.unit.serve_apps.test_bad_requests import check

OWN = {"sec-fetch-site": "same-origin", "origin": BASE}


@pytest.fixture
def demo(home: Settings) -> Settings:
    people = f"{ADA}=search operate,{BEN}=search"
    return home.model_copy(update={"is_demo": True, "demo_people": people})


async def sign_in(client: httpx.AsyncClient, settings: Settings, user: str = ADA) -> httpx.Response:
    code = mint_code(settings, Principal("default", user, frozenset({"search"})), ttl_s=60)
    return await client.post("/v1/session", json={"code": code}, headers=OWN)


async def test_a_code_becomes_a_cookie_that_scripts_cannot_read(
    make_client: MakeClient, home: Settings
) -> None:
    """Signing in sets an HttpOnly, SameSite=Strict cookie, which then asks."""
    client = make_client(home)
    response = await sign_in(client, home)
    cookie = response.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie and "secure" not in cookie
    assert response.json() == {
        "user_id": ADA,
        "tenant_id": "default",
        "scopes": ["search"],
        "people": [],
        "is_demo": False,
    }
    assert (await client.get("/v1/session")).json()["user_id"] == ADA
    assert (await client.post("/v1/search", json={"query": "hotels"}, headers=OWN)).status_code == 200


async def test_a_code_works_once(make_client: MakeClient, home: Settings) -> None:
    """The second use of a code is refused."""
    code = mint_code(home, Principal("default", ADA), ttl_s=60)
    client = make_client(home)
    assert (await client.post("/v1/session", json={"code": code})).status_code == 200
    check(await make_client(home).post("/v1/session", json={"code": code}), 401, "code.invalid")


async def test_a_token_is_as_good_as_a_code(make_client: MakeClient, home: Settings) -> None:
    """A signed token may be traded for the cookie; a forged one may not."""
    client = make_client(home)
    assert (await client.post("/v1/session", json={"code": token(home, ADA)})).status_code == 200
    check(await make_client(home).post("/v1/session", json={"code": "a.b.c"}), 401, "token.invalid")


async def test_an_unregistered_person_gets_no_session(make_client: MakeClient, home: Settings) -> None:
    """A code of somebody whom the tenant does not know is 403 and sets no cookie."""
    response = await sign_in(make_client(home), home, "mallory@example.com")
    check(response, 403, "user.unknown")
    assert "set-cookie" not in response.headers


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "https://evil.example.com"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site", "origin": BASE},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
    ],
)
async def test_another_site_cannot_act_with_the_cookie(
    make_client: MakeClient, home: Settings, headers: dict[str, str]
) -> None:
    """A change with the cookie that does not come from our own origin is 403; with a token it is the caller's own."""
    client = make_client(home)
    await sign_in(client, home)
    response = await client.post("/v1/search", json={"query": "hotels"}, headers=headers)
    check(response, 403, "origin.foreign")
    bearer = {**headers, "authorization": f"Bearer {token(home, ADA)}"}
    assert (await client.post("/v1/search", json={"query": "hotels"}, headers=bearer)).status_code == 200


async def test_another_site_cannot_sign_a_browser_in(make_client: MakeClient, home: Settings) -> None:
    """Signing in across sites is refused, so nobody is made to ask as somebody else."""
    body = {"code": mint_code(home, Principal("default", ADA), ttl_s=60)}
    foreign = {"origin": "https://evil.example.com", "sec-fetch-site": "cross-site"}
    check(await make_client(home).post("/v1/session", json=body, headers=foreign), 403, "origin.foreign")


async def test_signing_out_clears_the_cookie(make_client: MakeClient, home: Settings) -> None:
    """After signing out the browser is nobody."""
    client = make_client(home)
    await sign_in(client, home)
    assert (await client.delete("/v1/session", headers=OWN)).status_code == 204
    assert (await client.get("/v1/session")).status_code == 204
    check(await client.post("/v1/search", json={"query": "hotels"}, headers=OWN), 401, "token.missing")


async def test_a_stale_cookie_is_told_from_none(make_client: MakeClient, home: Settings) -> None:
    """A cookie past its time is 401, so that the page asks to sign in again."""
    client = make_client(home)
    client.cookies.set("cortex_session", token(home, ADA, ttl_s=-60))
    check(await client.get("/v1/session"), 401, "token.expired")


async def test_a_demo_home_lets_its_people_be_switched(make_client: MakeClient, demo: Settings) -> None:
    """In a demo home a signed-in browser may become another listed person, with that person's scopes."""
    client = make_client(demo)
    assert (await sign_in(client, demo, BEN)).json()["people"] == [ADA, BEN]
    switched = (await client.post("/v1/session", json={"person": ADA}, headers=OWN)).json()
    assert (switched["user_id"], switched["scopes"]) == (ADA, ["operate", "search"])
    check(await client.post("/v1/session", json={"person": "mallory"}, headers=OWN), 403, "person.fixed")


async def test_the_switch_exists_in_demo_homes_only(
    make_client: MakeClient, home: Settings, demo: Settings
) -> None:
    """Elsewhere nobody can switch, and nobody can without being signed in."""
    plain = home.model_copy(update={"demo_people": demo.demo_people})
    client = make_client(plain)
    await sign_in(client, plain)
    check(await client.post("/v1/session", json={"person": BEN}, headers=OWN), 403, "person.fixed")
    check(
        await make_client(demo).post("/v1/session", json={"person": BEN}, headers=OWN), 401, "token.missing"
    )


async def test_a_session_needs_a_code_or_a_person(make_client: MakeClient, home: Settings) -> None:
    """An empty request is told so."""
    check(await make_client(home).post("/v1/session", json={}), 400, "input.invalid")


async def test_the_cookie_is_secure_behind_https(make_client: MakeClient, home: Settings) -> None:
    """With a public https address the cookie never travels in the clear, and that host name is answered."""
    public = home.model_copy(update={"public_url": "https://cortex.example.com"})
    client = make_client(public)
    client.base_url = "https://cortex.example.com"
    own = {"sec-fetch-site": "same-origin"}
    body = {"code": mint_code(public, Principal("default", ADA), ttl_s=60)}
    response = await client.post("/v1/session", json=body, headers=own)
    assert "secure" in response.headers["set-cookie"].lower()
