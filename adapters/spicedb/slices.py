"""How permissions are laid out in SpiceDB: people are cut into slices, so that a check reads one slice of the memberships.

`schema.zed` says what permissions mean. SpiceDB's in-memory store finds tuples by type and relation alone and reads all
of those at each step, so what is written there has the same meaning in a form that keeps each pair of them short: a
person's tuples of a relation are in `relation_NN`, NN being the person's slice, a group's stay in `relation`. Decision 0011.
"""

from __future__ import annotations

import zlib
from dataclasses import replace

from cortex.ports.outbox import Relationship

# More would make every step read a longer schema. When this changes, a server's tuples must be written anew.
N_SLICES = 64

_HEAD = """\
definition user {}

definition group {
	relation member: group
%s
}

definition profile {
	relation viewer: group
	relation denied: group
%s
}

definition document {
	relation access: profile
%s
}
"""
_GROUP = """\
	relation member_{slice}: user
	permission within_{slice} = member_{slice} + member->within_{slice}"""
_PROFILE = """\
	relation viewer_{slice}: user
	relation denied_{slice}: user
	permission view_{slice} = (viewer_{slice} + viewer->within_{slice}) - (denied_{slice} + denied->within_{slice})"""
_DOCUMENT = "	permission view_{slice} = access->view_{slice}"


def sliced_schema() -> str:
    """Write `schema.zed`'s meaning out for every slice."""
    slices = [f"{number:02d}" for number in range(N_SLICES)]
    return _HEAD % tuple(
        "\n".join(lines.format(slice=each) for each in slices) for lines in (_GROUP, _PROFILE, _DOCUMENT)
    )


def view_permission(user_object_id: str) -> str:
    """Name the permission that says whether this person may view."""
    return f"view_{_slice(user_object_id)}"


def lay_out(relationship: Relationship) -> Relationship:
    """Say a tuple of `schema.zed` as it is stored."""
    if relationship.subject_type == "user":
        relation = f"{relationship.relation}_{_slice(relationship.subject_id)}"
        return replace(relationship, relation=relation)
    return replace(relationship, subject_relation="")  # an arrow follows the group itself


def read_back(stored: Relationship) -> Relationship:
    """Say a stored tuple as `schema.zed` does: the inverse of `lay_out`."""
    if stored.subject_type == "user":
        return replace(stored, relation=stored.relation.rpartition("_")[0])
    return replace(stored, subject_relation="member" if stored.subject_type == "group" else "")


def _slice(user_object_id: str) -> str:
    """Put a person into a slice; any even spread that never changes will do."""
    return f"{zlib.crc32(user_object_id.encode()) % N_SLICES:02d}"
