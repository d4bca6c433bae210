"""The invented company: real access lists, questions that somebody may have answered, the same each time."""

from __future__ import annotations

from pathlib import Path

import yaml

from eval.company import access_of, people, person_name, write_company


def test_the_same_seed_writes_the_same_company(tmp_path: Path) -> None:
    """Files and questions; another seed, others."""
    one, same, other = (
        write_company(tmp_path / name, 120, 10, seed) for name, seed in zip("abc", (1, 1, 2), strict=True)
    )
    assert one == same != other
    texts = [(tmp_path / name / "03" / "000043.md").read_text() for name in "abc"]
    assert texts[0] == texts[1] != texts[2]


def test_each_question_has_an_answer_that_its_asker_may_read(tmp_path: Path) -> None:
    """The note of that title stands in a folder that its asker may view, and holds the question's words."""
    for asked in write_company(tmp_path / "notes", 400, 60, seed=3):
        number = int(asked.title.split()[-1])
        folder = number % 40
        note = (tmp_path / "notes" / f"{folder:02}" / f"{number:06}.md").read_text()
        assert note.startswith(f"# {asked.title}\n")
        assert set(asked.text.split()) <= set(note.lower().replace(".", "").split())
        assert asked.person in [person_name(reader) for reader in access_of(folder).readers()]


def test_access_files_say_what_readers_are_computed_from(tmp_path: Path) -> None:
    """Groups and lists as written, read naively, give the same readers; several distinct lists, nobody sees all."""
    write_company(tmp_path / "notes", 40, 1, seed=1)
    groups = _read(tmp_path / "notes")["groups"]
    lists, seen = set(), dict.fromkeys(people(), 0)
    for number in range(40):
        said = _read(tmp_path / "notes" / f"{number:02}")
        viewers, denied = _members(groups, said["viewers"]), _members(groups, said.get("denied", {}))
        expected = {person_name(reader) for reader in access_of(number).readers()}
        assert viewers - denied == expected != set()
        lists.add(yaml.safe_dump(said))
        for person in expected:
            seen[person] += 1
    assert len(lists) > 20
    assert min(seen.values()) > 8 and max(seen.values()) < 25


def _read(folder: Path) -> dict:
    return yaml.safe_load((folder / ".cortex-access.yaml").read_text())


def _members(groups: dict, named: dict) -> set[str]:
    if named.get("everyone"):
        return set(people())
    members = set(named.get("users", ()))
    for group in named.get("groups", ()):
        members |= _members(groups, groups[group])
    return members
