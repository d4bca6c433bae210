"""Principals: who asks, and what the index may show them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks. `user_id` is the tenant's own id of the person (an e-mail address or a login name).

    `issued_at_s` is when this was vouched for, in Unix seconds; 0 where nobody says.
    """

    tenant_id: str
    user_id: str
    scopes: frozenset[str] = frozenset({"search"})
    issued_at_s: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Permit:
    """What one principal may see, as the index filter states it.

    `profile_ids` are the access profiles (interned grant sets) the principal satisfies, ascending. `revision` is the
    catalog's access revision it was computed at; `token` the SpiceDB token that a recheck must be as fresh as.
    """

    principal: Principal
    profile_ids: tuple[int, ...]
    revision: int
    token: str
