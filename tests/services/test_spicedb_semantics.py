"""The facade changes no answer: SpiceDB's own validation files hold through it, caveats and expiry included."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
import yaml
from authzed.api.v1 import (
    CheckPermissionRequest,
    CheckPermissionResponse,
    Consistency,
    ContextualizedCaveat,
    DeleteRelationshipsRequest,
    ObjectReference,
    Relationship,
    RelationshipFilter,
    RelationshipUpdate,
    SubjectReference,
    WriteRelationshipsRequest,
    WriteSchemaRequest,
)
from authzed.api.v1.permission_service_pb2_grpc import PermissionsServiceStub
from authzed.api.v1.schema_service_pb2_grpc import SchemaServiceStub
from google.protobuf.struct_pb2 import Struct

from adapters.spicedb.channels import open_channel
from adapters.spicedb.writer import SpiceDBWriter
from tests.services.spicedb import TOKEN, running

pytestmark = [pytest.mark.services, pytest.mark.shared_data]

DATA = Path(os.environ.get("CORTEX_EVAL_DATA", Path(__file__).parents[3] / "shared/data")) / "acl"
FOLDERS = (
    "authzed_examples",
    "spicedb_validation/internal/services/integrationtesting/testconfigs",
)
_TUPLE = re.compile(
    r"(?P<type>[\w/]+):(?P<id>[^#]+)#(?P<relation>\w+)@(?P<subject_type>[\w/]+):(?P<subject_id>[^#\[\s]+)"
    r"(#(?P<subject_relation>[\w.]+))?(?P<brackets>(\[.*\])?)"
)
_BRACKET = re.compile(r"\[(?P<name>[\w/]+)(:(?P<value>\{.*?\}|[^\]]*))?\](?=\[|$)")
_HAS = {
    "assertTrue": CheckPermissionResponse.PERMISSIONSHIP_HAS_PERMISSION,
    "assertFalse": CheckPermissionResponse.PERMISSIONSHIP_NO_PERMISSION,
    "assertCaveated": CheckPermissionResponse.PERMISSIONSHIP_CONDITIONAL_PERMISSION,
}


def validation_files() -> list[Path]:
    found = [path for folder in FOLDERS for path in sorted((DATA / folder).rglob("*.yaml"))]
    return [
        path for path in found if any((yaml.safe_load(path.read_text()).get("assertions") or {}).values())
    ]


@pytest.fixture(scope="module")
def stubs(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[SchemaServiceStub, PermissionsServiceStub]]:
    with running(tmp_path_factory.mktemp("spicedb")) as server:
        writer = SpiceDBWriter(server.url, TOKEN)
        writer.open_for_checks()
        writer.close()
        channel = open_channel(server.url, TOKEN, False)
        yield SchemaServiceStub(channel), PermissionsServiceStub(channel)
        channel.close()


@pytest.mark.skipif(not DATA.is_dir(), reason="the evaluation data (CORTEX_EVAL_DATA) is not here")
@pytest.mark.parametrize("path", validation_files(), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_assertions_hold(stubs: tuple[SchemaServiceStub, PermissionsServiceStub], path: Path) -> None:
    """Every assertion of the file is answered as it says: yes, no, or only under a condition."""
    schema, permissions = stubs
    content = yaml.safe_load(path.read_text())
    text = content.get("schema") or (path.parent / content["schemaFile"]).read_text()
    schema.WriteSchema(WriteSchemaRequest(schema=text), timeout=20)
    lines = [line.strip() for line in (content.get("relationships") or "").splitlines()]
    tuples = [relationship(line) for line in lines if line and not line.startswith("//")]
    try:
        if tuples:
            updates = [
                RelationshipUpdate(operation=RelationshipUpdate.OPERATION_TOUCH, relationship=one)
                for one in {str(one): one for one in tuples}.values()
            ]
            permissions.WriteRelationships(WriteRelationshipsRequest(updates=updates), timeout=20)
        asserted = [(kind, assertion) for kind in _HAS for assertion in content["assertions"].get(kind) or ()]
        wrong = [
            (kind, text)
            for kind, text in asserted
            if permissions.CheckPermission(question(text), timeout=20).permissionship != _HAS[kind]
        ]
        assert wrong == []
    finally:
        for kind in {one.resource.object_type for one in tuples}:
            everything = DeleteRelationshipsRequest(
                relationship_filter=RelationshipFilter(resource_type=kind)
            )
            permissions.DeleteRelationships(everything, timeout=20)


def relationship(line: str) -> Relationship:
    """Read `type:id#relation@type:id#relation[caveat:{…}][expiration:…]`."""
    match = _TUPLE.fullmatch(line.split(" //")[0].strip())
    assert match, line
    one = Relationship(
        resource=ObjectReference(object_type=match["type"], object_id=match["id"]),
        relation=match["relation"],
        subject=subject(match["subject_type"], match["subject_id"], match["subject_relation"]),
    )
    for bracket in _BRACKET.finditer(match["brackets"]):
        if bracket["name"] == "expiration":
            one.optional_expires_at.FromDatetime(datetime.fromisoformat(bracket["value"]))
        else:
            caveat = ContextualizedCaveat(caveat_name=bracket["name"])
            if bracket["value"]:
                caveat.context.update(json.loads(bracket["value"]))
            one.optional_caveat.CopyFrom(caveat)
    return one


def question(assertion: str) -> CheckPermissionRequest:
    """Read `type:id#permission@type:id with {…}`."""
    tuple_text, _, context = assertion.partition(" with ")
    match = _TUPLE.fullmatch(tuple_text.strip())
    assert match, assertion
    given = Struct()
    if context:
        given.update(json.loads(context))
    return CheckPermissionRequest(
        resource=ObjectReference(object_type=match["type"], object_id=match["id"]),
        permission=match["relation"],
        subject=subject(match["subject_type"], match["subject_id"], match["subject_relation"]),
        context=given,
        consistency=Consistency(fully_consistent=True),
    )


def subject(kind: str, name: str, relation: str | None) -> SubjectReference:
    is_plain = relation in (None, "...")
    return SubjectReference(
        object=ObjectReference(object_type=kind, object_id=name),
        optional_relation="" if is_plain else relation,
    )
