"""How many sockets a person may hold open in this process, and open in a minute."""

from __future__ import annotations

import asyncio
from typing import Protocol
from weakref import WeakSet

from django.conf import settings

from portal import limits


class Socket(Protocol):
    """What is counted; only as long as it says that it is open."""

    is_open: bool


# Weak: a socket whose program failed before it could say goodbye holds no seat for ever.
_held: dict[int, WeakSet[Socket]] = {}


async def take_seat(person: int, socket: Socket, address: str) -> bool:
    """Let this socket in; False where the person has enough of them, or opens them too fast."""
    held = _held.setdefault(person, WeakSet())
    most = settings.SOCKETS_AT_ONCE
    if most and sum(one.is_open for one in held) >= most:
        return False
    # Others that come while this one is counted find its seat taken.
    held.add(socket)
    if await asyncio.to_thread(limits.wait_s, limits.SOCKET, person, address=address):
        leave_seat(person, socket)
        return False
    return True


def leave_seat(person: int, socket: Socket) -> None:
    """The socket is gone."""
    held = _held.get(person)
    if held is not None:
        held.discard(socket)
        if not held:
            del _held[person]
