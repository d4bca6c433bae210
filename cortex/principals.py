"""Principals: who asks, and what the index may show them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks. `user_id` is the tenant's own id of the person (an e-mail address or a login name).

    `issued_at_s` is when this was vouched for, in Unix seconds; 0 where nobody says. `actor` is the service that asks
    on this person's behalf, if one does. `readers` are the others who will read what comes back: only what this person
    and every one of them may see is found.
    """

    tenant_id: str
    user_id: str
    scopes: frozenset[str] = frozenset({"search"})
    issued_at_s: int = field(default=0, compare=False)
    actor: str = field(default="", compare=False)
    readers: tuple[str, ...] = ()

    @property
    def audience(self) -> tuple[Principal, ...]:
        """This person first, then every reader, each as if they asked alone."""
        alone = replace(self, readers=()) if self.readers else self
        return (alone, *(replace(alone, user_id=reader) for reader in self.readers))


@dataclass(frozen=True, slots=True)
class Permit:
    """What one principal may see, as the index filter states it.

    `profile_ids` are the access profiles (interned grant sets) that the principal and all readers satisfy, ascending. `revision` is the
    catalog's access revision it was computed at; `token` the SpiceDB token that a recheck must be as fresh as.
    """

    principal: Principal
    profile_ids: tuple[int, ...]
    revision: int
    token: str
