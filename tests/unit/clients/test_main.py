"""The `cortex` command lists everything without importing it, and imports only what is called."""

import subprocess
import sys
from importlib.metadata import EntryPoint

from click.testing import CliRunner

from clients.cli.main import SECTIONS, main, summary


def test_help_names_every_section() -> None:
    """`cortex --help` lists each section with its commands."""
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    assert [line.rstrip(":") for line in result.output.splitlines() if line.rstrip(":") in SECTIONS] == list(
        SECTIONS
    )


def test_help_imports_no_command() -> None:
    """Listing the commands imports none of the folders that offer them, nor anything slow."""
    code = (
        "import sys; from clients.cli.main import main; main(['--help'], standalone_mode=False);"
        "slow = {'ray', 'psycopg', 'qdrant_client', 'numpy', 'pydantic', 'httpx', 'cluster', 'data_jobs', 'eval'};"
        "sys.exit(', '.join(slow & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_summary_is_the_docstring() -> None:
    """The help line of a command is its docstring's first line, read from source."""
    assert summary(EntryPoint("x", "clients.cli.main:main", "g")) == (main.help or "").partition("\n")[0]


def test_every_command_has_a_help_line() -> None:
    """A command that its folder takes from another file has its help line too."""
    listed = CliRunner().invoke(main, ["--help"]).output
    assert "(not installed)" not in listed
    assert summary(EntryPoint("x", "data_jobs.commands:nothing", "g")) == "(not installed)"


def test_unknown_command_exits_with_two() -> None:
    """A misspelt command is an input error."""
    assert CliRunner().invoke(main, ["serch"]).exit_code == 2
