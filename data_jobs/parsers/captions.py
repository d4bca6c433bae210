"""Captions and transcripts (WebVTT, SubRip): turns with speaker and second; cues of one speaker in a row are joined."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from cortex.documents import Anchor, BlockKind, ParsedBody
from data_jobs.parsers.body import BodyBuilder
from data_jobs.parsers.decode import decode
from data_jobs.parsers.html import fragment_text

_CLOCK = r"(?:(\d+):)?(\d{1,2}):(\d{2})[.,](\d{1,3})"
_TIMING = re.compile(rf"\s*{_CLOCK}\s*-->\s*{_CLOCK}")
_VOICE = re.compile(r"<v(?:\.[^\s>]*)?[ \t]+([^>]*)>")
_TAG = re.compile(r"</?[a-zA-Z0-9.:]*(?:[ \t][^<>]*)?>")
_SPEAKER = re.compile(r"[-–]?\s*((?:[A-Z][\w.'’-]*)(?: [A-Z0-9(][\w.'’()-]*){0,3}):\s+(?=\S)")
_MAX_TURN_CHARS = 1_200  # a monologue becomes several turns, so that its anchors stay near the words
_MAX_PAUSE_S = 4


@dataclass(frozen=True, slots=True)
class _Cue:
    start_s: float
    end_s: float
    speaker: str
    text: str


def parse_captions(content: bytes, name: str) -> ParsedBody:
    """Parse WebVTT or SubRip; notes, styles and cue settings are left out."""
    text = decode(content)
    builder = BodyBuilder()
    for turn in _turns(_cues(text)):
        anchor = Anchor("second", int(turn.start_s), int(turn.end_s))
        line = f"{turn.speaker}: {turn.text}" if turn.speaker else turn.text
        builder.add(BlockKind.TURN, line, anchor, speaker=turn.speaker)
    header = re.match(r"WEBVTT[ \t]+-?[ \t]*(\S[^\n]*)", text)
    return builder.finish(title=header.group(1) if header else "")


def _cues(text: str) -> Iterator[_Cue]:
    for section in re.split(r"\n[ \t]*\n", text):
        lines = section.strip("\n").split("\n")
        at = next((i for i, line in enumerate(lines[:2]) if _TIMING.match(line)), None)
        if at is None:
            continue
        match = _TIMING.match(lines[at])
        assert match is not None
        start, end = _seconds(match.groups()[:4]), _seconds(match.groups()[4:])
        speaker = ""
        for voice, line in _voices("\n".join(lines[at + 1 :])):
            speaker = voice or speaker
            if line:
                yield _Cue(start, max(start, end), speaker, line)


def _voices(payload: str) -> Iterator[tuple[str, str]]:
    """Split a cue's payload into (speaker, text): by voice tags, or by names before a colon."""
    parts = _VOICE.split(payload)
    yield from _named(parts[0])
    for voice, text in zip(parts[1::2], parts[2::2], strict=True):
        yield " ".join(voice.split()), _plain(text)


def _named(text: str) -> Iterator[tuple[str, str]]:
    pending: list[str] = []
    speaker = ""
    for line in text.split("\n"):
        match = _SPEAKER.match(_plain(line))
        if match is not None:
            yield speaker, " ".join(pending)
            speaker, pending = match.group(1), [_plain(line)[match.end() :]]
        elif plain := _plain(line):
            pending.append(plain)
    yield speaker, " ".join(pending)


def _turns(cues: Iterator[_Cue]) -> Iterator[_Cue]:
    turn: _Cue | None = None
    for cue in cues:
        if turn is None:
            turn = cue
        elif _continues(turn, cue):
            turn = _Cue(turn.start_s, cue.end_s, turn.speaker, f"{turn.text} {cue.text}")
        else:
            yield turn
            turn = cue
    if turn is not None:
        yield turn


def _continues(turn: _Cue, cue: _Cue) -> bool:
    is_near = -1 <= cue.start_s - turn.end_s <= _MAX_PAUSE_S
    return turn.speaker == cue.speaker and is_near and len(turn.text) + len(cue.text) < _MAX_TURN_CHARS


def _plain(text: str) -> str:
    text = _TAG.sub("", text)
    return fragment_text(text) if "&" in text else " ".join(text.split())


def _seconds(clock: tuple[str | None, ...]) -> float:
    hours, minutes, seconds, fraction = (part or "0" for part in clock)
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds) + float(f"0.{fraction}")
