"""SpiceDB's own library, in process: requests and answers are protobuf bytes that this file does not open."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from cortex.errors import Misconfigured

_PERMISSIONS = "/authzed.api.v1.PermissionsService"
_SCHEMA = "/authzed.api.v1.SchemaService"

# gRPC method -> function of the library. The other methods stream, over a socket that the library opens.
UNARY = {
    f"{_PERMISSIONS}/CheckPermission": "spicedb_permissions_check_permission",
    f"{_PERMISSIONS}/CheckBulkPermissions": "spicedb_permissions_check_bulk_permissions",
    f"{_PERMISSIONS}/WriteRelationships": "spicedb_permissions_write_relationships",
    f"{_PERMISSIONS}/DeleteRelationships": "spicedb_permissions_delete_relationships",
    f"{_PERMISSIONS}/ExpandPermissionTree": "spicedb_permissions_expand_permission_tree",
    f"{_SCHEMA}/ReadSchema": "spicedb_schema_read_schema",
    f"{_SCHEMA}/WriteSchema": "spicedb_schema_write_schema",
}
_ERROR = re.compile(r"rpc error: code = (?P<code>\w+) desc = (?P<message>.*)", re.DOTALL)
_BYTES_OUT = ctypes.POINTER(ctypes.c_void_p)
_CALL_ARGUMENTS = [
    ctypes.c_ulonglong,
    ctypes.c_void_p,
    ctypes.c_int,
    _BYTES_OUT,
    ctypes.POINTER(ctypes.c_int),
    _BYTES_OUT,
]


class CallFailed(Exception):
    """SpiceDB refused a call: `code` is gRPC's name of the status (`InvalidArgument`)."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def library_path() -> Path:
    """Find the library: `CORTEX_SPICEDB_LIBRARY`, else where install.sh puts it; raises Misconfigured."""
    given = os.environ.get("CORTEX_SPICEDB_LIBRARY")
    path = Path(given) if given else Path(sys.prefix) / "share/engines/libspicedb.so"
    if not path.is_file():
        raise Misconfigured(
            f"SpiceDB's library is missing: {path}", code="spicedb.missing", hint="run install.sh again"
        )
    return path


class SpiceDBLibrary:
    """One in-memory SpiceDB. Calls are thread-safe and release Python's lock while they run."""

    def __init__(self, path: Path, socket_folder: Path) -> None:
        os.environ["TMPDIR"] = str(socket_folder)  # where the library puts its socket
        try:
            self._library = ctypes.CDLL(str(path))
        except OSError as error:
            raise Misconfigured(
                f"SpiceDB's library cannot be loaded: {error}", code="spicedb.unusable"
            ) from error
        self._declare()
        started = self._library.spicedb_start(json.dumps({"metrics_enabled": False}).encode())
        answer = self._json(started)
        if not answer.get("success"):
            raise Misconfigured(f"SpiceDB does not start: {answer.get('error')}", code="spicedb.unusable")
        self._handle = int(answer["data"]["handle"])
        scheme = "unix:" if answer["data"]["streaming_transport"] == "unix" else ""
        self.streaming_address = f"{scheme}{answer['data']['streaming_address']}"

    def call(self, method: str, request: bytes) -> bytes:
        """Answer one unary call; raises CallFailed."""
        answer, size, failure = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_void_p()
        getattr(self._library, UNARY[method])(
            self._handle,
            request,
            len(request),
            ctypes.byref(answer),
            ctypes.byref(size),
            ctypes.byref(failure),
        )
        if failure.value:
            message = ctypes.string_at(failure.value).decode(errors="replace")
            self._library.spicedb_free(failure)
            match = _ERROR.match(message)
            raise CallFailed(match["code"], match["message"]) if match else CallFailed("Unknown", message)
        if not answer.value:
            return b""
        content = ctypes.string_at(answer.value, size.value)
        self._library.spicedb_free_bytes(answer)
        return content

    def close(self) -> None:
        """Forget every tuple and end its threads."""
        self._json(self._library.spicedb_dispose(self._handle))

    def _declare(self) -> None:
        """Tell ctypes what the library's functions take and return."""
        library = self._library
        library.spicedb_start.argtypes, library.spicedb_start.restype = [ctypes.c_char_p], ctypes.c_void_p
        library.spicedb_dispose.argtypes, library.spicedb_dispose.restype = (
            [ctypes.c_ulonglong],
            ctypes.c_void_p,
        )
        for name in ("spicedb_free", "spicedb_free_bytes"):
            getattr(library, name).argtypes, getattr(library, name).restype = [ctypes.c_void_p], None
        for name in UNARY.values():
            getattr(library, name).argtypes, getattr(library, name).restype = _CALL_ARGUMENTS, None

    def _json(self, pointer: int | None) -> Any:
        """Read a JSON document that the library allocated, and free it."""
        if not pointer:
            return {}
        text = ctypes.string_at(pointer).decode()
        self._library.spicedb_free(pointer)
        return json.loads(text)


def make_socket_folder(port: int) -> Path:
    """Make an empty folder for the library's socket that only this account may enter.

    Not in the home: a socket's path holds 107 bytes. Named by the port, so that a killed engine leaves no litter.
    """
    folder = Path(tempfile.gettempdir()) / f"cortex-spicedb-{os.geteuid()}-{port}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
        raise Misconfigured(f"{folder} belongs to someone else", code="spicedb.unusable")
    folder.chmod(0o700)
    for left in folder.iterdir():
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    return folder
