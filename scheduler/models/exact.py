"""Amounts as columns. SQLite keeps what looks like a number as a float, so there it is a text."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

from scheduler.ledger.exact import EXACT, plain

if TYPE_CHECKING:
    _Field = models.Field[Any, Any]
else:
    _Field = models.Field


class ExactAmount(_Field):
    """A decimal of up to 38 digits, 15 of them behind the point, never rounded.

    `numeric(38, 15)` on PostgreSQL, text elsewhere: there it is not to be summed or compared by the
    database.
    """

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        """The column's type."""
        return "numeric(38, 15)" if connection.vendor == "postgresql" else "text"

    def from_db_value(self, value: Any, *_: Any) -> Decimal | None:
        """As read; both databases give it without a float."""
        return None if value is None else Decimal(value)

    def to_python(self, value: Any) -> Decimal | None:
        """As assigned."""
        return None if value is None else Decimal(value)

    def get_prep_value(self, value: Any) -> str | None:
        """As written; raises decimal.Inexact for what does not fit."""
        return None if value is None else plain(Decimal(value))


class ExactSum(models.Aggregate):
    """The exact sum of an `ExactAmount` column; nothing where there are no rows.

    Where amounts are texts, their digits are added as three whole numbers (what stands before the
    point, the first eight places, the last seven), which cannot overflow below 10**10 rows.
    """

    function = "SUM"
    name = "ExactSum"
    allow_distinct = False

    def __init__(self, expression: Any, **extra: Any) -> None:
        super().__init__(expression, output_field=_SumField(), **extra)

    def as_sqlite(self, compiler: Any, connection: BaseDatabaseWrapper, **context: Any) -> Any:
        """Three sums in one text; `_SumField` puts them together."""
        if self.filter is not None:
            raise ValueError("filter the rows, not the sum")
        inner, params = compiler.compile(self.source_expressions[0])
        size = f"ltrim({inner}, '-')"
        sign = f"(CASE WHEN {inner} LIKE '-%%' THEN -1 ELSE 1 END)"
        dot = f"instr({size}, '.')"
        parts = (
            f"substr({size}, 1, {dot} - 1)",
            f"substr({size}, {dot} + 1, 8)",
            f"substr({size}, {dot} + 9, 7)",
        )
        sums = [f"SUM({sign} * CAST({part} AS INTEGER))" for part in parts]
        times = sum(f"{sum_}".count(inner) for sum_ in sums)
        return " || ' ' || ".join(sums), list(params) * times


class _SumField(ExactAmount):
    """Reads what `ExactSum` gives on either database."""

    def from_db_value(self, value: Any, *_: Any) -> Decimal | None:
        if value is None or isinstance(value, Decimal):
            return value
        if " " not in str(value):
            # A plain amount, from the other half of a union.
            return Decimal(value)
        units, high, low = (Decimal(part) for part in str(value).split(" "))
        return EXACT.add(EXACT.add(units, high.scaleb(-8)), low.scaleb(-15))
