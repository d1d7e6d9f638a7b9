"""Frames of the tunnel: many byte streams over one WebSocket that the node has opened.

Each binary message of the WebSocket is one frame: a kind (1 byte), the stream's number (4 bytes,
big-endian) and what it carries.

    OPEN    server → node   whom the stream is for, a `StreamOrder`
    DATA    both ways       1 to MAX_DATA bytes
    CREDIT  both ways       4 bytes: so many more bytes may be sent
    END     both ways       nothing more comes this way
    RESET   both ways       the stream is over at once; why, as text

Numbers rise and are never used again. Each side may send WINDOW bytes of a stream ahead of what
the other has taken, as in HTTP/2 (RFC 9113, 5.2): a reader that is slow stops its own stream and
holds WINDOW bytes at most, and no other stream. Whoever breaks a rule loses the whole tunnel.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

WINDOW: Final = 128 * 1024
MAX_DATA: Final = 16 * 1024
MAX_STREAMS: Final = 128
MAX_REASON: Final = 200
MAX_ORDER: Final = 512
MAX_FRAME: Final = MAX_DATA + 5
_HEAD = struct.Struct(">BI")
_COUNT = struct.Struct(">I")


class Kind(IntEnum):
    """What a frame is."""

    OPEN = 1
    DATA = 2
    CREDIT = 3
    END = 4
    RESET = 5


_LONGEST = {
    Kind.OPEN: MAX_ORDER,
    Kind.DATA: MAX_DATA,
    Kind.CREDIT: _COUNT.size,
    Kind.END: 0,
    Kind.RESET: MAX_REASON * 4,
}


class FrameError(ValueError):
    """Not a frame that this side may be sent."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame, taken apart."""

    kind: Kind
    stream: int
    payload: bytes = b""

    def packed(self) -> bytes:
        """As it is sent."""
        return _HEAD.pack(self.kind, self.stream) + self.payload

    @property
    def count(self) -> int:
        """Of CREDIT."""
        return int(_COUNT.unpack(self.payload)[0])

    @property
    def reason(self) -> str:
        """Of RESET."""
        return self.payload.decode("utf-8", "replace")[:MAX_REASON]


def credit(stream: int, count: int) -> Frame:
    """Let the other side send `count` more bytes."""
    return Frame(Kind.CREDIT, stream, _COUNT.pack(count))


def reset(stream: int, reason: str) -> Frame:
    """End a stream at once."""
    return Frame(Kind.RESET, stream, reason[:MAX_REASON].encode("utf-8", "replace"))


def read_frame(raw: bytes) -> Frame:
    """Take a message apart; raises FrameError."""
    if len(raw) < _HEAD.size:
        raise FrameError("a frame is cut short")
    number, stream = _HEAD.unpack_from(raw)
    try:
        kind = Kind(number)
    except ValueError:
        raise FrameError(f"there is no frame of kind {number}") from None
    payload = bytes(raw[_HEAD.size :])
    if not stream:
        raise FrameError("streams are numbered from 1")
    if len(payload) > _LONGEST[kind]:
        raise FrameError(f"{kind.name} carries {len(payload)} bytes")
    if kind is Kind.DATA and not payload:
        raise FrameError("DATA carries nothing")
    if kind is Kind.CREDIT and (len(payload) != _COUNT.size or payload == bytes(_COUNT.size)):
        raise FrameError("CREDIT carries no count")
    return Frame(kind, stream, payload)
