"""Tables in the order of a column, page by page: what a page goes on behind is a value, and a tie.

Rows without a value stand last, whichever way the others go. The rows of a page are picked by
number first, so that an index can give their order however many there are, and read in full after.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar, cast

from django.db.models import F, Model, Q, QuerySet
from django.db.models.expressions import Combinable

Value = datetime | int | str | None
Place = tuple[Value, int | str]
Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True, slots=True)
class Column:
    """What rows are put in order by. `tie` is unique; equal values stand in its order.

    `may_lack`: some rows have no value. `falls_first`: whether people want the highest first.
    """

    by: Combinable
    kind: type[datetime] | type[int] | type[str]
    tie: str = "pk"
    tie_kind: type[int] | type[str] = int
    may_lack: bool = False
    falls_first: bool = True


NUMBER = Column(F("pk"), int)


def page_in_order(
    rows: QuerySet[Row], column: Column, *, falls: bool, after: Place | None, limit: int
) -> list[Row]:
    """The next `limit` rows behind `after`, each with its `sort_value`; one statement."""
    if column is NUMBER:
        if after is not None:
            rows = rows.filter(**{f"pk__{'lt' if falls else 'gt'}": after[1]})
        return list(in_order(rows, column, falls=falls)[:limit])
    named = rows.order_by().alias(sort_value=column.by)
    picked = _picked(named, column, falls=falls, after=after, limit=limit)
    return list(in_order(rows.filter(pk__in=picked), column, falls=falls)[:limit])


def in_order(rows: QuerySet[Row], column: Column, *, falls: bool) -> QuerySet[Row]:
    """Rows by a column, each with its `sort_value`; for tables of few rows."""
    if column is NUMBER:
        return _valued(rows, column).order_by(_tie(column, falls))
    value = F("sort_value")
    order = value.desc(nulls_last=True) if falls else value.asc(nulls_last=True)
    return _valued(rows, column).order_by(order, _tie(column, falls))


def _valued(rows: QuerySet[Row], column: Column) -> QuerySet[Row]:
    return cast("QuerySet[Row]", rows.annotate(sort_value=column.by))


def place_of(row: Any, column: Column) -> Place:
    """Where a row of a page stands: what the next one goes on behind."""
    return row.sort_value, getattr(row, column.tie)


def _tie(column: Column, falls: bool) -> str:
    return f"{'-' if falls else ''}{column.tie}"


def _picked(
    rows: QuerySet[Any], column: Column, *, falls: bool, after: Place | None, limit: int
) -> QuerySet[Any, Any]:
    side = "lt" if falls else "gt"
    tie, order = _tie(column, falls), f"{'-' if falls else ''}sort_value"
    having = rows
    if after is not None and after[0] is not None:
        value, mark = after
        # The bound again as a plain range: an index begins there.
        behind = Q(**{f"sort_value__{side}": value}) | Q(
            **{"sort_value": value, f"{column.tie}__{side}": mark}
        )
        having = having.filter(behind, **{f"sort_value__{side}e": value})
    if not column.may_lack:
        return having.order_by(order, tie).values("pk")[:limit]
    having = having.filter(sort_value__isnull=False)
    without = rows.filter(sort_value__isnull=True)
    if after is not None and after[0] is None:
        without = without.filter(**{f"{column.tie}__{side}": after[1]})
        return without.order_by(tie).values("pk")[:limit]
    # SQLite takes no limit inside a union, so each part is a list of numbers first.
    keys = rows.model._base_manager.order_by().values("pk")
    parts = [
        keys.filter(pk__in=part.values("pk")[:limit])
        for part in (having.order_by(order, tie), without.order_by(tie))
    ]
    return parts[0].union(parts[1], all=True)
