"""Browser sessions: sign in with a one-time code, see who one is, sign out."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from cortex import api
from cortex.errors import InputError
from cortex.principals import Principal
from cortex.settings import Settings
from serve_apps.identity import COOKIE, Identity
from serve_apps.service import QueryService


def session_routes(queries: QueryService, identity: Identity, settings: Settings) -> APIRouter:
    """Make the routes of the session cookie."""
    router = APIRouter(prefix="/v1/session", tags=["session"])

    def state(principal: Principal) -> api.SessionResponse:
        return api.SessionResponse(
            user_id=principal.user_id,
            tenant_id=principal.tenant_id,
            scopes=sorted(principal.scopes),
            people=identity.people(),
            is_demo=settings.is_demo,
        )

    @router.post("", summary="Sign in")
    async def begin(body: api.SessionRequest, request: Request, response: Response) -> api.SessionResponse:
        """Trade a one-time code (`cortex token --code USER`) or a token for an HttpOnly, SameSite=Strict cookie."""
        if "origin" in request.headers or "sec-fetch-site" in request.headers:
            identity.require_own_page(request)  # else another site could sign a browser in as somebody else
        if body.person:
            signed_in = identity.principal(request)
            await queries.admit(signed_in)
            principal, cookie = identity.switch(signed_in, body.person)
        elif body.code:
            principal, cookie = identity.begin(body.code)
        else:
            raise InputError("a code or a person is needed", hint="the shapes are in /docs")
        await queries.admit(principal)
        identity.remember(response, cookie)
        return state(principal)

    @router.get("", summary="Who am I", response_model=api.SessionResponse)
    async def current(request: Request) -> api.SessionResponse | Response:
        """The verified caller; 204 when nobody is signed in, 401 when the session or token is not valid any more."""
        if COOKIE not in request.cookies and "authorization" not in request.headers:
            return Response(status_code=204)
        principal = identity.principal(request)
        await queries.admit(principal)
        return state(principal)

    @router.delete("", status_code=204, summary="Sign out")
    async def end(request: Request, response: Response) -> None:
        """Clear the cookie of this browser."""
        identity.require_own_page(request)
        identity.forget(response)

    return router
