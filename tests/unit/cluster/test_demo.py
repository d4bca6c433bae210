"""What `make demo` plays."""

import stat
from pathlib import Path

import pytest

from cluster.demo import QUESTIONS, Person, Question, Script, prepare_home, read_script, sign_in_lines
from cortex.codes import redeem_code
from cortex.errors import Conflict, Corrupt
from cortex.settings import Settings

SCRIPT = Script(
    (Person("ann@x.example", "Ann", frozenset({"search", "operate"})),), (Question("why?", "ann@x.example"),)
)


def test_the_sample_script_asks_three_questions_as_two_people() -> None:
    """The demo asks three questions as two of the four people, one of whom may add folders."""
    script = read_script(QUESTIONS)
    assert (len(script.questions), len(script.askers), len(script.people)) == (3, 2, 4)
    assert [person.user_id for person in script.people if "operate" in person.scopes] == [
        script.people[0].user_id
    ]


def test_a_demo_home_says_so_and_stays_one(tmp_path: Path) -> None:
    """Preparing a home twice writes the demo's settings once, for its owner alone."""
    home = tmp_path / "demo"
    prepare_home(home, SCRIPT)
    first = (home / "settings.env").read_text()
    (home / "postgres").mkdir()
    prepare_home(home, SCRIPT)
    assert (home / "settings.env").read_text() == first
    settings = Settings(_env_file=home / "settings.env")  # type: ignore[call-arg]
    assert (settings.is_demo, settings.demo_people) == (True, "ann@x.example=operate search")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (home, home / "settings.env")] == [0o700, 0o600]


def test_a_home_with_real_data_is_refused(tmp_path: Path) -> None:
    """The demo never turns a home with data into one where anyone may become anyone."""
    (tmp_path / "postgres").mkdir()
    with pytest.raises(Conflict) as caught:
        prepare_home(tmp_path, SCRIPT)
    assert caught.value.error_code == "demo.home_in_use"
    assert not (tmp_path / "settings.env").exists()


def test_settings_of_the_home_are_kept(tmp_path: Path) -> None:
    """What the operator wrote into an empty home's settings stays."""
    (tmp_path / "settings.env").write_text("CORTEX_HTTP_PORT=0\n")
    prepare_home(tmp_path, SCRIPT)
    assert (tmp_path / "settings.env").read_text().startswith("CORTEX_HTTP_PORT=0\nCORTEX_IS_DEMO=true\n")


@pytest.mark.parametrize(
    "text", ["", "people: 3", "questions: []", "{", "people: {}\nquestions: [{demo: true}]"]
)
def test_a_damaged_script_is_an_error_with_a_remedy(tmp_path: Path, text: str) -> None:
    """A script that is not what it should be is named, with how to get it back."""
    path = tmp_path / "questions.yaml"
    path.write_text(text)
    with pytest.raises(Corrupt) as caught:
        read_script(path)
    assert "git checkout" in caught.value.hint


def test_printed_codes_sign_in(tmp_path: Path) -> None:
    """Each printed code signs its person in, with that person's scopes."""
    settings = Settings(home=tmp_path)
    [line] = sign_in_lines(settings, list(SCRIPT.people))
    principal = redeem_code(settings, line.split()[0])
    assert (principal.user_id, principal.scopes) == ("ann@x.example", frozenset({"search", "operate"}))
