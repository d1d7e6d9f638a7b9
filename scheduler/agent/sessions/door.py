"""From a stream of the tunnel to the program of a session on this node."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

from scheduler.wire.codec import WireError, decode
from scheduler.wire.sessions import SOCKET_NAME, StreamOrder
from scheduler.wire.streams import Stream, StreamBroken
from scheduler.wire.tunnel import MAX_DATA

_CREDENTIALS = struct.Struct("3i")
_CONNECT_S = 5.0

logger = logging.getLogger(__name__)

NO_SESSION = "no_session"
NOT_READY = "not_ready"


class Closed(Exception):
    """The session cannot be reached; the text is one of the words above."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a session's program listens, and as whom it must run; None: as the agent itself."""

    folder: Path
    uid: int | None


async def connect(place: Place) -> socket.socket:
    """A connection to the program. Raises Closed.

    The folder is the job's: what lies there may be a link to anybody's socket, and the agent may
    be root. So a connection counts only when the one who listens is the job's own user.
    """
    link = socket.socket(socket.AF_UNIX)
    link.setblocking(False)
    try:
        folder = os.open(place.folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            # By descriptor: a socket's name is short, the folder's may not be.
            name = f"/proc/self/fd/{folder}/{SOCKET_NAME}"
            async with asyncio.timeout(_CONNECT_S):
                await asyncio.get_running_loop().sock_connect(link, name)
        finally:
            os.close(folder)
        told = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        _, uid, _ = _CREDENTIALS.unpack(told)
        if uid != (os.geteuid() if place.uid is None else place.uid):
            logger.warning("a socket in %s is listened to by uid %d; refused", place.folder, uid)
            raise Closed(NO_SESSION)
    except (OSError, TimeoutError):
        link.close()
        raise Closed(NOT_READY) from None
    except BaseException:
        link.close()
        raise
    return link


def fence_of(order: bytes) -> int:
    """The attempt that a stream is for; 0 for an order that cannot be read."""
    try:
        return decode(StreamOrder, order).fence
    except WireError:
        return 0


async def serve(stream: Stream, place: Place) -> None:
    """Carry one stream to its end."""
    try:
        link = await connect(place)
    except Closed as closed:
        await stream.reset(str(closed))
        return
    reader, writer = await asyncio.open_unix_connection(sock=link, limit=MAX_DATA)
    back = asyncio.ensure_future(_back(reader, stream))
    try:
        while piece := await stream.read():
            writer.write(piece)
            await writer.drain()
        writer.write_eof()
        await back
    except (StreamBroken, OSError):
        pass
    finally:
        back.cancel()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _back(reader: asyncio.StreamReader, stream: Stream) -> None:
    """What the program says; its end ends the stream, or both ways once it is broken."""
    try:
        while piece := await reader.read(MAX_DATA):
            await stream.write(piece)
        await stream.end()
    except OSError:
        await stream.reset("the program closed the connection")
    except StreamBroken:
        pass
