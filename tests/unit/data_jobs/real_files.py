"""Parses the evaluation documents and measures it: failures by code, time, memory and text recall; run it to see the table.

Recall is the share of the word tokens of the reference Markdown that the body holds, counted with repeats. Markup of
the reference (link targets, comments, LaTeX commands, escapes) is no text and does not count.
"""

from __future__ import annotations

import html
import os
import re
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

from cortex.documents import ParsedBody
from cortex.settings import Settings
from data_jobs.parsers.failures import ParseFailure
from data_jobs.stages.parse import ParseStage

_ROOT = Path(__file__).parents[3]
DATA = Path(os.environ.get("CORTEX_EVAL_DATA") or _ROOT.parent / "shared" / "data")
_NO_TEXT = re.compile(r"<!--.*?-->|!\[[^\]]*\]\([^)]*\)|(?<=\])\([^)\s]*\)|\\[a-zA-Z]+(?=\W)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?=[^\w\s])")


@dataclass(frozen=True, slots=True)
class Measured:
    """One file as parsed; `recall` is None where there is no reference."""

    path: Path
    format_name: str
    result: ParsedBody | ParseFailure
    seconds: float
    recall: float | None = None
    missing: tuple[tuple[str, int], ...] = ()


def source_files(folder: Path) -> list[Path]:
    """List the documents of an evaluation folder, without their references and notes."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and "groundtruth" not in path.parts)
    return [path for path in found if not path.name.startswith(("LICENSE", "README"))]


def measure(files: list[Path], stage: ParseStage) -> list[Measured]:
    """Parse files one after the other through one stage."""
    return [_measure(path, stage) for path in files]


def table(measured: list[Measured]) -> str:
    """Write a line per format: files, parsed, failures by code, slowest file, mean recall and the lowest."""
    groups: dict[str, list[Measured]] = defaultdict(list)
    for one in measured:
        groups[one.format_name].append(one)
    lines = ["format    n  ok  slowest_s  recall  lowest  failed"]
    for name, group in sorted(groups.items()):
        codes = Counter(one.result.code.value for one in group if isinstance(one.result, ParseFailure))
        recalls = [one.recall for one in group if one.recall is not None]
        mean = f"{sum(recalls) / len(recalls):.3f}" if recalls else "-"
        lowest = f"{min(recalls):.3f}" if recalls else "-"
        slowest = max(one.seconds for one in group)
        n_ok = len(group) - codes.total()
        failed = ", ".join(f"{code} {n}" for code, n in sorted(codes.items()))
        lines.append(f"{name:8} {len(group):3} {n_ok:3}  {slowest:9.2f}  {mean:>6}  {lowest:>6}  {failed}")
    return "\n".join(lines)


def words(markdown: str) -> Counter[str]:
    """Count the word tokens of a text."""
    return Counter(re.findall(r"\w+", markdown.lower().replace("_", " ")))


def reference(path: Path) -> Path | None:
    """Find the reference Markdown of a document."""
    folder = path.parent.parent if path.parent.name == "sources" else path.parent
    for name in (f"{path.name}.md", f"{path.stem}.md"):
        if (folder / "groundtruth" / name).is_file():
            return folder / "groundtruth" / name
    return None


def _measure(path: Path, stage: ParseStage) -> Measured:
    content = path.read_bytes()
    started = time.perf_counter()
    result = stage.parse(content, path.name)
    seconds = time.perf_counter() - started
    known = reference(path)
    if known is None or isinstance(result, ParseFailure):
        return Measured(path, path.suffix.lstrip("."), result, seconds)
    expected = words(html.unescape(_ESCAPE.sub("", _NO_TEXT.sub("", known.read_text()))))
    missing = expected - words(result.body)
    recall = 1 - missing.total() / expected.total() if expected else 1.0
    return Measured(path, path.suffix.lstrip("."), result, seconds, recall, tuple(missing.most_common(12)))


def main() -> None:
    """Print the tables, and with `-v` every file below a recall of 0.97 or without text."""
    with ParseStage(Settings()) as stage:
        for name in ("docling", "hostile"):
            measured = measure(source_files(DATA / "docs" / name), stage)
            print(f"\n{name}\n{table(measured)}")
            for one in measured if "-v" in sys.argv else ():
                if isinstance(one.result, ParseFailure):
                    print(
                        f"  {one.path.name}: {one.result.code.value}: {one.result.reason} ({one.seconds:.2f} s)"
                    )
                elif one.recall is not None and one.recall < 0.97:
                    print(f"  {one.path.name}: {one.recall:.3f} missing {one.missing}")
    print(f"\npeak RSS of the parser child: {stage.peak_rss_bytes / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
