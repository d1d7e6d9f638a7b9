"""Where a change comes from: the request, command or task that is being served.

A context variable, because the services that record changes know no request. Whoever starts a piece
of work says so: the portal's middleware, `manage.py`, the worker before a task.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

_MAX_ID, _MAX_IP = 96, 45


@dataclass(frozen=True, slots=True)
class Origin:
    """`request_id` of a request, `command:<name>` or `task:<name>:<id>`; `ip` of who asks."""

    request_id: str = ""
    ip: str = ""


_NOWHERE = Origin()
_current: ContextVar[Origin] = ContextVar("trainyard_origin", default=_NOWHERE)


def current_origin() -> Origin:
    """What is being served here and now; empty where nobody said so."""
    return _current.get()


def enter_origin(request_id: str, ip: str = "") -> None:
    """From here on this context serves that request, command or task."""
    _current.set(Origin(request_id[:_MAX_ID], ip[:_MAX_IP]))


def leave_origin() -> None:
    """This context serves nothing any more."""
    _current.set(_NOWHERE)


@contextmanager
def origin(request_id: str, ip: str = "") -> Iterator[Origin]:
    """For a piece of work within another; the outer origin holds again behind it."""
    token = _current.set(Origin(request_id[:_MAX_ID], ip[:_MAX_IP]))
    try:
        yield _current.get()
    finally:
        _current.reset(token)
