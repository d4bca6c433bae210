"""Who acts: the person who runs a command on this machine, as the audit names them."""

from __future__ import annotations

import getpass


def operator() -> str:
    """Name who runs a command on this machine, for the audit."""
    try:
        return f"operator:{getpass.getuser()}"
    except (KeyError, OSError):
        return "operator"
