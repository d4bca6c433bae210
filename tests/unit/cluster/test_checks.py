"""The checks of `cortex doctor`."""

import os
from pathlib import Path

import pytest

from cluster.checks import check_home, check_resources, check_running, check_safety, check_software
from cluster.findings import Finding, Level
from cluster.state import EngineState, Phase, ProcessRecord, RunState
from cortex.settings import Settings


def troubles(findings: list[Finding]) -> list[tuple[str, Level, int]]:
    return [(f.name, f.level, f.exit_code) for f in findings if f.level is not Level.OK]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, []),
        ({"http_host": "0.0.0.0", "oidc_issuers": "https://id=/k.json", "metrics_token": "t"}, []),
        (
            {"http_host": "0.0.0.0", "metrics_token": "t"},
            [("exposure", Level.PROBLEM, 8)],
        ),
        (
            {"http_host": "0.0.0.0", "metrics_token": "t", "oidc_issuers": "i=f", "is_demo": True},
            [("demo", Level.PROBLEM, 8)],
        ),
        ({"http_host": "10.0.0.5", "oidc_issuers": "i=f"}, [("metrics", Level.WARNING, 0)]),
        ({"spicedb_url": "10.0.0.9:50051"}, [("spicedb address", Level.PROBLEM, 8)]),
        ({"spicedb_url": "10.0.0.9:50051", "spicedb_tls": True}, []),
        ({"spicedb_url": "127.0.0.1:50051"}, []),
        ({"qdrant_url": "http://10.0.0.9:6333"}, [("qdrant address", Level.WARNING, 0)]),
        ({"qdrant_url": "https://qdrant.example", "llm_url": "http://localhost:8000/v1"}, []),
    ],
)
def test_unsafe_settings_are_found(
    tmp_path: Path, given: dict[str, object], expected: list[tuple[str, Level, int]]
) -> None:
    """Each setting that lets the wrong people in is named; safe ones are not."""
    assert troubles(list(check_safety(Settings(home=tmp_path, **given)))) == expected  # type: ignore[arg-type]


def test_an_open_home_is_a_problem_and_the_remedy_closes_it(tmp_path: Path) -> None:
    """A home that others may read is found, with the files that are open."""
    settings = Settings(home=tmp_path / "home")
    assert troubles(list(check_home(settings))) == []
    settings.keys_path.mkdir(parents=True)
    settings.home.chmod(0o700)
    settings.keys_path.chmod(0o700)
    (settings.keys_path / "postgres.secret").touch(mode=0o644)
    (settings.keys_path / "postgres.secret").chmod(0o644)
    [finding] = list(check_home(settings))
    assert (finding.level, finding.exit_code) == (Level.PROBLEM, 8)
    assert "postgres.secret" in finding.said and "chmod" in finding.remedy


def test_a_full_disk_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Less free space than an empty Cortex needs is a problem with a remedy."""
    monkeypatch.setattr("cluster.checks.LEAST_DISK_BYTES", 10**18)
    found = {f.name: f for f in check_resources(Settings(home=tmp_path / "a" / "b"))}
    assert (found["disk"].level, found["disk"].exit_code, bool(found["disk"].remedy)) == (
        Level.PROBLEM,
        8,
        True,
    )


def test_a_missing_library_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without SpiceDB's library the doctor says so and how to get it."""
    monkeypatch.setenv("CORTEX_SPICEDB_LIBRARY", str(tmp_path / "none.so"))
    found = {f.name: f for f in check_software(Settings(home=tmp_path))}
    assert (found["spicedb library"].level, found["spicedb library"].remedy) == (
        Level.PROBLEM,
        "run install.sh again",
    )
    assert found["embedding model"].level is Level.OK


def test_what_runs_is_judged_engine_by_engine(tmp_path: Path) -> None:
    """A killed supervisor is a warning; under a running one, each engine that is not ready is a problem."""
    settings = Settings(home=tmp_path, http_port=0)
    assert troubles(list(check_running(settings))) == []
    settings.state_path.parent.mkdir()
    engines = {
        "postgres": EngineState(Phase.READY, 0),
        "ray": EngineState(Phase.FAILED, 0, reason="no memory"),
    }
    RunState(ProcessRecord.of(os.getpid()), engines, {}).write(settings.state_path)
    assert troubles(list(check_running(settings))) == [("ray", Level.PROBLEM, 7)]
    RunState(ProcessRecord(os.getpid(), 1.0), engines, {}).write(settings.state_path)
    assert troubles(list(check_running(settings))) == [("engines", Level.WARNING, 0)]
