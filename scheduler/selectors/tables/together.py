"""Small things of several kinds in one statement: each a number, three words and a moment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import BigIntegerField, DateTimeField, F, QuerySet, TextField, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Cast

_WHOLE, _TEXT, _MOMENT = BigIntegerField(), TextField(), DateTimeField()
_COLUMNS = ("what_", "number_", "word_", "more_", "last_", "at_")


class Small(NamedTuple):
    """One of them, with its columns as its part named them; what it did not name is empty."""

    number: int
    word: str
    more: str
    last: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one kind, under the name `what`, and the fields or expressions of its columns."""

    what: str
    rows: QuerySet[Any]
    number: str = "pk"
    word: str | Combinable = ""
    more: str | Combinable = ""
    last: str | Combinable = ""
    at: str = ""

    def tagged(self) -> QuerySet[Any, tuple[Any, ...]]:
        """Its rows in the shape that all kinds share."""
        rows = self.rows
        if rows.query.is_sliced:  # no database takes a limit within a union
            rows = rows.model._base_manager.filter(pk__in=rows.values("pk"))
        words = {
            f"{name}_": Cast(_read(field) if field else Value(""), _TEXT)
            for name, field in (("word", self.word), ("more", self.more), ("last", self.last))
        }
        return (
            rows.order_by()
            .annotate(
                what_=Value(self.what),
                number_=Cast(F(self.number), _WHOLE),
                at_=Cast(F(self.at) if self.at else Value(None), _MOMENT),
                **words,
            )
            .values_list(*_COLUMNS)
        )


def _read(field: str | Combinable) -> Combinable:
    return F(field) if isinstance(field, str) else field


def together(*parts: Part) -> dict[str, list[Small]]:
    """What there is of each kind, in no order."""
    return {**{part.what: [] for part in parts}, **by_kind(as_one(*parts))}


def as_one(*parts: Part) -> QuerySet[Any, tuple[Any, ...]]:
    """The one statement, which is still to be asked; `by_kind` reads its rows."""
    first, *others = [part.tagged() for part in parts]
    return first.union(*others, all=True) if others else first


def by_kind(rows: Iterable[tuple[Any, ...]]) -> dict[str, list[Small]]:
    """What there is of each kind; of one that is asked for and not there an empty list."""
    found: dict[str, list[Small]] = defaultdict(list)
    for what, number, word, more, last, at in rows:
        found[what].append(Small(number, word or "", more or "", last or "", at))
    return found
