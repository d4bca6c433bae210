"""Which folders may be loaded, and how a load that is not in the catalog yet is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex.errors import InputError
from cortex.settings import Settings
from serve_apps.folders import folder_source, readable_folder


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    (tmp_path / "home" / "keys").mkdir(parents=True)
    return Settings(home=tmp_path / "home")


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("docs", "folder.relative"),
        ("../docs", "folder.relative"),
        ("/nowhere/at/all", "source.unreadable"),
        ("{root}/file.txt", "source.unreadable"),
        ("{root}/loop", "source.unreadable"),
        ("{root}/home", "folder.own"),
        ("{root}/home/keys", "folder.own"),
        ("{root}", "folder.own"),
        ("{root}/docs/../home/keys", "folder.own"),
        ("{root}/link", "folder.own"),
        ("/", "folder.own"),
    ],
)
def test_some_folders_are_refused(tmp_path: Path, home: Settings, path: str, code: str) -> None:
    """Relative, missing and looping paths are refused, and whatever leads to Cortex's own keys, by links too."""
    (tmp_path / "file.txt").touch()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "link").symlink_to(home.home)
    (tmp_path / "docs").mkdir()
    with pytest.raises(InputError) as error:
        readable_folder(home, path.format(root=tmp_path))
    assert error.value.error_code == code


def test_a_folder_is_one_source_whatever_the_way_to_it(tmp_path: Path, home: Settings) -> None:
    """A link to a folder is the same source as the folder."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "docs")
    roots = [readable_folder(home, str(tmp_path / name)) for name in ("docs", "link", "docs/../docs")]
    assert len({folder_source("default", root, "default").source_id for root in roots}) == 1
