"""`make demo`: starts Cortex, loads the sample company, asks three questions as two people, and leaves it running.

Everything it writes is in one home: `$CORTEX_HOME`, else `.demo` in the repository. It can be repeated.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import yaml

from cluster.place import private_folder, write_private
from cluster.state import RunState, read_state
from cortex.codes import mint_code
from cortex.console import command
from cortex.errors import Conflict, Corrupt, Unavailable
from cortex.principals import Principal
from cortex.settings import Settings, read_settings

REPOSITORY = Path(__file__).resolve().parents[1]
COMPANY = REPOSITORY / "examples" / "sample_company"
CHAT = REPOSITORY / "examples" / "sample_chat"
QUESTIONS = REPOSITORY / "examples" / "questions.yaml"
CODE_TTL_S = 3600
# The first of the people may add folders in the page; all of them may search.
_FIRST_SCOPES, _SCOPES = frozenset({"search", "operate"}), frozenset({"search"})


@dataclass(frozen=True, slots=True)
class Person:
    """Someone of the sample company who has an account."""

    user_id: str
    described: str
    scopes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Question:
    """A question that the demo asks, and who asks it."""

    text: str
    asks: str


@dataclass(frozen=True, slots=True)
class Script:
    """What the demo plays."""

    people: tuple[Person, ...]
    questions: tuple[Question, ...]

    @property
    def askers(self) -> list[Person]:
        """The people who ask, in the order of their first question."""
        order = list(dict.fromkeys(question.asks for question in self.questions))
        return sorted((p for p in self.people if p.user_id in order), key=lambda p: order.index(p.user_id))


def read_script(path: Path) -> Script:
    """Read people and the questions marked `demo`; raises Corrupt when the file is not what it should be."""
    try:
        raw = yaml.safe_load(path.read_text())
        questions = tuple(Question(q["text"], q["asks"]) for q in raw["questions"] if q.get("demo"))
        people = tuple(
            Person(user_id, described, _SCOPES if n else _FIRST_SCOPES)
            for n, (user_id, described) in enumerate(raw["people"].items())
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError) as error:
        raise Corrupt(f"{path} cannot be read: {error}", hint=f"git checkout {path}") from error
    return Script(people, questions)


def prepare_home(home: Path, script: Script) -> None:
    """Mark a home as a demo home; raises Conflict when it holds data of another kind."""
    marker = home / "settings.env"
    is_demo = marker.is_file() and "CORTEX_IS_DEMO=true" in marker.read_text()
    if not is_demo and (home / "postgres").exists():
        raise Conflict(
            f"{home} holds data that is not the demo's",
            code="demo.home_in_use",
            hint="set CORTEX_HOME to a new folder for the demo",
        )
    if not is_demo:
        private_folder(home)
        people = ",".join(f"{person.user_id}={' '.join(sorted(person.scopes))}" for person in script.people)
        given = marker.read_text() if marker.is_file() else ""
        write_private(marker, f'{given}CORTEX_IS_DEMO=true\nCORTEX_DEMO_PEOPLE="{people}"\n')


def start(settings: Settings) -> RunState:
    """Start the engines, unless they run and are ready; returns the supervisor's record."""
    state = read_state(settings.state_path)
    if state is None or not state.is_running:
        _cortex("up")
    elif not state.is_ready:
        raise Unavailable(
            "Cortex runs in this home but is not ready",
            code="demo.not_ready",
            hint="make down, then make demo",
        )
    state = read_state(settings.state_path)
    if state is None:
        raise Unavailable("Cortex ended right after its start", code="demo.not_ready", hint="cortex logs")
    return state


def sign_in_lines(settings: Settings, people: list[Person]) -> Iterator[str]:
    """Make a one-time code for each person and lay them out for the terminal."""
    for person in people:
        code = mint_code(settings, Principal(settings.tenant_id, person.user_id, person.scopes), CODE_TTL_S)
        yield f"  {code}   {person.user_id} ({person.described})"


def _cortex(*arguments: str) -> None:
    """Run a `cortex` command on this terminal; ends this program with its exit code when it fails."""
    done = subprocess.run([sys.executable, "-m", "clients.cli.main", *arguments])
    if done.returncode:
        sys.exit(done.returncode)


def _say(title: str) -> None:
    click.secho(f"\n▸ {title}", bold=True)


@click.command()
@command
def main() -> None:
    """Play the demo."""
    home = Path(os.environ.get("CORTEX_HOME") or REPOSITORY / ".demo").expanduser().absolute()
    os.environ["CORTEX_HOME"] = str(home)
    script = read_script(QUESTIONS)
    prepare_home(home, script)

    _say("Starting the engines")
    state = start(read_settings())

    _say(f"Loading the sample company, {COMPANY.relative_to(REPOSITORY)}")
    _cortex("ingest", "files", str(COMPANY), "--name", "sample_company", "--access", "file-only")
    _say(f"Loading its chat, {CHAT.relative_to(REPOSITORY)}")
    # Few threads: this process has them loaded before workers would be up.
    _cortex("ingest", "slack", str(CHAT), "--name", "sample_chat", "--domain", "tarnvik", "--no-ray")
    _cortex("access", "add-user", *(person.user_id for person in script.people))

    names = {person.user_id: person.described for person in script.people}
    for question in script.questions:
        _say(f"{names[question.asks]} asks: {question.text}")
        _cortex("ask", question.text, "--as", question.asks)

    _say("Now you")
    click.echo(
        f"  {state.env.get('CORTEX_HTTP_URL', '')}   and sign in with a code; each works once, for an hour:"
    )
    for line in sign_in_lines(read_settings(), script.askers):
        click.echo(line)
    click.echo(f"\n  export CORTEX_HOME={home}")
    click.echo(
        f"  {Path(sys.executable).with_name('cortex')} ask 'your question' --as {script.people[0].user_id}"
    )
    click.echo("  make down   ends it; the data stays, and `make demo` continues with it")


if __name__ == "__main__":
    main()
