"""The parent's end of the parser child: starts it, hands it files, watches its time and memory, and ends it."""

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
from typing import Any

import psutil

from cortex.documents import ParsedBody
from cortex.errors import Unavailable
from cortex.telemetry import event
from data_jobs.parsers.failures import FailureCode, ParseFailure
from data_jobs.parsers.wire import BrokenWire, decode_result, pack, unpack

_POLL_S = 0.05
_START_TIMEOUT_S = 60.0
# Allocators and threads reserve far more address space than they use; the child needs none of that.
_LEAN = {
    "MALLOC_ARENA_MAX": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}
# What C and C++ libraries print when an allocation fails and they give up.
_NO_MEMORY = re.compile("bad_alloc|out of memory|MemoryError|cannot allocate", re.IGNORECASE)
_LOST = (OSError, EOFError, BrokenWire)


class _Exceeded(Exception):
    """The child passed a limit."""

    def __init__(self, failure: ParseFailure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class ParserProcess:
    """One running child. It serves one file at a time and is of no use after `is_alive` turns false.

    Its output goes to a temporary file, of which the last lines are logged if it crashes. It leads a process group of
    its own, so that ending it ends whatever it may have started. Raises Unavailable if it cannot start.
    """

    def __init__(self, memory_bytes: int, modules: tuple[str, ...] = ()) -> None:
        self._memory_bytes = memory_bytes
        self._connection, theirs = socket.socketpair()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the child
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",  # a folder that is being read must not be imported from
                    "-m",
                    "data_jobs.parsers.child",
                    str(theirs.fileno()),
                    str(memory_bytes),
                    *modules,
                ],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **_LEAN},
            )
        self._usage = psutil.Process(self._process.pid)
        self._peak_address_bytes = 0
        self.n_files = 0
        self.peak_rss_bytes = 0
        self._await_ready()

    @property
    def is_alive(self) -> bool:
        """Say whether it can be given a file."""
        return self._process.poll() is None

    def ask(self, content: bytes, name: str, media_type: str, timeout_s: float) -> ParsedBody | ParseFailure:
        """Have one file parsed; when the child passes a limit or crashes, it is ended and the failure says so."""
        self.n_files += 1
        head: dict[str, Any] = {"name": name, "media_type": media_type, "timeout_s": timeout_s}
        deadline = time.monotonic() + timeout_s
        try:
            self._connection.settimeout(timeout_s)
            for piece in pack(head, content):
                self._connection.sendall(piece)
            return decode_result(*unpack(lambda n: self._read(n, deadline, timeout_s)))
        except TimeoutError:
            self.end()
            return _timed_out(timeout_s)
        except _Exceeded as exceeded:
            self.end()
            return exceeded.failure
        except _LOST:
            return self._crashed(timeout_s)

    def rss_bytes(self) -> int:
        """Measure resident memory now; 0 when the child is gone."""
        try:
            memory = self._usage.memory_info()
        except psutil.NoSuchProcess:
            return 0
        self.peak_rss_bytes = max(self.peak_rss_bytes, memory.rss)
        self._peak_address_bytes = max(self._peak_address_bytes, memory.vms)
        return int(memory.rss)

    def end(self) -> None:
        """End the child and everything in its process group."""
        self._connection.close()
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._output.close()

    def _await_ready(self) -> None:
        """Wait for the child's first message: a file's time starts after its imports, which are slow on a busy machine."""
        try:
            unpack(lambda n: self._read(n, time.monotonic() + _START_TIMEOUT_S, _START_TIMEOUT_S))
        except (_Exceeded, *_LOST) as error:
            event("parse.crashed", output=self._last_output())
            self.end()
            hint = "look at the event parse.crashed in the log; CORTEX_PARSE_MEMORY_BYTES may be too small"
            raise Unavailable(
                "the parser child did not start", code="parser.not_started", hint=hint
            ) from error

    def _read(self, n: int, deadline: float, timeout_s: float) -> bytes:
        """Read exactly n bytes before the deadline, watching the child's memory meanwhile."""
        buffer = bytearray(n)
        view, at = memoryview(buffer), 0
        self._connection.settimeout(_POLL_S)
        while at < n:
            try:
                got = self._connection.recv_into(view[at:])
            except TimeoutError:
                if self.rss_bytes() > self._memory_bytes:
                    raise _Exceeded(self._out_of_memory()) from None
                if time.monotonic() > deadline:
                    raise _Exceeded(_timed_out(timeout_s)) from None
                continue
            if got == 0:
                raise EOFError
            at += got
        return bytes(buffer)

    def _crashed(self, timeout_s: float) -> ParseFailure:
        """Say how a child ended by itself: the kernel's alarm, memory that C code could not get, or a crash."""
        try:
            code = self._process.wait(1.0)
        except subprocess.TimeoutExpired:  # it broke the protocol and lives on
            os.killpg(self._process.pid, signal.SIGKILL)
            code = self._process.wait()
        output = self._last_output()
        self.end()
        if code == -signal.SIGALRM:
            return _timed_out(timeout_s)
        if self._peak_address_bytes > 0.8 * self._memory_bytes or _NO_MEMORY.search(output):
            return self._out_of_memory()
        event("parse.crashed", exit_code=code, output=output)
        cause = f"signal {-code}" if code < 0 else f"exit code {code}"
        return ParseFailure(FailureCode.CRASHED_PARSER, f"its parser crashed ({cause})")

    def _last_output(self) -> str:
        self._output.seek(0, os.SEEK_END)
        self._output.seek(max(self._output.tell() - 2_000, 0))
        return self._output.read().decode(errors="replace")

    def _out_of_memory(self) -> ParseFailure:
        reason = f"parsing it takes more than {self._memory_bytes:,} bytes of memory"
        hint = "raise CORTEX_PARSE_MEMORY_BYTES, or split the file"
        return ParseFailure(FailureCode.OUT_OF_MEMORY, reason, hint)


def _timed_out(timeout_s: float) -> ParseFailure:
    reason = f"parsing it takes longer than {timeout_s:g} s"
    return ParseFailure(FailureCode.TIMEOUT, reason, "raise CORTEX_PARSE_TIMEOUT_S, or split the file")
