"""The parser child: reads files from its socket one by one, parses each under hard limits, and answers.

Started by `stages/parse.py` as `python -m data_jobs.parsers.child FD MEMORY_BYTES MODULE…`. Three limits hold even
if the parent dies or C code never returns: an address-space cap, a kernel alarm per file, and no way to write files,
open sockets or start programs.
"""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
import socket
import sys
from importlib import import_module
from typing import Any

from cortex.errors import Unparsable
from data_jobs.parsers.failures import FailureCode, ParseFailure
from data_jobs.parsers.registry import parse
from data_jobs.parsers.wire import encode_result, pack, unpack

# The parent gives up first; the alarm is for a child whose parent is gone.
_ALARM_GRACE_S = 5.0
_MAX_OUTPUT_BYTES = 1_000_000  # libraries may complain to the output file without end
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_FORBIDDEN = ("socket.connect", "socket.bind", "socket.getaddrinfo", "subprocess.", "os.system", "os.exec", "os.fork",
              "os.posix_spawn", "os.remove", "os.rename", "shutil.", "urllib.", "ftplib.", "smtplib.")  # fmt: skip


def main() -> None:
    """Serve until the parent closes the socket."""
    fd, memory_bytes, *modules = sys.argv[1:]
    faulthandler.enable()
    connection = socket.socket(fileno=int(fd))
    for module in modules:
        import_module(module)
    _confine(int(memory_bytes))
    _send(connection, {"is_ready": True}, b"")
    while (request := _next(connection)) is not None:
        head, content = request
        signal.setitimer(signal.ITIMER_REAL, float(head["timeout_s"]) + _ALARM_GRACE_S)
        result = _parse(content, str(head["name"]), str(head["media_type"]))
        del request, content
        _send(connection, *encode_result(result))
        signal.setitimer(signal.ITIMER_REAL, 0)


def _parse(content: bytes, name: str, media_type: str) -> Any:
    try:
        return parse(content, name, media_type)
    except Unparsable as error:
        return ParseFailure(FailureCode(error.error_code), error.message, error.hint)
    except MemoryError:
        return ParseFailure(FailureCode.OUT_OF_MEMORY, "parsing it takes more memory than is allowed")
    except RecursionError:
        return ParseFailure(FailureCode.CORRUPT, "it is nested too deeply")
    except Exception as error:  # noqa: BLE001  the outermost loop: parsers of broken files raise anything at all
        return ParseFailure(FailureCode.CORRUPT, f"its parser stopped at {_where(error)}")


def _where(error: BaseException) -> str:
    """Say which error arose where, without its message: that may quote the file."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" in {trace.tb_frame.f_code.co_name}, line {trace.tb_lineno}" if trace else ""
    return f"{type(error).__name__}{place}"


def _confine(memory_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_MAX_OUTPUT_BYTES, _MAX_OUTPUT_BYTES))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.addaudithook(_refuse)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse what no parser needs: the network, other programs, changes to files."""
    if event == "open" and arguments[2] & _WRITES:
        raise PermissionError("a parser may not write files")
    if event.startswith(_FORBIDDEN):
        raise PermissionError(f"a parser may not call {event}")


def _send(connection: socket.socket, head: dict[str, Any], tail: bytes) -> None:
    for piece in pack(head, tail):
        connection.sendall(piece)


def _next(connection: socket.socket) -> tuple[dict[str, Any], bytes] | None:
    try:
        return unpack(lambda n: _read(connection, n))
    except EOFError:
        return None


def _read(connection: socket.socket, n: int) -> bytes:
    buffer = bytearray(n)
    view, at = memoryview(buffer), 0
    while at < n:
        got = connection.recv_into(view[at:])
        if got == 0:
            raise EOFError
        at += got
    return bytes(buffer)


if __name__ == "__main__":
    main()
