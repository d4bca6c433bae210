"""The sample company: its files, its chat, its access lists and its questions fit together."""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.connectors.slack_exports import connector, failures, left_out, spoken
from tests.unit.connectors.slack_exports import items as slack_items

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
COMPANY = EXAMPLES / "sample_company"
CHAT = EXAMPLES / "sample_chat"
QUESTIONS: dict[str, Any] = yaml.safe_load((EXAMPLES / "questions.yaml").read_text(encoding="utf-8"))
BUILT = (
    "contracts/meridian-supply-agreement.pdf",
    "contracts/contractor-agreement-weber.docx",
    "sales/lumi-3-launch.pptx",
    "finance/budget-2026.xlsx",
    "finance/salaries-2026.xlsx",
)


def items() -> list[Path]:
    return [path for path in sorted(COMPANY.rglob("*")) if path.is_file() and not path.name.startswith(".")]


def text_of(name: str) -> str:
    """Return the text of a document of the company: a file's, or a thread's; empty for an office file."""
    if name.startswith("slack:"):
        return "\n".join(text for _, text in spoken(slack_items(CHAT)[name.removeprefix("slack:")]))
    path = COMPANY / name
    is_text = path.suffix in {".md", ".html", ".c", ".csv", ".eml", ".vtt"}
    return path.read_text(encoding="utf-8") if is_text else ""


def content(data: bytes) -> dict[str, str]:
    """Name the parts of a file with their hashes; an office file has many (its compression may differ by machine)."""
    if not data.startswith(b"PK"):
        return {"": hashlib.sha256(data).hexdigest()}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}


def test_company_is_small_and_varied() -> None:
    """Some fifty items, below 1.5 MB, of every kind of file that the demo shows."""
    assert 45 <= len(items()) <= 60
    assert sum(path.stat().st_size for path in items()) < 1_500_000
    expected = {
        ".md",
        ".html",
        ".py",
        ".c",
        ".csv",
        ".xlsx",
        ".pdf",
        ".docx",
        ".pptx",
        ".eml",
        ".vtt",
    }
    assert {path.suffix for path in items()} == expected


def test_binaries_come_from_their_sources(tmp_path: Path) -> None:
    """The committed PDF and office files hold what the script builds from `examples/sources`."""
    script = EXAMPLES / "build_binaries.py"
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True, timeout=120, capture_output=True)
    for name in BUILT:
        assert content((tmp_path / name).read_bytes()) == content((COMPANY / name).read_bytes()), name


@pytest.mark.parametrize("question", QUESTIONS["questions"], ids=lambda question: question["id"])
def test_question_is_well_formed(question: dict[str, Any]) -> None:
    """Each question is asked by someone with an account and names files that exist, or abstains."""
    people = set(QUESTIONS["people"])
    assert question["asks"] in people
    assert set(question.get("hidden_from", [])) <= people - {question["asks"]}
    assert bool(question.get("documents")) != bool(question.get("abstains"))
    threads = {f"slack:{external_id}" for external_id in slack_items(CHAT)}
    for name in question.get("documents", []):
        assert name in threads or (COMPANY / name).is_file(), name


def test_text_documents_say_the_phrase() -> None:
    """Where the answer stands in a text file, the expected words stand there on one line or across a line break."""
    for question in QUESTIONS["questions"]:
        said = [
            question["phrase"] in " ".join(text.split())
            for text in map(text_of, question.get("documents", []))
            if text
        ]
        assert not said or any(said), question["id"]


def test_demo_asks_three_questions_as_two_people() -> None:
    """Two people ask three questions, and one of them is refused what the other was told."""
    asked = [question for question in QUESTIONS["questions"] if question.get("demo")]
    assert len(asked) == 3
    assert len({question["asks"] for question in asked}) == 2
    assert asked[0]["text"] == asked[1]["text"]
    assert asked[1]["asks"] in asked[0]["hidden_from"]


def test_the_chat_is_a_whole_export() -> None:
    """Nineteen threads and a day with one message beside them; who came and left is left out, and nothing has failed."""
    assert (len(slack_items(CHAT)), failures(CHAT)) == (20, [])
    assert left_out(CHAT) == {"message.channel_join": 3, "message.channel_leave": 1}
    days = [external_id for external_id in slack_items(CHAT) if "." not in external_id]
    assert days == ["G0SUPPORT/2025-04-16"]


def test_channels_are_for_those_who_are_in_them() -> None:
    """Of the four people, each sees these channels: Glacier is for leadership, firmware not for who has left it."""
    source = connector(CHAT)
    members: dict[str, set[str]] = {}
    for edge in source.memberships():
        members.setdefault(edge.group_name, set()).add(edge.member.name.removesuffix("@tarnvik.example"))
    seen: dict[str, set[str]] = {}
    for item in slack_items(CHAT).values():
        people = {name for grant in source.acls(item).viewers for name in members[grant.name]}
        seen.setdefault(item.meta["channel"], set()).update(people & {"mara", "tomas", "priya", "jonas"})
    assert seen == {
        "general": {"mara", "tomas", "priya", "jonas"},
        "platform": {"mara", "tomas", "priya", "jonas"},
        "firmware": {"mara", "jonas"},
        "support": {"priya", "mara", "jonas"},
        "finance": {"tomas"},
        "project-glacier": {"mara", "tomas"},
    }


def test_duplicates_are_there() -> None:
    """One ticket exists twice byte for byte, and one handbook page twice with another footer."""
    hashes = [hashlib.sha256(path.read_bytes()).hexdigest() for path in items()]
    assert len(hashes) - len(set(hashes)) == 1
    page = (COMPANY / "handbook/how-we-work.md").read_text(encoding="utf-8").split("---\n", 2)[2].strip()
    assert page in (COMPANY / "handbook/archive/how-we-work-export-2025-03.md").read_text(encoding="utf-8")
