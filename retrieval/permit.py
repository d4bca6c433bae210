"""Permit: who asks, which access profiles that opens, and how fresh the late check must be."""

from __future__ import annotations

from dataclasses import replace

from cortex.ports.query import QueryCatalog
from cortex.principals import Permit, Principal
from retrieval.run import Run, step, together


@step("permit")
async def permit(run: Run, catalog: QueryCatalog, principal: Principal) -> Permit:
    """Expand a principal to its permit, bound to the token of the newest permission write.

    Both reads start after the request came in, so a removal acknowledged before it is always seen. Raises Forbidden
    for an unknown user and ChecksUnavailable while permission writes wait.
    """
    expanded, token = await together(catalog.permit(principal), catalog.permission_token())
    return replace(expanded, token=token)
