"""The toolbox: three tools over the same desk as the HTTP routes, so that nobody finds here what they would not there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from cortex import api
from cortex.errors import NotFound
from cortex.principals import Principal
from serve_apps.problems import invalid_input
from serve_apps.routes.queries import AnswerDesk
from serve_apps.tools.shapes import (
    AskArguments,
    CitedAnswer,
    FetchArguments,
    FetchedDocument,
    SearchArguments,
    SearchResults,
    cited_answer,
    fetched,
    search_request,
    search_results,
    split_id,
)

INSTRUCTIONS = """Cortex searches what this person's organisation has: documents, chat, notes, code, mail. It shows only
what this very person may open at the source. Use `search` for passages, `fetch` to read on in a document, `ask` for a
short cited answer. Cite the `url` of what you use. When `notes` say that the evidence carries no answer, or that a part
was degraded, tell the reader so."""

_SEARCH = """Find passages among what this person may see, best first, by meaning and by words.

Each result has an `id` for `fetch`, a `title`, a `url` that opens the source at the passage, the passage itself in
`text`, and in `citation` where it stands. `notes` say when the evidence does not carry an answer, and what did not work."""

_FETCH = """Read the document that a search result belongs to, by the result's `id`.

A long document comes in pages: the one with the passage first, others by `next_id` and `previous_id`."""

_ASK = """Answer a question in a few sentences, each cited, from what this person may see.

If the evidence does not support an answer, `abstained` is true and nothing is cited: that is a result, not a failure."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: how it is offered, and what runs it with its arguments read."""

    name: str
    title: str
    about: str
    arguments: type[api.Model]
    result: type[api.Model]
    run: Callable[[Principal, Any], Awaitable[api.Model]]


class Toolbox:
    """The tools of one ingress. They raise only CortexErrors."""

    def __init__(self, desk: AnswerDesk, page_chars: int) -> None:
        self._desk = desk
        self._page_chars = page_chars
        self.tools = (
            Tool("search", "Search", _SEARCH, SearchArguments, SearchResults, self._search),
            Tool("fetch", "Open a document", _FETCH, FetchArguments, FetchedDocument, self._fetch),
            Tool("ask", "Ask", _ASK, AskArguments, CitedAnswer, self._ask),
        )

    def find(self, name: str) -> Tool:
        """Find a tool by its name; raises NotFound."""
        for tool in self.tools:
            if tool.name == name:
                return tool
        known = ", ".join(tool.name for tool in self.tools)
        raise NotFound("there is no tool of that name", code="tool.unknown", hint=f"there are {known}")

    async def call(self, principal: Principal, tool: Tool, arguments: Mapping[str, Any]) -> api.Model:
        """Run a tool as a person; raises InputError for arguments that do not fit, and what the query path raises."""
        try:
            read = tool.arguments.model_validate(arguments)
        except ValidationError as error:
            raise invalid_input(error.errors()[0], hint="tools/list shows what it takes") from error
        return await tool.run(principal, read)

    async def _search(self, principal: Principal, arguments: SearchArguments) -> SearchResults:
        return search_results(await self._desk.search(principal, search_request(arguments)))

    async def _fetch(self, principal: Principal, arguments: FetchArguments) -> FetchedDocument:
        hits = await self._desk.document(principal, split_id(arguments.id)[0])
        return fetched(arguments.id, hits, self._page_chars)

    async def _ask(self, principal: Principal, arguments: AskArguments) -> CitedAnswer:
        question = self._desk.question(search_request(arguments))
        return cited_answer(*await self._desk.whole(principal, question))
