"""How simulated nodes call: each over connections of its own that it keeps, as nodes do."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Collection
from urllib.parse import urlsplit

# An agent keeps its connections while it rests; the portal closes what nobody used for 30 s.
_KEPT_S = 25.0
_PATIENCE_S = 60.0
_LENGTH = b"\r\ncontent-length:"
_Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class CallFailed(Exception):
    """Nobody answered, or not with what was asked for."""


class Caller:
    """A node's way to its door of the portal.

    Equals an HTTP client of a library for what is asked here, plain answers with a length from this
    machine. Hundreds of nodes call at once, and what they compute is taken from what is measured:
    such a client took three quarters of it.
    """

    def __init__(self, address: str, secret: str) -> None:
        place = urlsplit(address)
        assert place.hostname is not None and place.port is not None
        self._place = place.hostname, place.port
        self._head = (
            f"Host: {place.netloc}\r\nAuthorization: Bearer {secret}\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        )
        self._free: list[tuple[float, _Line]] = []

    async def sync(self, body: bytes) -> bytes:
        """The answer to this message; raises CallFailed."""
        head = f"POST /api/agent/v1/sync HTTP/1.1\r\n{self._head}{len(body)}\r\n\r\n"
        try:
            async with asyncio.timeout(_PATIENCE_S):
                line = self._kept() or await asyncio.open_connection(*self._place)
                try:
                    line[1].write(head.encode() + body)
                    status, told = await _answer(line[0])
                except BaseException:
                    # What comes later over it would be taken for the answer to another call.
                    line[1].close()
                    raise
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            raise CallFailed(f"{type(error).__name__} {error}") from error
        self._free.append((time.monotonic(), line))
        if status != 200:
            raise CallFailed(f"{status} {told[:200]!r}")
        return told

    def close(self) -> None:
        """Let go of what is kept."""
        for _, (_, writer) in self._free:
            writer.close()
        self._free.clear()

    def _kept(self) -> _Line | None:
        while self._free:
            used_at, line = self._free.pop()
            if time.monotonic() - used_at < _KEPT_S and not line[0].at_eof():
                return line
            line[1].close()
        return None


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Status and body of the next answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    _, has_length, rest = head.lower().partition(_LENGTH)
    if not has_length:
        raise ValueError("an answer without a length")
    return int(head[9:12]), await reader.readexactly(int(rest.partition(b"\r\n")[0]))


@contextlib.asynccontextmanager
async def callers(address: str, secrets: Collection[str]) -> AsyncIterator[list[Caller]]:
    """One for each of these node tokens."""
    made = [Caller(address, secret) for secret in secrets]
    try:
        yield made
    finally:
        for one in made:
            one.close()
