"""The commands under `cortex access`: who belongs to which group, and what that lets them see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime

import click

from cortex.console import command, json_option, write_document
from cortex.documents import Grant, GrantKind, Membership
from cortex.errors import Misconfigured
from cortex.ports.ingest import IngestCatalog
from cortex.settings import Settings, settings

_GROUP_PREFIX = "group:"


@click.group()
def access() -> None:
    """Manage who may ask, and who belongs to which group.

    Sources bring their own groups; what you add here stays until you remove it. A change holds from the very next
    request on: a command returns when SpiceDB has acknowledged it.
    """


@access.command("add-user")
@click.argument("user_ids", metavar="USER...", nargs=-1, required=True)
@json_option
@command
def add_user(user_ids: tuple[str, ...], as_json: bool) -> None:
    """Register people, so that they may ask; people who were removed may ask again.

    After a return, groups that the operator had given have to be given again, and groups of a source come back when it
    is read the next time. Tokens from before the removal stay refused.
    """
    with _changing() as catalog:
        catalog.admit_users(settings().tenant_id, user_ids)
    _say(as_json, {"users": list(user_ids)}, f"registered: {', '.join(user_ids)}")


@access.command("remove-user", epilog="Example:\n\n\b\n  cortex access remove-user nora@acme.example")
@click.argument("user_id", metavar="USER")
@json_option
@command
def remove_user(user_id: str, as_json: bool) -> None:
    """Remove a person who left: from the next request on they see nothing and cannot sign in.

    Tokens, codes and sessions they still have are refused (401, user.removed), and they are taken out of every group,
    everyone included, whoever put them there. A source that still names them, in a group or on a document, changes
    nothing: only `cortex access add-user` brings them back. Their recorded answers stay. Run again, it changes nothing.
    """
    with _changing() as catalog:
        is_changed = catalog.remove_user(settings().tenant_id, user_id)
    said = f"{user_id} is removed" if is_changed else f"{user_id} was removed already"
    _say(as_json, {"user": user_id, "changed": is_changed}, said)


@access.command("add-member")
@click.argument("group_name", metavar="GROUP")
@click.argument("member", metavar="USER|group:NAME")
@json_option
@command
def add_member(group_name: str, member: str, as_json: bool) -> None:
    """Add a person, or the members of another group, to a group."""
    with _changing() as catalog:
        is_changed = catalog.add_membership(settings().tenant_id, _membership(group_name, member))
    said = f"{member} is now in {group_name}" if is_changed else f"{member} was in {group_name} already"
    _say(as_json, {"group": group_name, "member": member, "changed": is_changed}, said)


@access.command("remove-member")
@click.argument("group_name", metavar="GROUP")
@click.argument("member", metavar="USER|group:NAME")
@json_option
@command
def remove_member(group_name: str, member: str, as_json: bool) -> None:
    """Remove a member from a group, whoever said that it belongs there.

    A source that still says so adds it again when it is read the next time: remove it there too.
    """
    with _changing() as catalog:
        is_changed = catalog.remove_membership(settings().tenant_id, _membership(group_name, member))
    said = f"{member} is no longer in {group_name}" if is_changed else f"{member} was not in {group_name}"
    _say(as_json, {"group": group_name, "member": member, "changed": is_changed}, said)


@access.command()
@click.argument("user_id", metavar="USER")
@json_option
@command
def show(user_id: str, as_json: bool) -> None:
    """Show a person's groups and how much they can see."""
    from adapters.catalog.access import PostgresAccess

    found = PostgresAccess(_postgres_url(settings())).user(settings().tenant_id, user_id)
    if found.removed_at:
        _say(as_json, found, f"{user_id} was removed on {found.removed_at:%Y-%m-%d} and sees nothing")
        return
    groups = [group.name if group.is_direct else f"{group.name} (through another)" for group in found.groups]
    said = [
        f"{user_id} may see {found.n_documents} documents through {found.n_profiles} access profiles",
        f"groups: {', '.join(groups) or 'none'}",
    ]
    _say(as_json, found, "\n".join(said))


