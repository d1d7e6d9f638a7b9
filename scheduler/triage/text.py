"""Bytes of a log to plain lines, in bounded and linear time."""

from __future__ import annotations

import re
from dataclasses import dataclass

from scheduler.triage.model import LogTail

MAX_TAIL_BYTES = 256 * 1024
MAX_LINES = 2000
MAX_LINE_CHARS = 1000

# The classes of one alternative do not overlap, so giving back characters finds nothing new.
_CONTROL = re.compile(
    r"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]?|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b.?"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
)


@dataclass(frozen=True, slots=True)
class Line:
    """One line without control characters; `low` is the same in small letters, for comparing."""

    rank: int
    number: int
    text: str
    low: str


def read_tail(tail: LogTail) -> list[Line]:
    """The last lines of a tail, numbered as in the log; never raises, whatever the bytes are.

    At most MAX_TAIL_BYTES and MAX_LINES; a longer line is cut at MAX_LINE_CHARS; of a line that
    was drawn over with carriage returns the last state counts.
    """
    raw, number, is_cut = tail.raw, tail.first_line, tail.is_cut
    if len(raw) > MAX_TAIL_BYTES:
        dropped = len(raw) - MAX_TAIL_BYTES
        number += raw.count(b"\n", 0, dropped)
        is_cut = is_cut or raw[dropped - 1 : dropped] != b"\n"
        raw = raw[dropped:]
    pieces = raw.split(b"\n")
    if pieces and not pieces[-1]:
        pieces.pop()
    begin = max(len(pieces) - MAX_LINES, 1 if is_cut and len(pieces) > 1 else 0)
    found = []
    for index in range(begin, len(pieces)):
        text = plain(pieces[index])
        if text:
            found.append(Line(tail.rank, number + index, text, text.lower()))
    return found


def plain(piece: bytes) -> str:
    """One line's bytes as text without control sequences, at most MAX_LINE_CHARS."""
    piece = piece[: 8 * MAX_LINE_CHARS].rstrip(b"\r")
    piece = piece[piece.rfind(b"\r") + 1 :]
    return _CONTROL.sub("", piece.decode("utf-8", "replace"))[:MAX_LINE_CHARS].rstrip()
