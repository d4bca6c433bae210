"""Spans in files: bounded, private, harmless when the disk is not there, and sent to a collector as well if one is set."""

from __future__ import annotations

import json
import logging
import os
import stat
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export import SpanExportResult

from cortex.errors import Unavailable
from cortex.settings import Settings
from cortex.telemetry import setup_logging, span
from cortex.traces import SpanRecord, read_span, span_line, trace_id_of
from serve_apps.span_files import SpanFiles
from serve_apps.tracing import flush_traces, setup_tracing
from tests.twins.spans import kept_spans

LIMIT = 160_000


@pytest.fixture(autouse=True)
def untraced() -> Iterator[None]:
    yield
    setup_tracing(Settings(trace_bytes=0), "query")


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl"))


def records(folder: Path) -> list[SpanRecord]:
    lines = [line for path in files(folder) for line in path.read_bytes().splitlines(keepends=True)]
    return [record for line in lines if (record := read_span(line))]


def write(exporter: SpanFiles, n_spans: int, name: str = "step") -> None:
    """Export so many spans, twenty at a time."""
    with kept_spans() as spans:
        for _ in range(n_spans):
            with span(name):
                pass
        made = spans.all()
    for start in range(0, n_spans, 20):
        assert exporter.export(made[start : start + 20]) is SpanExportResult.SUCCESS


def test_a_process_keeps_its_spans(tmp_path: Path) -> None:
    """What a program makes after its start is in its folder within a second, whole, for the owner alone."""
    settings = Settings(home=tmp_path)
    setup_tracing(settings, "permissions")
    with pytest.raises(Unavailable), span("outer", {"n": 3}), span("inner"):
        raise Unavailable("kestrel", code="index.unavailable")
    flush_traces()
    inner, outer = records(settings.traces_path)
    assert (inner.name, inner.parent_id, inner.trace_id) == ("inner", outer.span_id, outer.trace_id)
    assert (outer.error, outer.attributes, outer.process, outer.pid) == (
        "index.unavailable",
        {"n": 3},
        "permissions",
        os.getpid(),
    )
    assert outer.started_at_ns <= inner.started_at_ns <= inner.ended_at_ns <= outer.ended_at_ns
    (path,) = files(settings.traces_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(settings.traces_path.stat().st_mode) == 0o700
    assert "kestrel" not in path.read_text()


def test_without_room_for_traces_nothing_is_made(tmp_path: Path) -> None:
    """A limit of 0 and no collector: no file, and no span that anybody records."""
    setup_tracing(Settings(home=tmp_path, trace_bytes=0), "query")
    with span("step") as opened:
        assert not opened.is_recording()
    flush_traces()
    assert not Settings(home=tmp_path).traces_path.exists()


def test_the_folder_stays_below_its_limit(tmp_path: Path) -> None:
    """Two processes write four times the limit; the newest spans are there, the oldest gone, no file torn."""
    one, two = (SpanFiles(tmp_path, name, LIMIT) for name in ("one", "two"))
    most = 0
    for _ in range(12):
        write(one, 100)
        write(two, 100)
        most = max(most, sum(path.stat().st_size for path in files(tmp_path)))
    write(one, 1, "newest")
    assert LIMIT / 2 < most <= LIMIT * (1 + 2 / 16)
    assert len(files(tmp_path)) > 2
    kept = records(tmp_path)
    assert "newest" in {record.name for record in kept}
    assert len(kept) == sum(path.read_bytes().count(b"\n") for path in files(tmp_path)) < 2_400


def test_a_file_that_another_process_removed_is_begun_again(tmp_path: Path) -> None:
    """A process that was quiet for long loses no spans to those that made room meanwhile."""
    exporter = SpanFiles(tmp_path, "one", LIMIT)
    write(exporter, 1)
    for path in files(tmp_path):
        path.unlink()
    write(exporter, 1, "after")
    assert [record.name for record in records(tmp_path)] == ["after"]


def test_a_disk_that_takes_nothing_costs_spans_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The failure is told once, and no request hears of it."""
    (tmp_path / "run").write_text("a file where the folder should be")
    setup_logging("info")
    exporter = SpanFiles(tmp_path / "run" / "traces", "query", LIMIT)
    with kept_spans() as spans:
        with span("step"):
            pass
        made = spans.all()
    assert [exporter.export(made) for _ in range(3)] == [SpanExportResult.FAILURE] * 3
    (tmp_path / "run").unlink()
    assert exporter.export(made) is SpanExportResult.SUCCESS
    logging.getLogger("cortex").handlers.clear()
    (told,) = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert (told["event"], told["error"], told["process"]) == ("traces.fail", "NotADirectoryError", "query")


RECORD = SpanRecord("a" * 32, "b" * 16, "", "search", "internal", "query", 7, 1_000, 500)


def test_a_line_is_read_as_it_was_written() -> None:
    """A span comes back equal, and its trace is known without reading the rest."""
    record = SpanRecord(
        "a" * 32, "b" * 16, "c" * 16, "search", "client", "query", 7, 10**18, 500, "x.y", {"n": 1.5}
    )
    assert read_span(span_line(record)) == record
    assert trace_id_of(span_line(record)) == "a" * 32


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"nothing\n",
        span_line(RECORD)[:-20],
        span_line(RECORD).replace(b'"pid": 7', b'"pid": "7"'),
        span_line(RECORD).replace(b'"pid": 7', b'"pid": true'),
        span_line(RECORD).replace(b"1000", b"-1"),
        span_line(RECORD).replace(b"1000", b"1e300"),
        span_line(RECORD).replace(b"1000", str(2**63).encode()),
        span_line(RECORD).replace(b'"error": ""', b'"error": null'),
        span_line(RECORD).replace(b'"name"', b'"title"'),
        span_line(RECORD).replace(b'"attributes": {}', b'"attributes": []'),
        b"[" * 50_000,
        b"\xff\xfe\n",
    ],
)
def test_a_broken_line_is_none(line: bytes) -> None:
    """Whatever a crash or a stranger left in a file, reading it raises nothing."""
    assert read_span(line) is None


def test_spans_go_to_a_collector_as_well(tmp_path: Path) -> None:
    """With an OTLP endpoint, the same spans arrive there over HTTP, under the name of the process."""
    arrived: list[ExportTraceServiceRequest] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            assert self.path == "/v1/traces"
            arrived.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        settings = Settings(home=tmp_path, otlp_endpoint=f"http://127.0.0.1:{server.server_address[1]}")
        setup_tracing(settings, "search")
        with span("step"):
            pass
        flush_traces()
        server.shutdown()
        thread.join()
    (request,) = arrived
    (spans,) = request.resource_spans
    assert [each.name for scope in spans.scope_spans for each in scope.spans] == ["step"]
    named = {each.key: each.value.string_value for each in spans.resource.attributes}
    assert named["service.name"] == "cortex-search"
    assert [record.name for record in records(settings.traces_path)] == ["step"]
