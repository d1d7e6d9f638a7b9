"""A column that SQLite is not to look up in an index."""

from __future__ import annotations

from typing import Any

from django.db.models import F, Func
from django.db.models.lookups import IsNull


class _Unindexed(Func):
    arity = 1
    template = "%(expressions)s"

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """A sign before it, which means nothing else."""
        return super().as_sql(compiler, connection, template="+%(expressions)s", **context)


def empty_here(name: str) -> IsNull:
    """`name__isnull=True`, for a few rows that are named by their keys.

    Told nothing of sizes, SQLite takes ten rows of an index to have such a value, and goes through
    all that a whole cluster holds rather than look up a dozen keys. PostgreSQL is told the same as
    without.
    """
    return IsNull(_Unindexed(F(name)), True)
