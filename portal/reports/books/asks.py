"""What a URL asks of a report: month, filters, order, place, file format; wrong values in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime

from portal.reports.books.files import FORMATS, Style
from portal.reports.books.pivots import Pivot
from scheduler.ledger.periods import Month
from scheduler.selectors.books.frame import NARROWS, Ask

FILTERS = NARROWS
_PIVOT = ("by", "across", "figure")
PARAMETERS = (
    "period",
    *FILTERS,
    *_PIVOT,
    "columns",
    "rows",
    "after",
    "format",
    "of",
    "bom",
    "separator",
    "raw",
)
_SEPARATORS = {"": ",", "comma": ",", "semicolon": ";"}
_SWITCH = {"": None, "0": False, "1": True}
_MOST = 200
_MAX_ID = 2**63 - 1


@dataclass(slots=True)
class Wish:
    """A parsed query; with `problems` (field, sentence) the rest is not to be used."""

    ask: Ask
    after: int = 0
    form: str = ""
    of: str = "csv"
    style: Style = field(default_factory=Style)
    pivot: Pivot = field(default_factory=Pivot)
    has_details: bool = False
    has_all_rows: bool = False
    problems: list[tuple[str, str]] = field(default_factory=list)


def parse_wish(query: Mapping[str, str], *, now: datetime, period: str = "") -> Wish:
    """`period` is the month where none is named; empty: the one of now."""
    found = {name: query.get(name, "").strip() for name in PARAMETERS}
    wish = Wish(Ask(""))
    month = found["period"] or period or str(Month.of(int(now.timestamp())))
    try:
        month = str(Month.parse(month))
    except ValueError as error:
        wish.problems.append(("period", str(error).removeprefix("period: ")))
        month = str(Month.of(int(now.timestamp())))
    for name in (*FILTERS, *_PIVOT):
        if len(found[name]) > _MOST or "\x00" in found[name]:
            wish.problems.append((name, f"must be plain text of at most {_MOST} characters"))
            found[name] = ""
    wish.after = _whole(wish, "after", found["after"])
    attempt = _whole(wish, "attempt", found["attempt"])
    _whole(wish, "rate", found["rate"])
    month = _month_of_days(wish, found) or month
    names = {name: found[name] for name in FILTERS if name not in ("attempt", "from", "to")}
    names |= {"since": found["from"], "until": found["to"]}
    wish.ask = Ask(month, attempt=attempt, now_s=int(now.timestamp()), **names)
    wish.pivot = Pivot(*(found[name] for name in _PIVOT))
    wish.has_details = _one_of(wish, "columns", found["columns"], ("", "all")) == "all"
    wish.has_all_rows = _one_of(wish, "rows", found["rows"], ("", "all")) == "all"
    wish.form = _one_of(wish, "format", found["format"], ("", *FORMATS))
    wish.of = _one_of(
        wish, "of", found["of"] or "csv", tuple(f for f in FORMATS if f != "manifest")
    )
    separator = _one_of(wish, "separator", found["separator"], tuple(_SEPARATORS))
    bom = _one_of(wish, "bom", found["bom"], tuple(_SWITCH))
    raw = _one_of(wish, "raw", found["raw"], tuple(_SWITCH))
    wish.style = Style(
        separator=_SEPARATORS[separator], has_bom=_SWITCH[bom] is not False, is_raw=raw == "1"
    )
    return wish


def _month_of_days(wish: Wish, found: dict[str, str]) -> str:
    """The month the first day asked for lies in; days that are none are said and forgotten."""
    months = []
    for name in ("from", "to"):
        if not found[name]:
            continue
        try:
            day = date.fromisoformat(found[name])
            if not 2000 <= day.year <= 2999 or len(found[name]) != 10:
                raise ValueError
        except ValueError:
            words = f"{found[name][:20]!r} is not a day; write it like 2026-11-20"
            wish.problems.append((name, words))
            found[name] = ""
        else:
            months.append(f"{day:%Y-%m}")
    return months[0] if months else ""


def _one_of(wish: Wish, name: str, value: str, known: tuple[str, ...]) -> str:
    if value in known:
        return value
    words = ", ".join(word for word in known if word)
    wish.problems.append((name, f"{value[:20]!r} is not known; choose from {words}"))
    return known[0]


def _whole(wish: Wish, name: str, text: str) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= _MAX_ID):
        wish.problems.append((name, f"{text[:20]!r} is not a whole number from 0 up"))
        return 0
    return int(text)
