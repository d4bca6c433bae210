"""The audit of access on the real Postgres: every change has its row, in the transaction that makes it, and a load has one."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from adapters.catalog.audit import AuditEvent, read_audit
from adapters.catalog.ingest import PostgresIngestCatalog
from adapters.catalog.mend import CatalogMender
from adapters.catalog.removal import CatalogRemoval
from cortex.errors import CortexError
from cortex.ports.ingest import AclWrite
from tests.contracts.catalog_words import TENANT, acl, group, member, source, user, version

pytestmark = pytest.mark.services
WHO, SOURCE = "operator:ann", source()


@pytest.fixture
def catalog(catalog_url: str) -> Iterator[PostgresIngestCatalog]:
    opened = PostgresIngestCatalog(catalog_url, WHO)
    opened.ensure_source(SOURCE)
    yield opened
    opened.close()


def told(url: str, **of: Any) -> list[tuple[str, str, dict[str, Any]]]:
    """The audit, oldest first, without ids."""
    events: list[AuditEvent] = list(read_audit(url, TENANT, **of))
    left_out = ("source_id", "run_id")
    return [
        (one.who, one.action, {k: v for k, v in one.fields.items() if k not in left_out})
        for one in reversed(events)
    ]


def lists(first: int, n: int, name: str) -> list[AclWrite]:
    """Access lists of n documents, for one person."""
    writes = [version(f"d{number}", "text") for number in range(first, first + n)]
    return [AclWrite(w.document.external_id, w.document.document_id, acl(user(name))) for w in writes]


def test_what_the_operator_changes_is_told_by_name(catalog: PostgresIngestCatalog, catalog_url: str) -> None:
    """Who did what to whom; what changed nothing leaves no row."""
    for _ in range(2):
        catalog.admit_users(TENANT, ["eve"])
        catalog.add_membership(TENANT, member("eng", user("eve")))
        catalog.add_membership(TENANT, member("eng", group("ops")))
    for _ in range(2):
        catalog.remove_membership(TENANT, member("eng", group("ops")))
        catalog.remove_user(TENANT, "eve")
    catalog.admit_users(TENANT, ["eve"])
    assert told(catalog_url) == [
        (WHO, "user.add", {"user_id": "eve"}),
        (WHO, "member.add", {"group": "eng", "member": "eve"}),
        (WHO, "member.add", {"group": "eng", "member": "group:ops"}),
        (WHO, "member.remove", {"group": "eng", "member": "group:ops"}),
        (WHO, "user.remove", {"user_id": "eve", "groups": ["eng"]}),
        (WHO, "user.readmit", {"user_id": "eve"}),
    ]
    assert [action for _, action, _ in told(catalog_url, about="eve", action="user.re")] == [
        "user.remove",
        "user.readmit",
    ]
    assert told(catalog_url, who="operator:bob") == []
    assert told(catalog_url, since=datetime.now(UTC) + timedelta(hours=1)) == []
    assert len(told(catalog_url, limit=2)) == 2


def test_a_load_has_one_row_however_many_writers_it_has(
    catalog: PostgresIngestCatalog, catalog_url: str
) -> None:
    """People, members, and documents given a list, given another or hidden are summed, by four writers at once too."""
    for number in range(2):
        run_id = catalog.start_run(SOURCE.source_id)
        catalog.ensure_users(TENANT, ["eve", f"bob{number}"], SOURCE.source_id)
        catalog.set_memberships(TENANT, SOURCE.source_id, [member("eng", user(f"bob{number}"))])
        with ThreadPoolExecutor(4) as pool:
            batches = [lists(first, 5, f"bob{number}") for first in range(0, 40, 5)]
            list(pool.map(lambda batch: catalog.set_acls(TENANT, SOURCE.source_id, batch), batches))
        catalog.set_acls(TENANT, SOURCE.source_id, batches[0])
        for write in batches[0][:2] if number else ():
            catalog.tombstone(write.document_id)
        catalog.finish_run(run_id, "succeeded", {}, [])
    first = {"people_added": 2, "members_added": 1, "documents_given": 40}
    second = {"people_added": 1, "members_added": 1, "members_removed": 1, "documents_changed": 40}
    assert told(catalog_url) == [
        ("source:files:wiki", "access.load", first),
        ("source:files:wiki", "access.load", {**second, "documents_hidden": 2}),
    ]


def test_a_change_without_its_row_is_no_change(catalog: PostgresIngestCatalog, catalog_url: str) -> None:
    """Both are one transaction: where the audit cannot be written, access is not changed."""
    catalog.admit_users(TENANT, ["eve"])
    catalog.add_membership(TENANT, member("eng", user("eve")))
    with psycopg.connect(catalog_url, autocommit=True) as connection:
        connection.execute(
            "ALTER TABLE audit ADD CONSTRAINT full_disk CHECK (action LIKE 'user.add%') NOT VALID"
        )
        before = connection.execute("SELECT * FROM tuples ORDER BY 1, 2, 3, 4, 5, 6").fetchall()
        for change in (
            lambda: catalog.remove_user(TENANT, "eve"),
            lambda: catalog.remove_membership(TENANT, member("eng", user("eve"))),
            lambda: catalog.add_membership(TENANT, member("ops", user("eve"))),
            lambda: catalog.set_memberships(TENANT, SOURCE.source_id, [member("ops", user("eve"))]),
            lambda: catalog.ensure_users(TENANT, ["zoe"], SOURCE.source_id),
            lambda: catalog.set_acls(TENANT, SOURCE.source_id, lists(0, 1, "eve")),
        ):
            with pytest.raises(CortexError):
                change()
        assert connection.execute("SELECT * FROM tuples ORDER BY 1, 2, 3, 4, 5, 6").fetchall() == before


def test_hiding_a_source_and_repairs_are_told(catalog: PostgresIngestCatalog, catalog_url: str) -> None:
    """A removed source says what was hidden when it was; a repair that takes access away says so."""
    catalog.set_memberships(TENANT, SOURCE.source_id, [member("eng", user("eve"))])
    writes = lists(0, 3, "eve")
    catalog.set_acls(TENANT, SOURCE.source_id, writes)
    mender, removal = CatalogMender(catalog_url, WHO), CatalogRemoval(catalog_url)
    mender.hide_documents(TENANT, [writes[0].document_id])
    for _ in range(2):
        removal.hide(TENANT, SOURCE.source_id, WHO)
    removal.drop(TENANT, SOURCE.source_id, WHO, {"documents": 3})
    mender.close()
    removal.close()
    assert told(catalog_url, who=WHO) == [
        (WHO, "access.repair", {"documents_hidden": 1}),
        (WHO, "source.hide", {"documents_hidden": 3, "members_removed": 1}),
        (WHO, "source.remove", {"documents": 3}),
    ]
