"""Checks at question time whether a principal may view documents: port PermissionChecker. What cannot be checked is not shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpc
from authzed.api.v1 import (
    CheckBulkPermissionsRequest,
    CheckBulkPermissionsRequestItem,
    CheckBulkPermissionsResponse,
    CheckPermissionResponse,
    Consistency,
    ErrorReason,
    ObjectReference,
    SubjectReference,
    ZedToken,
)
from authzed.api.v1.permission_service_pb2_grpc import PermissionsServiceStub
from google.rpc.error_details_pb2 import ErrorInfo
from opentelemetry.trace import SpanKind

from adapters.spicedb.channels import HEALTH_METHOD, SERVING, authorization, open_async_channel
from adapters.spicedb.slices import view_permission
from cortex.errors import ChecksUnavailable
from cortex.ids import tenant_object_id
from cortex.principals import Principal
from cortex.telemetry import event, span

_TIMEOUT_S = 2.0
_MOST_ITEMS = 100  # SpiceDB works on a hundred at a time; a longer call only comes nearer to the limit
_CHECK = {
    "rpc.system": "grpc",
    "rpc.service": "authzed.api.v1.PermissionsService",
    "rpc.method": "CheckBulkPermissions",
}
_ALLOWED = CheckPermissionResponse.PERMISSIONSHIP_HAS_PERMISSION
_TOO_DEEP = ErrorReason.Name(ErrorReason.ERROR_REASON_MAXIMUM_DEPTH_EXCEEDED)


class SpiceDBChecker:
    """Port PermissionChecker over one channel, opened in the event loop that first uses it."""

    def __init__(self, url: str, token: str, use_tls: bool = False) -> None:
        self._where = (url, token, use_tls)
        self._key = authorization(token)
        self._channel: Any = None

    async def close(self) -> None:
        """Close the channel."""
        if self._channel is not None:
            await self._channel.close()
            self._channel = None

    async def allowed(self, principal: Principal, document_ids: Sequence[str], token: str) -> frozenset[str]:
        """Return those documents that the principal and every reader may view, at least as fresh as `token`.

        Raises ChecksUnavailable when any of them could not be checked. Groups nested deeper than SpiceDB walks deny.
        """
        left = list(dict.fromkeys(document_ids))
        for person in principal.audience:  # each is asked about what those before them may view
            allowed: set[str] = set()
            for start in range(0, len(left), _MOST_ITEMS):
                allowed |= await self._check(person, left[start : start + _MOST_ITEMS], token)
            left = [document_id for document_id in left if document_id in allowed]
        return frozenset(left)

    async def ping(self) -> None:
        """Raise ChecksUnavailable unless SpiceDB answers and is loaded."""
        call = self._open().unary_unary(HEALTH_METHOD)
        if await self._answer(call, b"") != SERVING:
            raise ChecksUnavailable("permissions are still being loaded", hint="cortex status")

    async def _check(self, principal: Principal, document_ids: list[str], token: str) -> set[str]:
        """Check up to `_MOST_ITEMS` documents in one call."""
        person = ObjectReference(
            object_type="user", object_id=tenant_object_id(principal.tenant_id, principal.user_id)
        )
        request = CheckBulkPermissionsRequest(
            items=[_question(person)] * len(document_ids), consistency=_consistency(token)
        )
        items = list(request.items)
        for item, document_id in zip(items, document_ids, strict=True):
            item.resource.object_id = tenant_object_id(principal.tenant_id, document_id)
        with span(
            f"spicedb {_CHECK['rpc.method']}",
            {**_CHECK, "cortex.documents": len(items)},
            kind=SpanKind.CLIENT,
        ):
            answer = await self._answer(PermissionsServiceStub(self._open()).CheckBulkPermissions, request)
        if [pair.request for pair in answer.pairs] != items:
            raise ChecksUnavailable("SpiceDB answered something that was not asked")
        return {
            document_id
            for document_id, pair in zip(document_ids, answer.pairs, strict=True)
            if _is_allowed(pair)
        }

    async def _answer(self, call: Any, request: Any) -> Any:
        """Send a question, a second time if the connection was lost; raises ChecksUnavailable."""
        for is_last in (False, True):
            try:
                return await call(request, timeout=_TIMEOUT_S, metadata=self._key)
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                    raise ChecksUnavailable(
                        f"permissions could not be checked within {_TIMEOUT_S:g} s",
                        code="permissions.slow",
                        hint="cortex status",
                    ) from error
                if is_last or error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise ChecksUnavailable(
                        f"permissions cannot be checked: {error.code().name}", hint="cortex status"
                    ) from error
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _open(self) -> Any:
        if self._channel is None:
            self._channel = open_async_channel(*self._where)
        return self._channel


def _question(person: ObjectReference) -> CheckBulkPermissionsRequestItem:
    """Ask whether a person may view a document that is still to be named: copies are cheaper than items made one by one."""
    return CheckBulkPermissionsRequestItem(
        resource=ObjectReference(object_type="document"),
        permission=view_permission(person.object_id),
        subject=SubjectReference(object=person),
    )


def _consistency(token: str) -> Consistency:
    """Ask for state at least as fresh as a token; without one, for the newest."""
    if not token:
        return Consistency(fully_consistent=True)
    return Consistency(at_least_as_fresh=ZedToken(token=token))


def read_answer(message: bytes) -> Any:
    """Read the bytes that a bulk check is answered with, for whoever asks without this adapter."""
    return CheckBulkPermissionsResponse.FromString(message)


def _is_allowed(pair: Any) -> bool:
    """Read one answer; raises ChecksUnavailable for an error, except that endless nesting denies."""
    if pair.item.permissionship == _ALLOWED:  # only an item can say so
        return True
    if pair.WhichOneof("response") == "item":
        return False
    info = ErrorInfo()
    if any(detail.Unpack(info) and info.reason == _TOO_DEEP for detail in pair.error.details):
        event("permissions.too_deep")
        return False
    raise ChecksUnavailable(f"a permission could not be checked (gRPC status {pair.error.code})")
