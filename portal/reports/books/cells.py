"""One cell in every shape: as files, JSON and pages say it. Never a float."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal
from functools import cache

from django.apps import apps
from django.utils import timezone

from portal.templatetags import measures
from portal.templatetags.measures import price_text, shortest
from portal.templatetags.moments import MOMENT
from portal.templatetags.wording import action_words, end_words, words
from scheduler.ledger.rating import is_recovery
from scheduler.selectors.books.frame import Cell, Column, Form
from scheduler.states import day_words, is_endless

# Columns whose texts are the code's own words.
_WORDS = frozenset({"bucket", "cause", "enforcement", "what"})
_OVER_OR_UNDER = frozenset({"variance", "variance_amount", "variance_gpu_seconds"})
# Amounts that were divided: no price that anybody set, whose digits all count.
_MEANS = frozenset({"per_run"})
_HALF_A_CENT, _FEW_CENTS, _MOST_PLACES = Decimal("0.005"), Decimal("0.1"), 6


@cache
def _things() -> dict[str, str]:
    """What there is rows of, in words, by the one word that the audit keeps."""
    return {str(it._meta.model_name): str(it._meta.verbose_name) for it in apps.get_models()}


def exact_text(cell: Cell) -> str:
    """The cell in full: decimals without exponent, moments in UTC; nothing is an empty text."""
    if cell is None:
        return ""
    if isinstance(cell, Decimal):
        return shortest(cell)
    if isinstance(cell, datetime):
        return cell.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(cell, date):
        return cell.isoformat()
    return str(cell)


def json_cell(cell: Cell) -> str | int | None:
    """As the API sends it: whole numbers as numbers, decimals as text, so that none is rounded."""
    return cell if cell is None or isinstance(cell, int) else exact_text(cell)


def is_hours(column: Column) -> bool:
    """Whether a page shows it as hours."""
    is_titled = column.title.endswith(" h") or "GPU-h" in column.title
    return column.form is Form.HOURS or (column.form is Form.SECONDS and is_titled)


def seconds_of(cell: Cell) -> int | Decimal | None:
    """What stands in a column that a page shows as hours."""
    if isinstance(cell, Decimal):
        return cell * 3600
    return cell if isinstance(cell, int) else None


def shown(column: Column, cell: Cell, places: int | None = None) -> str:
    """As a page shows it, `_plain`; what is over says so by its sign."""
    return over_sign(column, cell) + _plain(column, cell, places)


def over_sign(column: Column, cell: Cell) -> str:
    """`+` before a figure that is over, where a column says what is over or under."""
    is_over = column.name in _OVER_OR_UNDER and isinstance(cell, int | Decimal) and cell > 0
    return "+" if is_over else ""


def _plain(column: Column, cell: Cell, places: int | None = None) -> str:
    """As a page shows it: amounts to two places, seconds as hours of so many places, days and
    moments in words, moments in UTC. `places` of a column of amounts: of those of a few cents, and
    of exact ones of all."""
    if cell is None or cell == "":
        return "—"
    if is_hours(column):
        return measures.gpu_hours(seconds_of(cell), places)
    if isinstance(cell, Decimal):
        if column.is_exact:
            return all_digits(cell, places or 0)
        if column.form is Form.PRICE and column.name not in _MEANS:
            return price_text(cell)
        return two_places(cell, places) + (" %" if column.form is Form.PERCENT else "")
    if column.form is Form.SECONDS and isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, datetime):
        if column.name == "valid_until" and is_endless(cell, timezone.now()):
            return "no end"
        return f"{cell.astimezone(UTC):{MOMENT}}"
    if isinstance(cell, date):
        return day_words(cell)
    return short_text(column.name, exact_text(cell)) if isinstance(cell, str) else exact_text(cell)


def short_text(name: str, text: str) -> str:
    """GPU models by their short names, words of the code as words; names of people as they are."""
    if name == "flavour":
        return measures.device_short_name(text)
    if name == "sku":
        flavour, _, kind = text.rpartition(":")
        if is_recovery(text):
            return f"pool {flavour}, {words(kind)}"
        return f"{measures.device_short_name(flavour)}, {words(kind)}" if flavour else text
    if name == "action":
        return action_words(text)
    if name == "prices":
        return ", ".join(price_text(Decimal(price)) for price in text.split(", "))
    if name == "kind":
        return words(text)
    if name == "subject":
        return _things().get(text) or words(text)
    if name == "end_reason":
        return end_words(text)
    return text.replace("_", " ") if name in _WORDS else text


def two_places(amount: Decimal, places: int | None = None) -> str:
    """Two decimals; less than half a cent with its sign and first two digits. With `places`, as a
    column has them in which there are such, a few cents have so many as well."""
    if places is not None and is_few_cents(amount):
        rounded = amount.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
        if rounded:
            return f"{rounded:,f}".replace("-", "−")
    return measures.money(amount, "").strip()


def all_digits(amount: Decimal, places: int = 0) -> str:
    """In full, with two decimals at least, or so many where a column has more."""
    own = len(shortest(amount).partition(".")[2])
    return f"{amount:,.{max(2, own, places)}f}".replace("-", "−")


def exact_places(cells: Iterable[Cell]) -> int:
    """The decimals of a column of exact amounts: those of its longest."""
    found = (shortest(cell).partition(".")[2] for cell in cells if isinstance(cell, Decimal))
    return max(map(len, found), default=0)


def is_few_cents(cell: Cell) -> bool:
    """Whether an amount is something, and less than so many cents."""
    return isinstance(cell, Decimal) and 0 < abs(cell) < _FEW_CENTS


def is_small(cell: Cell) -> bool:
    """Whether an amount is something, and two decimals would show nothing of it."""
    return isinstance(cell, Decimal) and bool(cell) and abs(cell) < _HALF_A_CENT


def amount_places(cells: Iterable[Cell]) -> int | None:
    """The decimals of a column's amounts of a few cents, where some are less than half a cent: as
    many as show two digits of the smallest, so that they add up as they stand there. None where
    none is so small."""
    needed = [1 - cell.adjusted() for cell in cells if isinstance(cell, Decimal) and is_small(cell)]
    return min(max(needed), _MOST_PLACES) if needed else None
