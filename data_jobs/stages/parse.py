"""Parse: the bytes of one file -> `ParsedBody` or the reason why not, in a child process with bounded time and memory.

Reads a file's content and name, writes its body, blocks and inner metadata. One child serves one stage instance; it
is replaced after a crash, a time-out, a file that took much memory, or enough files. A stage is not thread-safe.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import IO, Any, Self

import psutil

from cortex.documents import ParsedBody
from cortex.settings import Settings
from cortex.telemetry import event
from data_jobs.parsers.failures import FailureCode, ParseFailure
from data_jobs.parsers.wire import BrokenWire, decode_result, pack, unpack

# A child that leaks is replaced before it matters; starting one takes about 0.15 s.
_FILES_PER_CHILD = 500
_POLL_S = 0.05
# Allocators and threads reserve far more address space than they use; the child needs none of that.
_LEAN = {
    "MALLOC_ARENA_MAX": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}


# What C and C++ libraries print when an allocation fails and they give up.
_NO_MEMORY = re.compile("bad_alloc|out of memory|MemoryError|cannot allocate", re.IGNORECASE)


class _Exceeded(Exception):
    """The child passed a limit and must end."""

    def __init__(self, failure: ParseFailure) -> None:
        self.failure = failure


@dataclass(slots=True)
class _Child:
    process: subprocess.Popen[bytes]
    connection: socket.socket
    errors: IO[bytes]
    n_files: int = 0
    peak_rss_bytes: int = 0
    peak_address_bytes: int = 0
    _usage: psutil.Process = field(init=False)

    def __post_init__(self) -> None:
        self._usage = psutil.Process(self.process.pid)

    def rss_bytes(self) -> int:
        """Resident memory now; 0 when the child is gone."""
        try:
            memory = self._usage.memory_info()
        except psutil.NoSuchProcess:
            return 0
        self.peak_rss_bytes = max(self.peak_rss_bytes, memory.rss)
        self.peak_address_bytes = max(self.peak_address_bytes, memory.vms)
        return int(memory.rss)


class ParseStage:
    """Parses files one by one; bad content is a `ParseFailure`, never an exception.

    `extra_parsers` names modules that register more formats; the child imports them before it is confined.
    """

    def __init__(self, settings: Settings, extra_parsers: tuple[str, ...] = ()) -> None:
        self._timeout_s = settings.parse_timeout_s
        self._memory_bytes = settings.parse_memory_bytes
        self._max_file_bytes = settings.max_file_bytes
        self._extra_parsers = extra_parsers
        self._child: _Child | None = None
        self.peak_rss_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def parse(self, content: bytes, name: str, media_type: str = "") -> ParsedBody | ParseFailure:
        """Parse one file. `name` gives the extension, `media_type` helps where there is none."""
        if len(content) > self._max_file_bytes:
            reason = f"it has {len(content):,} bytes; the limit is {self._max_file_bytes:,}"
            return ParseFailure(
                FailureCode.TOO_LARGE, reason, "raise CORTEX_MAX_FILE_BYTES, or split the file"
            )
        child = self._ready_child()
        try:
            result = self._ask(child, content, name, media_type)
        except _Exceeded as exceeded:
            self._end(child)
            return exceeded.failure
        except (OSError, EOFError, BrokenWire):
            return self._crashed(child)
        child.n_files += 1
        self._retire_if_worn(child, result)
        return result

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._end(self._child)

    def _ready_child(self) -> _Child:
        if self._child is not None and self._child.process.poll() is not None:
            self._end(self._child)  # it died between two files
        if self._child is None:
            self._child = self._start()
        return self._child

    def _start(self) -> _Child:
        ours, theirs = socket.socketpair()
        errors = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the child
        arguments = [str(theirs.fileno()), str(self._memory_bytes), *self._extra_parsers]
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", "data_jobs.parsers.child", *arguments],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
                env={**os.environ, **_LEAN},
            )
        return _Child(process, ours, errors)

    def _ask(self, child: _Child, content: bytes, name: str, media_type: str) -> ParsedBody | ParseFailure:
        deadline = time.monotonic() + self._timeout_s
        head: dict[str, Any] = {"name": name, "media_type": media_type, "timeout_s": self._timeout_s}
        child.connection.settimeout(self._timeout_s)
        try:
            for piece in pack(head, content):
                child.connection.sendall(piece)
            return decode_result(*unpack(lambda n: self._read(child, n, deadline)))
        except TimeoutError:
            raise _Exceeded(self._timed_out()) from None

    def _read(self, child: _Child, n: int, deadline: float) -> bytes:
        """Read exactly n bytes before the deadline, watching the child's memory meanwhile."""
        buffer = bytearray(n)
        view, at = memoryview(buffer), 0
        child.connection.settimeout(_POLL_S)
        while at < n:
            try:
                got = child.connection.recv_into(view[at:])
            except TimeoutError:
                self._check(child, deadline)
                continue
            if got == 0:
                raise EOFError
            at += got
        return bytes(buffer)

    def _check(self, child: _Child, deadline: float) -> None:
        if child.rss_bytes() > self._memory_bytes:
            raise _Exceeded(self._out_of_memory())
        if time.monotonic() > deadline:
            raise _Exceeded(self._timed_out())

    def _crashed(self, child: _Child) -> ParseFailure:
        """Say how a child ended by itself: the kernel's alarm, memory that C code could not get, or a crash."""
        status = _wait(child.process)
        child.errors.seek(0)
        trace = child.errors.read()[-2_000:].decode(errors="replace")
        is_starved = (
            child.peak_address_bytes > 0.8 * self._memory_bytes or _NO_MEMORY.search(trace) is not None
        )
        self._end(child)
        if status.signal == signal.SIGALRM:
            return self._timed_out()
        if is_starved:
            return self._out_of_memory()
        event("parse.crashed", signal=status.signal, exit_code=status.exit_code, trace=trace)
        cause = f"signal {status.signal}" if status.signal else f"exit code {status.exit_code}"
        return ParseFailure(FailureCode.CRASHED_PARSER, f"its parser crashed ({cause})")

    def _retire_if_worn(self, child: _Child, result: ParsedBody | ParseFailure) -> None:
        is_out_of_memory = isinstance(result, ParseFailure) and result.code is FailureCode.OUT_OF_MEMORY
        is_large = child.rss_bytes() > self._memory_bytes // 2
        if is_out_of_memory or is_large or child.n_files >= _FILES_PER_CHILD:
            self._end(child)

    def _end(self, child: _Child) -> None:
        self.peak_rss_bytes = max(self.peak_rss_bytes, child.peak_rss_bytes)
        self._child = None
        child.connection.close()
        if child.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.process.pid, signal.SIGKILL)
            child.process.wait()
        child.errors.close()

    def _timed_out(self) -> ParseFailure:
        reason = f"parsing it takes longer than {self._timeout_s:g} s"
        return ParseFailure(FailureCode.TIMEOUT, reason, "raise CORTEX_PARSE_TIMEOUT_S, or split the file")

    def _out_of_memory(self) -> ParseFailure:
        reason = f"parsing it takes more than {self._memory_bytes:,} bytes of memory"
        return ParseFailure(
            FailureCode.OUT_OF_MEMORY, reason, "raise CORTEX_PARSE_MEMORY_BYTES, or split the file"
        )


@dataclass(frozen=True, slots=True)
class _Status:
    exit_code: int
    signal: int


def _wait(process: subprocess.Popen[bytes]) -> _Status:
    """Wait for a child that closed its socket, killing it if it lives on, and say how it ended."""
    try:
        code = process.wait(1.0)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
    return _Status(max(code, 0), max(-code, 0))
