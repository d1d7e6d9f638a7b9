"""Where a change comes from: the request, command or task that is being served.

A context variable, because the services that record changes know no request. Whoever starts a piece
of work says so: the portal's middleware, `manage.py`, the worker before a task.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

_MAX_ID, _MAX_IP, _MAX_AGENT = 96, 45, 200


@dataclass(frozen=True, slots=True)
class Origin:
    """`request_id` of a request, `command:<name>` or `task:<name>:<id>`; `ip` of who asks, and
    `user_agent`, what their program says it is: one line of plain characters.
    """

    request_id: str = ""
    ip: str = ""
    user_agent: str = ""


_NOWHERE = Origin()
_current: ContextVar[Origin] = ContextVar("trainyard_origin", default=_NOWHERE)


def current_origin() -> Origin:
    """What is being served here and now; empty where nobody said so."""
    return _current.get()


def enter_origin(request_id: str, ip: str = "", user_agent: str = "") -> None:
    """From here on this context serves that request, command or task."""
    _current.set(_origin(request_id, ip, user_agent))


def leave_origin() -> None:
    """This context serves nothing any more."""
    _current.set(_NOWHERE)


@contextmanager
def origin(request_id: str, ip: str = "", user_agent: str = "") -> Iterator[Origin]:
    """For a piece of work within another; the outer origin holds again behind it."""
    token = _current.set(_origin(request_id, ip, user_agent))
    try:
        yield _current.get()
    finally:
        _current.reset(token)


def _origin(request_id: str, ip: str, user_agent: str) -> Origin:
    """Cut to what is kept; who calls chooses the last one, and no line break of theirs stays."""
    told = user_agent[:_MAX_AGENT]
    plain = told if told.isascii() and told.isprintable() else "".join(map(_plain, told))
    return Origin(request_id[:_MAX_ID], ip[:_MAX_IP], plain)


def _plain(char: str) -> str:
    return char if char.isascii() and char.isprintable() else "?"
