"""Somebody with every right on the database who changes the books: their triggers rest."""

from __future__ import annotations

from contextlib import AbstractContextManager

from django.db import connection

from scheduler.services.demo.guards import unguarded

BOOKS = tuple(
    f"scheduler_{name}"
    for name in ("devicesegment ledgerentry periodclose statement statementline usageline".split())
)


def unlocked() -> AbstractContextManager[None]:
    """Inside, rows of the books can be changed and deleted."""
    return unguarded(BOOKS)


def spoil(statement: str) -> None:
    """Change the books behind their back."""
    with unlocked(), connection.cursor() as cursor:
        cursor.execute(statement)
