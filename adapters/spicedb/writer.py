"""Writes the schema and permission tuples to SpiceDB: port RelationshipWriter."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import grpc
from authzed.api.v1 import (
    ObjectReference,
    RelationshipUpdate,
    SubjectReference,
    WriteRelationshipsRequest,
    WriteSchemaRequest,
)
from authzed.api.v1 import Relationship as Tuple
from authzed.api.v1.permission_service_pb2_grpc import PermissionsServiceStub
from authzed.api.v1.schema_service_pb2_grpc import SchemaServiceStub

from adapters.spicedb.channels import open_channel
from adapters.spicedb.slices import lay_out, sliced_schema
from cortex.errors import InputError, Misconfigured, Unavailable
from cortex.ports.outbox import Relationship

MOST_CHANGES = 1_000  # SpiceDB's own limit of one write
_OPEN_METHOD = "/cortex.engines.v1.Gate/Open"

_TIMEOUT_S = 10.0
_PAUSES_S = (0.1, 0.5)  # then it is the caller's turn to wait
_TRANSIENT = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
)
_REFUSED = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.ALREADY_EXISTS,
)
_NOT_ALLOWED = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)


class SpiceDBWriter:
    """Port RelationshipWriter over one channel; safe to share between threads."""

    def __init__(self, url: str, token: str, use_tls: bool = False) -> None:
        self._channel = open_channel(url, token, use_tls)
        self._permissions = PermissionsServiceStub(self._channel)
        self._schema = SchemaServiceStub(self._channel)

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()

    def write_schema(self) -> str:
        """Install what `schema.zed` means; returns a token."""
        request = WriteSchemaRequest(schema=sliced_schema())
        answer = _call(lambda: self._schema.WriteSchema(request, timeout=_TIMEOUT_S))
        return str(answer.written_at.token)

    def apply(self, touch: Sequence[Relationship], delete: Sequence[Relationship]) -> str:
        """Apply changes in one call of at most 1,000; returns the token.

        Raises InputError when SpiceDB refuses the change itself, Unavailable when it could succeed later.
        """
        if not 0 < len(touch) + len(delete) <= MOST_CHANGES:
            raise InputError(
                f"one write takes 1 to {MOST_CHANGES} changes, not {len(touch) + len(delete)}",
                code="selector.empty" if not touch and not delete else "permissions.too_many",
            )
        updates = [_update(RelationshipUpdate.OPERATION_DELETE, relationship) for relationship in delete]
        updates += [_update(RelationshipUpdate.OPERATION_TOUCH, relationship) for relationship in touch]
        request = WriteRelationshipsRequest(updates=updates)
        answer = _call(lambda: self._permissions.WriteRelationships(request, timeout=_TIMEOUT_S))
        return str(answer.written_at.token)

    def open_for_checks(self) -> None:
        """Tell an embedded engine that the reload is whole, so that it may serve; a server does not know the call."""
        try:
            self._channel.unary_unary(_OPEN_METHOD)(b"", timeout=_TIMEOUT_S)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                raise translated(error) from error


def translated(error: grpc.RpcError) -> InputError | Misconfigured | Unavailable:
    """Make a Cortex error of a failed write. Anything that is not the change's own fault counts as unavailable."""
    code = error.code()
    if code in _REFUSED:
        return InputError(f"SpiceDB refused a change: {code.name}", code="permissions.refused")
    if code in _NOT_ALLOWED:
        return Misconfigured(
            "SpiceDB does not accept the preshared token",
            code="spicedb.token",
            hint="check CORTEX_SPICEDB_TOKEN",
        )
    return Unavailable(
        f"SpiceDB does not answer: {code.name}", code="permissions.unavailable", hint="cortex status"
    )


def _call(send: Callable[[], Any]) -> Any:
    """Send a write that may be repeated safely, again after a pause while the failure is transient."""
    for pause_s in (*_PAUSES_S, None):
        try:
            return send()
        except grpc.RpcError as error:
            if error.code() not in _TRANSIENT or pause_s is None:
                raise translated(error) from error
            time.sleep(pause_s)
    raise AssertionError("unreachable: the last attempt returns or raises")


def _update(
    operation: RelationshipUpdate.Operation.ValueType, relationship: Relationship
) -> RelationshipUpdate:
    """Write a change as SpiceDB's message."""
    stored = lay_out(relationship)
    return RelationshipUpdate(
        operation=operation,
        relationship=Tuple(
            resource=ObjectReference(object_type=stored.resource_type, object_id=stored.resource_id),
            relation=stored.relation,
            subject=SubjectReference(
                object=ObjectReference(object_type=stored.subject_type, object_id=stored.subject_id),
                optional_relation=stored.subject_relation,
            ),
        ),
    )
