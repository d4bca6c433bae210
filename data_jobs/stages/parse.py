"""Parse: the bytes of one file -> `ParsedBody` or the reason why not, in a child process with bounded time and memory.

Reads a file's content and name, writes its body, blocks and inner metadata. One child serves one stage instance; it
is replaced after a crash, a time-out, a file that took much memory, or enough files. A stage is not thread-safe.
"""

from __future__ import annotations

from typing import Self

from cortex.documents import ParsedBody
from cortex.settings import Settings
from data_jobs.parsers.failures import FailureCode, ParseFailure
from data_jobs.parsers.process import ParserProcess

# Raise it when the same bytes give another body: documents parsed by an older version are then parsed again.
PARSER_VERSION = 2
# A child that leaks is replaced before it matters; starting one takes about 0.15 s.
_FILES_PER_CHILD = 500


class ParseStage:
    """Parses files one by one; bad content is a `ParseFailure`, never an exception.

    `extra_parsers` names modules that register more formats; the child imports them before it is confined. Raises
    Unavailable if the child cannot start at all.
    """

    def __init__(self, settings: Settings, extra_parsers: tuple[str, ...] = ()) -> None:
        self._timeout_s = settings.parse_timeout_s
        self._memory_bytes = settings.parse_memory_bytes
        self._max_file_bytes = settings.max_file_bytes
        self._extra_parsers = extra_parsers
        self._child: ParserProcess | None = None
        self.peak_rss_bytes = 0  # of all children so far

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def parse(self, content: bytes, name: str, media_type: str = "") -> ParsedBody | ParseFailure:
        """Parse one file. `name` gives the extension, `media_type` helps where there is none."""
        if len(content) > self._max_file_bytes:
            reason = f"it has {len(content):,} bytes; the limit is {self._max_file_bytes:,}"
            hint = "raise CORTEX_MAX_FILE_BYTES, or split the file"
            return ParseFailure(FailureCode.TOO_LARGE, reason, hint)
        child = self._ready_child()
        result = child.ask(content, name, media_type, self._timeout_s)
        self._retire_if_worn(child, result)
        return result

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self.peak_rss_bytes = max(self.peak_rss_bytes, self._child.peak_rss_bytes)
            self._child.end()
            self._child = None

    def _ready_child(self) -> ParserProcess:
        if self._child is not None and not self._child.is_alive:
            self.close()
        if self._child is None:
            self._child = ParserProcess(self._memory_bytes, self._extra_parsers)
        return self._child

    def _retire_if_worn(self, child: ParserProcess, result: ParsedBody | ParseFailure) -> None:
        is_out_of_memory = isinstance(result, ParseFailure) and result.code is FailureCode.OUT_OF_MEMORY
        is_large = child.rss_bytes() > self._memory_bytes // 2
        if is_out_of_memory or is_large or child.n_files >= _FILES_PER_CHILD:
            self.close()
