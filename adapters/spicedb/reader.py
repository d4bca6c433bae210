"""Reads back every tuple that SpiceDB holds, to compare them with the catalog's mirror."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
from authzed.api.v1 import Consistency, ReadRelationshipsRequest, RelationshipFilter
from authzed.api.v1.permission_service_pb2_grpc import PermissionsServiceStub

from adapters.spicedb.channels import HEALTH_METHOD, SERVING, open_channel
from adapters.spicedb.slices import read_back
from adapters.spicedb.writer import translated
from cortex.errors import Unavailable
from cortex.ports.outbox import Relationship

RESOURCE_TYPES = ("group", "profile", "document")
_TIMEOUT_S = 600.0  # a million tuples take about a minute
_PING_TIMEOUT_S = 5.0


class SpiceDBReader:
    """Port RelationshipReader over one channel."""

    def __init__(self, url: str, token: str, use_tls: bool = False) -> None:
        self._channel = open_channel(url, token, use_tls)
        self._permissions = PermissionsServiceStub(self._channel)

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()

    def ping(self) -> None:
        """Raise Unavailable unless SpiceDB answers and is loaded: before that it lacks tuples that the mirror has."""
        try:
            answer = self._channel.unary_unary(HEALTH_METHOD)(b"", timeout=_PING_TIMEOUT_S)
        except grpc.RpcError as error:
            raise translated(error) from error
        if answer != SERVING:
            raise Unavailable(
                "permissions are still being loaded", code="permissions.unavailable", hint="cortex status"
            )

    def relationships(self) -> Iterator[Relationship]:
        """Stream every tuple in the words of `schema.zed`, in no order, as of one moment per resource type; while it loads too."""
        for resource_type in RESOURCE_TYPES:
            request = ReadRelationshipsRequest(
                relationship_filter=RelationshipFilter(resource_type=resource_type),
                consistency=Consistency(fully_consistent=True),
            )
            try:
                for answer in self._permissions.ReadRelationships(request, timeout=_TIMEOUT_S):
                    yield read_back(_relationship(answer.relationship))
            except grpc.RpcError as error:
                raise translated(error) from error


def _relationship(held: object) -> Relationship:
    """Say SpiceDB's message in our words."""
    resource, subject = held.resource, held.subject  # type: ignore[attr-defined]
    return Relationship(
        resource.object_type,
        resource.object_id,
        held.relation,  # type: ignore[attr-defined]
        subject.object.object_type,
        subject.object.object_id,
        subject.optional_relation,
    )
