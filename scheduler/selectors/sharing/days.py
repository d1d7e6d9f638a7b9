"""Days of the clock that is shown, as the database counts them."""

from __future__ import annotations

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import DateTimeField, Func


class DayStart(Func):
    """The first moment of a moment's UTC day.

    `TruncDay` calls Python for every row on SQLite, where a year of use has millions of them.
    """

    template = "date_trunc('day', %(expressions)s, 'UTC')"
    arity = 1
    output_field = DateTimeField()

    def as_sqlite(self, compiler: Any, connection: BaseDatabaseWrapper, **context: Any) -> Any:
        """Moments are texts there, in UTC."""
        template = "substr(%(expressions)s, 1, 10) || ' 00:00:00'"
        return self.as_sql(compiler, connection, template=template, **context)
