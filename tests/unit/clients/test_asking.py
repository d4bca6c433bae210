"""`cortex search`, `cortex ask` and `cortex token` against the app on a real socket."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import httpx
import pytest
from click.testing import CliRunner, Result

from clients.cli.commands import ask, search, token
from clients.cli.show import clean
from cortex.errors import ChecksUnavailable
from cortex.evidence import Degraded
from cortex.settings import settings
from tests.twins.running_app import RunningApp, running_app
from tests.twins.service import ADA, BEN

Run = Callable[..., Result]
COMMANDS = {"ask": ask, "search": search, "token": token}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningApp]:
    with running_app(tmp_path_factory.mktemp("home")) as running:
        yield running


@pytest.fixture
def run(app: RunningApp, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Run a command in the app's home, as an operator's shell would."""
    monkeypatch.setenv("CORTEX_HOME", str(app.settings.home))
    monkeypatch.setenv("CORTEX_HTTP_URL", app.url)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("CORTEX_TOKEN", raising=False)
    settings.cache_clear()

    def invoke(name: str, *arguments: str) -> Result:
        return CliRunner().invoke(COMMANDS[name], arguments, prog_name=f"cortex {name}")

    yield invoke
    settings.cache_clear()
    app.service.fail_with, app.service.degraded = None, ()


def test_search_prints_one_document(run: Run) -> None:
    """`--json` gives the API's document: hits with title, score, permalink, anchor and text."""
    result = run("search", "when are receipts due", "--as", ADA, "-k", "1", "--json")
    found = json.loads(result.stdout)
    (hit,) = found["hits"]
    assert {"document_id", "title", "score", "permalink", "anchor", "text"} <= set(hit)
    assert {"evidence", "degraded", "trace_id", "timings_ms"} <= set(found)
    assert result.exit_code == 0


def test_search_reads_well(run: Run) -> None:
    """A passage shows its number, title, place, why it ranked, text and link; no line ends in blanks."""
    lines = run("search", "when are receipts due", "--as", ADA).stdout.splitlines()
    assert lines[:4] == [
        " 1  Travel policy",
        "    files · lines 25-33 · 2026-03-04 · meaning #1, words #2",
        "    Receipts are due within 30 days. The finance team pays travel claims every second Friday.",
        "    https://wiki.example.com/1#L25-L33",
    ]
    assert all(line == line.rstrip() for line in lines)


def test_ask_streams_an_answer_with_its_sources(run: Run) -> None:
    """The answer comes first, its numbered sources with links after it."""
    answer, _, sources = run("ask", "when are receipts due", "--as", ADA).stdout.partition("Sources")
    assert "within 30 days" in answer and "[1]" in answer
    assert "[1] Travel policy, lines 25-33" in sources
    assert "https://wiki.example.com/1#L25-L33" in sources


def test_ask_prints_one_document(run: Run) -> None:
    """`--json` gives the answer, its citations and whether it abstained."""
    found = json.loads(run("ask", "when are receipts due", "--as", ADA, "--json").stdout)
    assert (found["abstained"], found["citations"][0]["number"]) == (False, 1)


def test_an_abstention_is_shown_as_such(run: Run) -> None:
    """An abstention says so, lists no source and is no error."""
    result = run("ask", "xylophone", "--as", ADA)
    assert "not answered" in result.stdout and "Sources" not in result.stdout
    assert result.exit_code == 0


def test_one_person_does_not_see_what_another_does(run: Run) -> None:
    """The same question as two people: cited for one, nothing of it for the other."""
    question = "salary band of a senior engineer"
    assert "Salary bands" in run("search", question, "--as", ADA).stdout
    assert "Salary bands" not in run("search", question, "--as", BEN).stdout


def test_degraded_parts_are_named(run: Run, app: RunningApp) -> None:
    """A part that did not work is named before the results."""
    app.service.degraded = (Degraded("dense", "lane.failed", "The meaning lane did not answer."),)
    assert "degraded dense: The meaning lane" in run("search", "receipts", "--as", ADA).stdout


@pytest.mark.parametrize(
    ("arguments", "exit_code", "code"),
    [
        (("--as", "mallory"), 3, "user.unknown"),
        ((), 2, "person.missing"),
        (("--as", ADA, "--collection", ""), 2, "input.invalid"),
    ],
)
def test_errors_end_with_their_exit_code(
    run: Run, arguments: tuple[str, ...], exit_code: int, code: str
) -> None:
    """Each kind of failure has its exit code, and `--json` states it as a document."""
    result = run("search", "receipts", *arguments, "--json")
    assert (result.exit_code, json.loads(result.stdout)["error"]["code"]) == (exit_code, code)


def test_a_failure_in_the_stream_is_an_error(run: Run, app: RunningApp) -> None:
    """When checks fail while the answer streams, the command says so and ends with the code of 503."""
    app.service.fail_with = ChecksUnavailable("permissions cannot be checked")
    result = run("ask", "when are receipts due", "--as", ADA)
    assert (result.exit_code, "permissions cannot be checked" in result.stderr) == (7, True)


def test_without_a_server_it_says_what_to_do(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens: exit code 7 and the command that starts it."""
    monkeypatch.setenv("CORTEX_HTTP_URL", "http://127.0.0.1:9")
    settings.cache_clear()
    result = run("ask", "receipts", "--as", ADA)
    assert (result.exit_code, "cortex up" in result.stderr) == (7, True)


def test_a_token_asks_and_a_code_signs_in(run: Run, app: RunningApp, monkeypatch: pytest.MonkeyPatch) -> None:
    """`cortex token` prints a token that CORTEX_TOKEN can hold, or a code that the page takes once."""
    monkeypatch.setenv("CORTEX_TOKEN", run("token", ADA).stdout.strip())
    assert run("search", "receipts due", "--json").exit_code == 0
    code = run("token", BEN, "--code", "--scope", "operate").stdout.strip()
    session = httpx.post(f"{app.url}/v1/session", json={"code": code}).json()
    assert (session["user_id"], session["scopes"]) == (BEN, ["operate"])


def test_help_teaches_by_example() -> None:
    """Every command shows how it is used."""
    for name, command in COMMANDS.items():
        assert f"cortex {name} " in CliRunner().invoke(command, ["--help"]).output.partition("Examples:")[2]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[2Jgone\x07\r", "[2Jgone"),
        ("abc\u202edcba\u2066", "abcdcba"),
        ("two\nlines\tkept", "two\nlines\tkept"),
        ("\x9b31m日本語", "31m日本語"),
    ],
)
def test_documents_cannot_drive_the_terminal(text: str, shown: str) -> None:
    """Escape sequences and direction overrides in a document do not reach the terminal."""
    assert clean(text) == shown
