"""An invented company whose notes are written for many people: teams, departments, access lists, and questions.

Each question is asked by somebody who may read the note that answers it; its words are the note's title and a run of
words from its text.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from eval.invented import NOTES, markdown, vocabulary

_N_TEAMS = 12
_N_DEPARTMENTS = 3
_N_PEOPLE = 24  # two in each team
_N_FOLDERS = 40
_RUN = 6  # words of the note that a question repeats


@dataclass(frozen=True, slots=True)
class Asked:
    """One question: who asks it, its text, and the title of the note that answers it."""

    person: str
    text: str
    title: str


@dataclass(frozen=True, slots=True)
class Access:
    """Who may view a folder. A department's folder leaves one of its teams out."""

    is_for_everyone: bool = False
    teams: tuple[int, ...] = ()
    department: int | None = None
    denied_team: int | None = None

    def readers(self) -> list[int]:
        """List the people who may view it."""
        if self.is_for_everyone:
            return list(range(_N_PEOPLE))
        teams = set(self.teams)
        if self.department is not None:
            teams = {team for team in range(_N_TEAMS) if team % _N_DEPARTMENTS == self.department}
        return [person for person in range(_N_PEOPLE) if person % _N_TEAMS in teams - {self.denied_team}]

    def as_file(self) -> dict[str, Any]:
        """State it as an access file does."""
        if self.is_for_everyone:
            return {"viewers": {"everyone": True}}
        if self.department is None:
            return {"viewers": {"groups": [f"team{team}" for team in self.teams]}}
        return {
            "viewers": {"groups": [f"department{self.department}"]},
            "denied": {"groups": [f"team{self.denied_team}"]},
        }


def write_company(folder: Path, n_notes: int, n_questions: int, seed: int) -> list[Asked]:
    """Write one-chunk notes into forty folders with an access list each; returns questions, the same for the same seed."""
    chance, words = random.Random(seed), vocabulary()  # noqa: S311  repeatable, not secret
    folder.mkdir(parents=True)
    _write_yaml(folder, {"groups": _groups()})
    accesses = [access_of(number) for number in range(_N_FOLDERS)]
    for number, access in enumerate(accesses):
        (folder / f"{number:02}").mkdir()
        _write_yaml(folder / f"{number:02}", access.as_file())
    asked_about = set(chance.sample(range(n_notes), min(n_questions, n_notes)))
    questions = []
    for number in range(n_notes):
        text = markdown(chance, words, number, NOTES)
        (folder / f"{number % _N_FOLDERS:02}" / f"{number:06}.md").write_text(text)
        if number in asked_about:
            questions.append(_question(chance, text, accesses[number % _N_FOLDERS]))
    return questions


def people() -> list[str]:
    """Name everybody."""
    return [person_name(number) for number in range(_N_PEOPLE)]


def person_name(number: int) -> str:
    """Name one person."""
    return f"person{number:02}@bench.example"


def access_of(folder: int) -> Access:
    """Choose a folder's access: two in ten for everyone, four for a team, three for two teams, one for a department."""
    kind, first = folder % 10, folder % _N_TEAMS
    if kind < 2:
        return Access(is_for_everyone=True)
    if kind < 6:
        return Access(teams=(first,))
    if kind < 9:
        return Access(teams=(first, (first + 5) % _N_TEAMS))
    department = folder // 10 % _N_DEPARTMENTS
    return Access(department=department, denied_team=department)


def _groups() -> dict[str, Any]:
    teams = {
        f"team{team}": {"users": [person_name(n) for n in range(_N_PEOPLE) if n % _N_TEAMS == team]}
        for team in range(_N_TEAMS)
    }
    departments = {
        f"department{number}": {
            "groups": [f"team{team}" for team in range(_N_TEAMS) if team % _N_DEPARTMENTS == number]
        }
        for number in range(_N_DEPARTMENTS)
    }
    return {**teams, **departments}


def _question(chance: random.Random, note: str, access: Access) -> Asked:
    title, _, body = note.removeprefix("# ").partition("\n")
    said = body.lower().replace(".", "").split()
    start = chance.randrange(max(1, len(said) - _RUN))
    text = " ".join([*title.lower().split()[:-1], *said[start : start + _RUN]])
    return Asked(person_name(chance.choice(access.readers())), text, title)


def _write_yaml(folder: Path, content: dict[str, Any]) -> None:
    (folder / ".cortex-access.yaml").write_text(yaml.safe_dump(content))
