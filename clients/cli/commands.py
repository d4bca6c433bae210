"""The commands that ask: `cortex token`, `cortex search`, `cortex ask`. They know the HTTP API and the operator's key."""

from __future__ import annotations

import sys
import time

import click

from clients.cli.calls import Caller
from clients.cli.show import print_answer, print_hits
from cortex.api import AnswerResponse, SearchResponse
from cortex.codes import mint_code
from cortex.console import command, json_option, write_document
from cortex.errors import InputError
from cortex.principals import Principal
from cortex.settings import settings
from cortex.tokens import local_private_key, sign

_CODE_TTL_S = 900
_SCOPES = ("search", "operate", "act")

as_option = click.option(
    "--as",
    "user_id",
    metavar="USER",
    envvar="CORTEX_AS",
    default="",
    help="Ask as this person, signed with this machine's key. Without it, CORTEX_TOKEN is sent.",
)
collection_option = click.option(
    "--collection",
    "collections",
    multiple=True,
    metavar="NAME",
    help="Only this collection; may be repeated.",
)


@click.command(
    epilog="Examples:\n\n\b\n  cortex token ada@example.com --code          a code to type into the web page\n"
    "  export CORTEX_TOKEN=$(cortex token ada@example.com)\n  cortex token ci --ttl 600 --scope search --json"
)
@click.argument("user_id", metavar="USER")
@click.option("--ttl", "ttl_s", type=click.IntRange(1, 31_536_000), metavar="S", help="Seconds it is valid.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(_SCOPES),
    help="What it may do: search (the default), operate (add sources), or act (a service asks for people, as a bot "
    "does); may be repeated.",
)
@click.option("--code", "is_code", is_flag=True, help="Make a one-time code for the web page instead.")
@json_option
@command
def token(user_id: str, ttl_s: int | None, scopes: tuple[str, ...], is_code: bool, as_json: bool) -> None:
    """Sign a token for a person, or make a one-time code for the page.

    It is signed with the key in $CORTEX_HOME/keys: whoever can read that key can be anybody. The person must be
    registered (cortex access add-user), or every request is refused.
    """
    if not user_id.strip():
        raise InputError("a person is needed", hint="cortex token ada@example.com")
    principal = Principal(settings().tenant_id, user_id, frozenset(scopes or ("search",)))
    ttl_s = ttl_s or (_CODE_TTL_S if is_code else settings().token_ttl_s)
    kind = "code" if is_code else "token"
    if is_code:
        secret = mint_code(settings(), principal, ttl_s)
    else:
        secret = sign(principal, local_private_key(settings()), ttl_s)
    if as_json:
        described = {"user_id": user_id, "scopes": sorted(principal.scopes)}
        write_document({kind: secret, **described, "expires_at_s": int(time.time()) + ttl_s})
    else:
        click.echo(secret)
        if sys.stdout.isatty():
            click.secho(f"valid for {ttl_s // 60} minutes, as {user_id}", dim=True, err=True)


@click.command(
    epilog='Examples:\n\n\b\n  cortex search "travel receipts" --as ada@example.com\n'
    '  cortex search "ERR-4417" --as ada@example.com -k 3 --collection tickets\n'
    '  cortex search "receipts" --as ada@example.com --json | jq -r ".hits[].title"'
)
@click.argument("text", metavar="TEXT")
@as_option
@click.option("-k", type=click.IntRange(1, 100), default=10, show_default=True, help="Passages wanted.")
@collection_option
@json_option
@command
def search(text: str, user_id: str, k: int, collections: tuple[str, ...], as_json: bool) -> None:
    """Find passages, best first, among what a person may see.

    Each passage says where it stands in its source and why it ranked: by meaning, by words, or by both.
    """
    body = {"query": text, "k": k, "depth": max(k, 50), "collections": list(collections)}
    with Caller(settings(), user_id) as caller:
        found = SearchResponse.model_validate(caller.call("/v1/search", body))
    if as_json:
        write_document(found.model_copy(update={"hits": found.hits[:k]}).model_dump(mode="json"))
    else:
        print_hits(found, k)


@click.command(
    epilog='Examples:\n\n\b\n  cortex ask "When are travel receipts due?" --as ada@example.com\n'
    '  cortex ask "Who owns the payments service?" --as ada@example.com --json | jq .answer'
)
@click.argument("text", metavar="TEXT")
@as_option
@collection_option
@json_option
@command
def ask(text: str, user_id: str, collections: tuple[str, ...], as_json: bool) -> None:
    """Answer a question with citations, or say that the evidence does not support an answer.

    The answer is written as it comes; its numbers refer to the sources listed below it. An abstention is a result
    like any other and ends with exit code 0; in --json it is `abstained: true`.
    """
    body = {"query": text, "collections": list(collections)}
    with Caller(settings(), user_id) as caller:
        if as_json:
            answer = AnswerResponse.model_validate(caller.call("/v1/answer", body))
            write_document(answer.model_dump(mode="json"))
        else:
            print_answer(caller.stream("/v1/answer", body))
