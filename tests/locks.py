"""Two at once: what a test waits for before it goes on, and what happens in between."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from django.db import connection, connections, transaction
from pytest import MonkeyPatch

_PATIENCE_S = 30.0


def wait_until_somebody_waits() -> None:
    """For a lock of a row, in PostgreSQL; fails if nobody comes to."""
    until = time.monotonic() + _PATIENCE_S
    with connection.cursor() as cursor:
        while time.monotonic() < until:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
            if cursor.fetchone()[0]:
                return
            time.sleep(0.01)
    raise AssertionError("nobody waits for a lock")


def wait_until_it_waits_or_ends(other: threading.Thread) -> None:
    """Until a lock holds `other` up, or it has come to its end without one."""
    until = time.monotonic() + _PATIENCE_S
    with connection.cursor() as cursor:
        while other.is_alive() and time.monotonic() < until:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
            if cursor.fetchone()[0]:
                return
            time.sleep(0.01)
    assert not other.is_alive(), "it neither waits nor ends"


def elsewhere(act: Callable[[], object]) -> None:
    """Do it to its end on a connection of its own, as another process would; raises what it does.

    What is locked by who calls this must not stand in its way.
    """
    problems: list[Exception] = []

    def run() -> None:
        try:
            act()
        except Exception as problem:
            problems.append(problem)
        finally:
            connections.close_all()

    other = threading.Thread(target=run)
    other.start()
    other.join(_PATIENCE_S)
    assert not other.is_alive(), "it waits for who called it"
    if problems:
        raise problems[0]


def just_before(
    monkeypatch: MonkeyPatch, module: object, name: str, act: Callable[[], object]
) -> None:
    """Let `act` happen as `module` comes to its function `name` for the first time."""
    whole, todo = getattr(module, name), [act]

    def late(*args: Any, **fields: Any) -> Any:
        if todo:
            todo.pop()()
        return whole(*args, **fields)

    monkeypatch.setattr(module, name, late)


def both(first: Callable[[], object], second: Callable[[], object]) -> list[object]:
    """Do `first` and, before it commits, begin `second`; what that returned or raised."""
    answers: list[object] = []

    def run() -> None:
        try:
            answers.append(second())
        except Exception as problem:
            answers.append(problem)
        finally:
            connections.close_all()

    other = threading.Thread(target=run)
    with transaction.atomic():
        first()
        other.start()
        wait_until_it_waits_or_ends(other)
    other.join(_PATIENCE_S)
    return answers
