"""GPU time by week, day or month: at work or idle, and what it cost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Annotated, Any

import typer

from portal.cli.client import Api
from portal.cli.config import load_config
from portal.cli.output import print_json, print_table
from portal.cli.session import AsJson
from scheduler.ledger.shares import places_that_add_up, rounded, rounded_to
from scheduler.states import hour_places, hours_words

_PATH = "/finance/reports/use-and-waste/"
_SECONDS = ("held", "work", "idle", "unread", "around", "reserved_idle")
_AMOUNTS = ("amount", "idle_amount")
_HEADS = (
    "HELD",
    "AT WORK",
    "IDLE",
    "NOT MEASURED",
    "SET-UP",
    "RESERVED",
    "COST",
    "FOR IDLE",
    "COST IS",
)
_WEEKS = timedelta(weeks=7)
_PART = 1000
# What is held is the sum of these.
_OF_HELD = ("work", "idle", "unread", "around")
_HOUR_S = 3600
_NOT_PRICED = "not priced yet"


class Span(StrEnum):
    """Lengths of time, as the report's columns are called."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"


def usage(
    by: Annotated[Span, typer.Option(help="A row for each of these; in UTC.")] = Span.WEEK,
    since: Annotated[
        str,
        typer.Option("--from", help="First day, such as 2026-11-02; else 7 weeks before Monday."),
    ] = "",
    until: Annotated[str, typer.Option("--to", help="Last day, itself included; today.")] = "",
    team: Annotated[str, typer.Option(help="Only this team.")] = "",
    project: Annotated[str, typer.Option("--project", "-p", help="Only this team/project.")] = "",
    as_json: AsJson = False,
) -> None:
    """Show GPU hours that you (or the teams you lead) held, at work and idle, and their cost."""
    today = datetime.now(UTC).date()
    monday = today - timedelta(days=today.weekday()) - _WEEKS
    asked = {"from": since or f"{monday}", "to": until or f"{today}"}
    asked |= {name: text for name, text in (("team", team), ("project", project)) if text}
    with Api(load_config()) as api:
        rows, currency = _rows(api, asked)
    found = _folded(rows, by)
    if as_json:
        items = [{by.value: key, **row} for key, row in found.items()]
        print_json({"items": items, "currency": currency, **asked})
        return
    seconds = [row[f"{name}_gpu_seconds"] for row in found.values() for name in _SECONDS]
    places = places_that_add_up(seconds, hour_places(seconds))
    cells = [_cells(key, row, currency, places) for key, row in found.items()]
    print_table((by.value.upper(), *_HEADS), cells, "No GPU was held in this time.")


def _rows(api: Api, asked: dict[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """All rows of the report, by its columns, and the currency of its amounts."""
    rows: list[dict[str, Any]] = []
    after: int | None = 0
    currency = ""
    while after is not None:
        page = api.get(_PATH, limit=_PART, after=after, **asked)
        rows += [dict(zip(page["columns"], row, strict=True)) for row in page["rows"]]
        after, currency = page["next_after"], page["currency"]
    return rows, currency


def _folded(rows: list[dict[str, Any]], by: Span) -> dict[str, dict[str, Any]]:
    """Sums by a length of time, the latest first: seconds whole, amounts exact, as text; None for
    an amount of which nothing was priced yet."""
    found: dict[str, dict[str, Any]] = {}
    unpriced: set[tuple[str, str]] = set()
    for row in sorted(rows, key=lambda row: str(row["day"]), reverse=True):
        empty: dict[str, Any] = {f"{name}_gpu_seconds": 0 for name in _SECONDS}
        empty |= dict.fromkeys(_AMOUNTS, "0") | {"cost_is": "final"}
        sums = found.setdefault(row[by.value], empty)
        for name in _SECONDS:
            sums[f"{name}_gpu_seconds"] += int(row[f"{name}_gpu_seconds"])
        for name in _AMOUNTS:
            if row[name] is None:
                unpriced.add((row[by.value], name))
            sums[name] = f"{Decimal(sums[name]) + Decimal(row[name] or 0):f}"
        if row["stands"] != "final":
            sums["cost_is"] = row["stands"]
    for key, name in unpriced:
        if not Decimal(found[key][name]):
            found[key][name] = None
    return found


def _cells(key: str, row: dict[str, Any], currency: str, places: int) -> list[object]:
    seconds = {name: row[f"{name}_gpu_seconds"] for name in _SECONDS}
    hours = {name: f"{hours_words(held, places)} h" for name, held in seconds.items()}
    if seconds["held"] == sum(seconds[name] for name in _OF_HELD):
        # As the page prints them: the parts of what is held add up to it.
        exact = [Fraction(seconds[name] * 10**places, _HOUR_S) for name in ("held", *_OF_HELD)]
        parts = rounded_to(rounded(exact[0]), exact[1:])
        for name, part in zip(_OF_HELD, parts, strict=True):
            hours[name] = f"{Decimal(part).scaleb(-places):,.{places}f} h"
    amounts = [
        _NOT_PRICED if row[name] is None else f"{Decimal(row[name]):.2f} {currency}"
        for name in _AMOUNTS
    ]
    return [key, *hours.values(), *amounts, row["cost_is"]]
