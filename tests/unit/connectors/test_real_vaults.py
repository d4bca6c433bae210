"""Real vaults: every link is found and resolved as a second, independent reading says, each difference explained."""

from __future__ import annotations

import tarfile
from collections import Counter
from pathlib import Path

import pytest

from cortex.edges import ResolvedEdge
from tests.unit.connectors.vaults import Vault, read_vault
from tests.unit.data_jobs.real_files import DATA

VAULTS = DATA / "vaults"
pytestmark = [
    pytest.mark.shared_data,
    pytest.mark.skipif(not VAULTS.is_dir(), reason=f"no vaults in {DATA}"),
]


def listed(path: Path) -> set[tuple[str, str]]:
    """Read (source, target) pairs under a header."""
    rows = [line.split("\t") for line in path.read_text().splitlines()[1:]]
    return {(row[0], row[1]) for row in rows}


def pairs(edges: list[ResolvedEdge]) -> set[tuple[str, str]]:
    return {(edge.external_id, edge.target_external_id) for edge in edges if edge.target_external_id}


def dangling(edges: list[ResolvedEdge]) -> set[tuple[str, str]]:
    return {(edge.external_id, edge.edge.target) for edge in edges if edge.state == "dangling"}


def wikilinks(vault: Vault, root: Path) -> list[ResolvedEdge]:
    """The edges that are written with double brackets."""
    files = {document.external_id: (root / document.external_id).read_bytes() for document in vault.documents}
    return [
        edge
        for edge in vault.edges
        if files[edge.external_id][edge.edge.byte_start :].startswith((b"[[", b"![["))
    ]


def test_foam() -> None:
    """All 179 wikilink edges are found and no other; Markdown links, which that list leaves out, give twelve more."""
    root = VAULTS / "foam_docs" / "files"
    vault = read_vault(root)
    expected = listed(VAULTS / "foam_docs" / "edges.tsv")
    found = wikilinks(vault, root)
    assert (vault.failed, len(vault.documents), len(expected)) == ({}, 86, 179)
    assert expected - pairs(vault.edges) == set()
    # `[[publishing]]` has a definition, which goes before the name: that list took it for dangling.
    assert pairs(found) - expected == set()
    more = pairs(vault.edges) - expected
    # Written as `[text](note.md)`, in the three pages for beginners.
    assert Counter(source for source, _ in more) == {
        "user/getting-started/first-workspace.md": 5,
        "user/getting-started/navigation.md": 4,
        "user/getting-started/note-taking-in-foam.md": 3,
    }
    # Files outside the vault, a definition that is out of date, and one page that does not exist.
    assert dangling(vault.edges) == {
        ("dev/contribution-guide.md", "../../CONTRIBUTING.md"),
        ("dev/design/static-site-publishing-research.md", "../../user/publishing/publishing.md"),
        ("index.md", "LICENSE.txt"),
        ("principles.md", "LICENSE.txt"),
        ("user/tools/cli/search.md", "cli-grep"),
    }


def test_the_handbook(tmp_path: Path) -> None:
    """All 2,270 page-to-page links are found; more are only links of a page to itself and five that the list missed."""
    with tarfile.open(VAULTS / "handbook_sgh" / "handbook-md.tar.gz") as packed:
        packed.extractall(tmp_path)
    vault = read_vault(tmp_path)
    expected = listed(VAULTS / "handbook_sgh" / "edges.tsv")
    found = pairs(vault.edges)
    # 886 pages, two of them in a hidden folder.
    assert (vault.failed, len(vault.documents), len(expected)) == ({}, 884, 2270)
    assert expected - found == set()
    more = found - expected
    assert len({(source, target) for source, target in more if source == target}) == 26
    team = "content/departments/people-talent/talent/process/engineering_interview_process_candidates.md"
    assert {(source, target) for source, target in more if source != target} == {
        # a folder, which means its README
        ("README.md", "data/README.md"),
        # a space written as %20
        ("content/departments/marketing/comms/index.md", "content/departments/marketing/comms/field marketing.md"),
        # links by definition: `[text][label]`
        ("content/departments/security/index.md", team),
        ("content/departments/security/security-risk-management-process.md", "content/team/index.md"),
        ("content/departments/security/tooling/checkov.md", "content/departments/security/vulnerability-management-process.md"),
    }  # fmt: skip
    assert len(dangling(vault.edges)) == 9


def test_org_roam() -> None:
    """Every `id:` link and the link by title resolve; the one empty file is listed."""
    vault = read_vault(VAULTS / "org_roam_fixtures" / "files")
    assert (vault.failed, len(vault.documents)) == ({"markdown.md": "document.empty"}, 18)
    by_id = [edge for edge in vault.edges if edge.edge.kind == "id"]
    assert {edge.state for edge in by_id} == {"resolved"}
    assert len(by_id) == 4
    assert dangling(vault.edges) == set()
    assert [edge.target_external_id for edge in vault.edges if edge.edge.target == "CAPF Node 1"] == [
        "capfs.org"
    ]
