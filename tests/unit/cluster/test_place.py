"""The home's ports, secrets and files."""

import json
import socket
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.place import PORTS, Place, choose_port, is_free, private_folder, read_ports
from cortex.errors import Misconfigured
from cortex.settings import Settings


def place(home: Path, **settings: object) -> Place:
    return Place(Settings(home=home, **settings))  # type: ignore[arg-type]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@given(kept=st.sampled_from(PORTS), taken=st.sets(st.sampled_from(PORTS), max_size=50))
def test_a_kept_port_is_kept_exactly_while_it_is_free(kept: int, taken: set[int]) -> None:
    """A free kept port stays; a taken one is replaced by a free port of the range."""
    port = choose_port(kept, (), lambda candidate: candidate not in taken)
    assert port not in taken
    assert port in PORTS
    assert (port == kept) == (kept not in taken)


def test_a_port_of_another_engine_is_not_taken() -> None:
    """Two engines never get the same port, even when a damaged file says so."""
    assert choose_port(PORTS[0], {PORTS[0]}, lambda candidate: True) != PORTS[0]


def test_no_free_port_is_an_error_with_a_remedy() -> None:
    """When every port is taken, the error says what to do."""
    with pytest.raises(Misconfigured) as caught:
        choose_port(None, (), lambda candidate: False)
    assert (caught.value.error_code, bool(caught.value.hint)) == ("port.none_free", True)


def test_ports_survive_the_supervisor(tmp_path: Path) -> None:
    """A later supervisor in the same home gets the same ports."""
    first = {name: place(tmp_path).port(name) for name in ("postgres", "qdrant")}
    assert {name: place(tmp_path).port(name) for name in ("qdrant", "postgres")} == first


def test_a_taken_port_is_chosen_anew_once(tmp_path: Path) -> None:
    """When another program listens on the kept port, a new one is chosen and kept."""
    before = place(tmp_path).port("postgres")
    with socket.create_server(("127.0.0.1", before)):
        after = place(tmp_path).port("postgres")
    assert after != before
    assert place(tmp_path).port("postgres") == after


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"postgres": "x"}', "null"])
def test_a_damaged_port_file_means_none(tmp_path: Path, text: str) -> None:
    """A port file that cannot be read is no reason not to start."""
    path = tmp_path / "ports.json"
    path.write_text(text)
    assert read_ports(path) == {}


def test_a_secret_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    """A secret stays the same, is long, and only its owner can read it."""
    secret = place(tmp_path).secret("postgres")
    path = tmp_path / "keys" / "postgres.secret"
    assert (place(tmp_path).secret("postgres"), mode(path), mode(path.parent)) == (secret, 0o600, 0o700)
    assert len(secret) >= 43  # 256 bits


def test_a_home_that_cannot_be_made_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    """A home below a file is refused with a hint."""
    (tmp_path / "file").touch()
    with pytest.raises(Misconfigured) as caught:
        private_folder(tmp_path / "file" / "home")
    assert (caught.value.error_code, "CORTEX_HOME" in caught.value.hint) == ("home.unusable", True)


def test_a_taken_default_web_port_moves_and_a_set_one_is_refused(tmp_path: Path) -> None:
    """The default port gives way to a free one; a port that the operator set is an error when it is taken."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        with pytest.raises(Misconfigured, match=str(taken)):
            place(tmp_path, http_port=taken).http_port()
        assert not is_free(taken)
    assert place(tmp_path, http_port=0).http_port() in PORTS
    assert json.loads((tmp_path / "run" / "ports.json").read_text()).keys() == {"http"}
