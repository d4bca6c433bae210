"""Parsers that misbehave on purpose, registered in the child only by tests."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

from cortex.documents import ParsedBody
from data_jobs.parsers.registry import register


def hang(content: bytes, name: str) -> ParsedBody:
    while True:
        pass


def hog(content: bytes, name: str) -> ParsedBody:
    held = []
    while True:
        held.append(bytearray(16_000_000))


def grow(content: bytes, name: str) -> ParsedBody:
    """Touch memory slowly, below the address-space cap, so that only the watchdog sees it."""
    held = [bytearray(os.urandom(1_000_000)) * 150]
    time.sleep(30)
    return ParsedBody(body=str(len(held)), blocks=())


def crash(content: bytes, name: str) -> ParsedBody:
    os.abort()


def leave(content: bytes, name: str) -> ParsedBody:
    os._exit(3)


def stumble(content: bytes, name: str) -> ParsedBody:
    raise ZeroDivisionError("a secret sentence from the file")


def dig(content: bytes, name: str) -> ParsedBody:
    return dig(content, name)


def phone_home(content: bytes, name: str) -> ParsedBody:
    socket.create_connection(("127.0.0.1", 9))
    return ParsedBody(body="", blocks=())


def write(content: bytes, name: str) -> ParsedBody:
    Path(content.decode()).write_text("written by a parser")
    return ParsedBody(body="", blocks=())


def shout(content: bytes, name: str) -> ParsedBody:
    os.write(1, b"x" * 100_000)
    os.write(2, b"x" * 100_000)
    raise ZeroDivisionError


for poison in (hang, hog, grow, crash, leave, stumble, dig, phone_home, write, shout):
    register(poison.__name__, f".{poison.__name__}", poison)
