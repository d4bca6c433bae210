"""Who asks: a bearer token, or the session cookie of a browser, verified on every request.

A service whose token has the scope `act` may name the person it asks for. It then searches as that person and can do
nothing else; it must be registered like a person, so that removing it refuses it from the next request on.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from urllib.parse import unquote, urlsplit

from starlette.requests import Request
from starlette.responses import Response

from cortex.api import ACT_FOR
from cortex.codes import looks_like_code, redeem_code
from cortex.errors import Forbidden, InputError, Misconfigured, Unauthenticated
from cortex.principals import Principal
from cortex.settings import Settings
from cortex.tokens import local_private_key, sign, trusted_issuers, verify
from serve_apps.service import QueryService

COOKIE = "cortex_session"
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_ACT = "act"
_LONGEST_NAME = 320


class Identity:
    """Verifies callers and begins and ends browser sessions."""

    def __init__(self, settings: Settings, queries: QueryService) -> None:
        self._settings = settings
        self._queries = queries
        self._issuers = trusted_issuers(settings)
        self._key = local_private_key(settings)
        self._is_https = settings.public_url.startswith("https://")
        self._demo_scopes = demo_people(settings)

    def admitted(self, scope: str) -> Callable[[Request], Awaitable[Principal]]:
        """Make the dependency of a route: the verified principal, if it has the scope and may still ask at all."""
        verified = self.needs(scope)

        async def principal(request: Request) -> Principal:
            found = await verified(request)
            await self._queries.admit(found)
            return found

        return principal

    def needs(self, scope: str) -> Callable[[Request], Awaitable[Principal]]:
        """Make the dependency of a route that expands the principal itself: verified, if it has the scope."""

        async def principal(request: Request) -> Principal:  # a plain function would wait for a thread
            found = self.principal(request)
            if ACT_FOR in request.headers:
                found = await self._acting(found, request)
            if scope not in found.scopes:
                raise Forbidden(f"this needs the scope `{scope}`", code="scope.missing")
            return found

        return principal

    def principal(self, request: Request) -> Principal:
        """Verify the caller; a cookie counts for a change only if the request comes from our own page."""
        authorization = request.headers.get("authorization", "")
        if authorization:
            scheme, _, token = authorization.partition(" ")
            if scheme.lower() != "bearer":
                raise Unauthenticated("only bearer tokens are accepted")
            return self._verify(token.strip())
        cookie = request.cookies.get(COOKIE)
        if not cookie:
            raise Unauthenticated(
                "no token was sent", code="token.missing", hint="get one with `cortex token USER`"
            )
        if request.method not in _SAFE_METHODS:
            self.require_own_page(request)
        return self._verify(cookie)

    async def _acting(self, service: Principal, request: Request) -> Principal:
        """Become the person whom a service names; the service must hold the scope, in a token, and still be registered."""
        if _ACT not in service.scopes or "authorization" not in request.headers:
            raise Forbidden("this token may not act for people", code="act.forbidden")
        try:
            await self._queries.admit(service)
        except (Forbidden, Unauthenticated) as error:
            raise Unauthenticated(
                "this service is not registered here",
                code="service.unknown",
                hint="cortex access add-user SERVICE",
            ) from error
        person = _person(request.headers.getlist(ACT_FOR))
        # The service vouches for the person now, and for nothing but their questions.
        return Principal(service.tenant_id, person, frozenset({"search"}), int(time.time()), service.user_id)

    def require_own_page(self, request: Request) -> None:
        """Refuse a change that another site's page could have caused (browsers always say where a change comes from)."""
        site = request.headers.get("sec-fetch-site")
        origin = request.headers.get("origin")
        is_own = site == "same-origin" if site else _is_same_origin(origin, request)
        if not is_own:
            raise Forbidden("this request does not come from Cortex's own page", code="origin.foreign")

    def begin(self, code: str) -> tuple[Principal, str]:
        """Trade a one-time code or a token for a principal and the cookie's value."""
        if looks_like_code(code):
            principal = redeem_code(self._settings, code)
            return principal, sign(principal, self._key, self._settings.session_ttl_s)
        token = code.strip()
        return self._verify(token), token  # the cookie then expires with the token

    def switch(self, current: Principal, person: str) -> tuple[Principal, str]:
        """Become another person of a demo home."""
        if person not in self.people():
            raise Forbidden("this home has no such person to switch to", code="person.fixed")
        principal = Principal(current.tenant_id, person, self._demo_scopes[person], int(time.time()))
        return principal, sign(principal, self._key, self._settings.session_ttl_s)

    def people(self) -> list[str]:
        """List whom a browser may switch to: nobody outside demo homes."""
        return list(self._demo_scopes) if self._settings.is_demo else []

    def remember(self, response: Response, cookie: str) -> None:
        """Set the session cookie: no script reads it, no other site sends it."""
        response.set_cookie(
            COOKIE,
            cookie,
            max_age=self._settings.session_ttl_s,
            path="/",
            httponly=True,
            samesite="strict",
            secure=self._is_https,
        )

    def forget(self, response: Response) -> None:
        """Clear the session cookie."""
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict", secure=self._is_https)

    def _verify(self, token: str) -> Principal:
        return verify(token, self._issuers, self._settings.tenant_id)


def demo_people(settings: Settings) -> dict[str, frozenset[str]]:
    """Read `CORTEX_DEMO_PEOPLE`: user=scopes pairs, separated by commas; the scopes by spaces."""
    people = {}
    for pair in filter(None, (part.strip() for part in settings.demo_people.split(","))):
        user_id, separator, scopes = pair.partition("=")
        if not separator or not user_id:
            raise Misconfigured(
                "CORTEX_DEMO_PEOPLE must list user=scopes pairs", hint="ada@example.com=search"
            )
        people[user_id] = frozenset(scopes.split())
    return people


def _person(named: list[str]) -> str:
    """Read the one person that a service names."""
    try:
        person = unquote(named[0], errors="strict").strip() if len(named) == 1 else ""
    except UnicodeDecodeError:
        person = ""
    if not 0 < len(person) <= _LONGEST_NAME or not person.isprintable():
        raise InputError(f"{ACT_FOR} must name one person, percent-encoded", code="act.malformed")
    return person


def _is_same_origin(origin: str | None, request: Request) -> bool:
    if not origin:
        return False
    try:
        return urlsplit(origin).netloc == request.headers.get("host", "")
    except ValueError as error:
        raise InputError("Origin is not a URL") from error
