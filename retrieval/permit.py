"""Permit: who asks, which access profiles that opens, and how fresh the late check must be."""

from __future__ import annotations

from cortex.ports.query import QueryCatalog
from cortex.principals import Permit, Principal
from retrieval.run import Run, step


@step("permit")
async def permit(run: Run, catalog: QueryCatalog, principal: Principal) -> Permit:
    """Expand a principal to its permit, bound to the token of the newest permission write.

    It is read after the request came in, so a removal acknowledged before it is always seen. Raises Forbidden for an
    unknown user and ChecksUnavailable while permission writes wait.
    """
    return await catalog.fresh_permit(principal)
