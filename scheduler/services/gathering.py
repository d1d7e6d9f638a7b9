"""What follows from the moves of one transaction, done once at its end for all of them.

A node reports many attempts in one call. Each that ends gives back devices, is charged, writes
history and may let others go; one by one that is twenty statements an attempt. Inside `gathering()`
the services only note what is to be done, and every kind of work runs once, over all that was
noted. Outside of it the same work runs at once, over one: the two differ in nothing but the number
of statements, because no step reads what an earlier attempt's later step would have written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import IntEnum
from typing import Any


class Step(IntEnum):
    """The order of the work: each step may rest on what the ones before it wrote."""

    RELEASE = 1
    FOLLOW = 2
    CHARGE = 3
    REFUND = 4
    SETTLE = 5
    RECORD = 6
    RECONSIDER = 7
    TELL = 8
    KEEP_OUT = 9
    # Rows of nodes are locked last of all, in the order of their ids, and changed then.
    LOCK_NODES = 10
    CALL_NODES = 11
    HEAR_NODES = 12
    # One row for all nodes, that calls of nodes alone want when they have their own.
    UNDO_SUMS = 13


_Key = tuple[Step, Callable[..., object], tuple[tuple[str, Any], ...]]
_noted: ContextVar[dict[_Key, list[Any]] | None] = ContextVar("noted", default=None)


@contextmanager
def gathering() -> Iterator[None]:
    """Note the work of the block and do it at its end; nothing is done if the block raises.

    Belongs inside one transaction with no savepoint to roll back to: what was noted stays noted.
    """
    if _noted.get() is not None:
        yield
        return
    noted: dict[_Key, list[Any]] = {}
    token = _noted.set(noted)
    try:
        yield
        while noted:
            key = min(noted, key=lambda one: one[0])
            _, work, common = key
            work(noted.pop(key), **dict(common))
    finally:
        _noted.reset(token)


def afterwards(
    step: Step, work: Callable[..., object], items: Iterable[Any], **common: Any
) -> None:
    """Do `work(items, **common)` at once, or, inside `gathering()`, with all of its kind."""
    noted = _noted.get()
    if noted is None:
        work(list(items), **common)
        return
    noted.setdefault((step, work, tuple(sorted(common.items()))), []).extend(items)