@access.command(
    epilog="Examples:\n\n\b\n  cortex access history --user nora@acme.example\n"
    "  cortex access history --action member --since 2026-11-01 --json"
)
@click.option(
    "--user", "about", metavar="USER", default="", help="Only what was changed about this person by name."
)
@click.option("--by", "who", metavar="WHO", default="", help="Only what this operator or source did.")
@click.option(
    "--action",
    metavar="ACTION",
    default="",
    help="Only this action, or those that begin so: member, user, source.",
)
@click.option(
    "--since",
    type=click.DateTime(),
    metavar="TIME",
    help="Only from this time (UTC) on: 2026-11-30 or 2026-11-30T09:00:00.",
)
@click.option(
    "-n", "limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="Events wanted."
)
@json_option
@command
def history(about: str, who: str, action: str, since: datetime | None, limit: int, as_json: bool) -> None:
    """Show who changed access, what and when, the newest first.

    Each change of the operator's is an event of its own. A load is one event, `access.load`, with counts: people,
    group members, and documents given a list, given another one, or hidden.
    """
    from adapters.catalog.audit import read_audit

    since = since.replace(tzinfo=UTC) if since else None
    events = read_audit(
        _postgres_url(settings()),
        settings().tenant_id,
        who=who,
        about=about,
        action=action,
        since=since,
        limit=limit,
    )
    said = [f"{e.acted_at:%Y-%m-%d %H:%M:%S}  {e.who}  {e.action}  {_listed(e.fields)}" for e in events]
    _say(as_json, {"events": events}, "\n".join(said) or "nothing was changed")


@access.command("list")
@json_option
@command
def list_access(as_json: bool) -> None:
    """List people, groups with their members, and documents that nobody can see."""
    from adapters.catalog.access import PostgresAccess

    found = PostgresAccess(_postgres_url(settings())).tenant(settings().tenant_id)
    said = [f"people: {', '.join(found.users) or 'none'}"]
    if found.removed:
        said.append(f"removed: {', '.join(found.removed)}")
    said += [f"{edge.group}: {edge.member} (by {', '.join(edge.asserted_by)})" for edge in found.edges]
    if found.n_dark_documents:
        said.append(f"{found.n_dark_documents} documents are dark: their source did not say who may see them")
    _say(as_json, found, "\n".join(said))


@contextmanager
def _changing() -> Iterator[IngestCatalog]:
    """Open the catalog for a change, then wait until SpiceDB has acknowledged it."""
    from adapters.catalog.ingest import PostgresIngestCatalog
    from adapters.catalog.outbox import PostgresOutbox
    from adapters.spicedb.writer import SpiceDBWriter
    from data_jobs.actor import operator
    from data_jobs.deliver import drain

    given = settings()
    catalog = PostgresIngestCatalog(_postgres_url(given), operator())
    outbox = PostgresOutbox(given.postgres_url)
    writer = None
    try:
        writer = SpiceDBWriter(given.spicedb_url, given.spicedb_token.get_secret_value(), given.spicedb_tls)
        yield catalog
        drain(outbox, writer)
    finally:
        catalog.close()
        outbox.close()
        if writer:
            writer.close()


def _membership(group_name: str, member: str) -> Membership:
    """Read a member as the operator types it."""
    kind = GrantKind.GROUP if member.startswith(_GROUP_PREFIX) else GrantKind.USER
    return Membership(group_name, Grant(kind, member.removeprefix(_GROUP_PREFIX)))


def _listed(fields: Mapping[str, object]) -> str:
    """Say what was changed on one line."""
    return " ".join(f"{name}={','.join(v) if isinstance(v, list) else v}" for name, v in fields.items())


def _postgres_url(given: Settings) -> str:
    if not given.postgres_url:
        raise Misconfigured(
            "no catalog runs here: CORTEX_POSTGRES_URL is empty", code="postgres.missing", hint="cortex up"
        )
    return given.postgres_url


def _say(as_json: bool, document: object, sentence: str) -> None:
    """Print the result, as JSON or as a sentence."""
    if as_json:
        write_document(document)
    else:
        click.echo(sentence)
