"""How many sockets a person may hold open in this process, and open in a minute."""

from __future__ import annotations

from typing import Protocol
from weakref import WeakSet

from django.conf import settings

from portal import limits


class Socket(Protocol):
    """What is counted; only as long as it says that it is open."""

    is_open: bool


# Weak: a socket whose program failed before it could say goodbye holds no seat for ever.
_held: dict[int, WeakSet[Socket]] = {}


def take_seat(person: int, socket: Socket) -> bool:
    """Let this socket in; False where the person has enough of them, or opens them too fast."""
    held = _held.setdefault(person, WeakSet())
    most = settings.SOCKETS_AT_ONCE
    if most and sum(one.is_open for one in held) >= most:
        return False
    if limits.buckets(limits.SOCKET).wait_s(person):
        return False
    held.add(socket)
    return True


def leave_seat(person: int, socket: Socket) -> None:
    """The socket is gone."""
    held = _held.get(person)
    if held is not None:
        held.discard(socket)
        if not held:
            del _held[person]
