"""Pushes: where a source says that something changed. Its signature is the only credential."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from cortex.errors import Unauthenticated
from serve_apps.service import PushDesk

PATH = "/v1/sources/{source_id}/events"


def push_routes(desk: PushDesk | None) -> APIRouter:
    """Make the route of signed pushes."""
    router = APIRouter(tags=["sources"])

    @router.post(PATH, summary="Receive a push")
    async def receive(source_id: str, request: Request) -> Response:
        """A push of the source itself, such as Slack's Events API; what it names is read again soon after.

        Unsigned, forged, late ones and those for an unknown source are refused alike. The same push again is taken, and
        changes nothing.
        """
        body = await request.body()
        if desk is None:
            raise Unauthenticated("the push bears no valid signature of this source", code="webhook.refused")
        reply = await desk.receive(source_id, request.headers, body)
        return Response(reply, media_type="text/plain", headers={"cache-control": "no-store"})

    return router
