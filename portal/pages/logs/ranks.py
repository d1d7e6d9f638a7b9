"""The logs of all ranks of an attempt together by time, or of up to four side by side; and in
which of them a text is found."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from accounts.errors import Invalid
from portal.forms.filters import unknown_parameters
from portal.pages.access import page, viewer_of
from portal.pages.job_page import job_frame
from portal.pages.logs.finding import LONGEST_S, finder_asked
from portal.pages.logs.window import WINDOW, read_number
from portal.reports.log_rows import MergedRow, arrival_of, gaps_above, has_pause, merged_rows
from portal.terminal import render_lines
from portal.terminal.search import Finder, find_lines
from scheduler.models import Job, Placement
from scheduler.selectors.logs import check_reader
from scheduler.selectors.one_job.header import job_with_header
from scheduler.selectors.printed.merging import Merged, every_stream, merged_log
from scheduler.selectors.printed.silences import Silence, silences_among
from scheduler.selectors.printed.windows import log_is_complete
from scheduler.states import EndReason, NodeState

PARAMETERS = ("attempt", "ranks", "before", "q", "mode", "part")
MOST_FOUND = 10_000
MOST_BESIDE = 4
_SPAN = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")


@dataclass(frozen=True, slots=True)
class FoundIn:
    """How many lines of a rank match and the first of them; `is_full`: at least so many."""

    rank: int
    url: str
    count: int
    first: int
    is_full: bool


@dataclass(frozen=True, slots=True)
class Search:
    """In which ranks a text was found, and for which of the others there was no time: their logs
    were not searched to the end."""

    found: Sequence[FoundIn]
    unsearched: Sequence[int]


@dataclass(frozen=True, slots=True)
class Column:
    """One rank beside others: its lines in the span that all of them show."""

    placement: Placement
    url: str
    rows: SafeString


@dataclass(slots=True)
class RanksAsk:
    """What the address asks for, as far as it could be read; `problems` name the rest."""

    attempt: int | None = None
    before: datetime | None = None
    find: Finder | None = None
    ranks: tuple[int, ...] = ()
    problems: list[str] = field(default_factory=list)


@page("GET")
def job_log_ranks(request: HttpRequest, pk: int) -> HttpResponseBase:
    """`?before=` a moment turns to earlier lines, `?q=` says in which ranks a text is found,
    `?ranks=0,3` puts these side by side."""
    viewer = viewer_of(request)
    is_part = request.GET.get("part") == "rows"
    header = job_with_header(viewer, pk, tries=True, calls=not is_part)
    job, attempts = header.job, header.attempts
    check_reader(viewer, job)
    ask = _read_ask(request)
    attempt = next((one for one in attempts if one.number == ask.attempt), None)
    if ask.attempt and attempt is None:
        ask.problems.append(f"attempt: there is no attempt {ask.attempt}; this is the latest one.")
    attempt = attempt or (attempts[-1] if attempts else None)
    placements = list(attempt.placements.all()) if attempt else []
    beside = _chosen(ask, placements)
    shown = beside or placements
    merged = merged_log(shown, before=ask.before, count=WINDOW)
    # Who looks for a text sees where it is; a question for whole logs is asked then.
    is_asked = not ask.find and _may_lack(merged, shown)
    silences = silences_among(shown) if is_asked else {}
    urls, rows = _urls(job, placements), list(_rows(merged, ask.find, silences))
    part = "#rows" if is_part else ""
    context = job_frame(viewer, header) | {
        "tab": "logs",
        "now": timezone.now(),
        "problems": ask.problems,
        "unknown": unknown_parameters(request.GET, PARAMETERS),
        "attempts": attempts,
        "attempt": attempt,
        "ranks": len(placements),
        "shown_ranks": _written(beside),
        "usual_ranks": _written(_usual(placements)) if len(placements) > 1 else "",
        "columns": [_column(one, urls, rows) for one in beside],
        "rows": "" if beside else merged_rows(rows, urls),
        "silent": [
            (one, gap.since)
            for one in shown
            for gap in silences.get(one.node_id, ())
            if gap.until is None
        ],
        "before": ask.before,
        "earlier": merged.before,
        "is_over": all(map(log_is_complete, shown)),
        "pruned": _pruned_at(shown),
        "q": request.GET.get("q", ""),
        "mode": "regex" if request.GET.get("mode") == "regex" else "",
        # What renews the lines marks them alone; whole logs are searched for the page.
        "search": _found(job, shown, ask.find) if ask.find and not part else None,
    }
    return render(request, f"jobs/logs/ranks.html{part}", context)


def _pruned_at(placements: Sequence[Placement]) -> datetime | None:
    """Since when nothing of any of these logs is kept; None while something is, or is to come."""
    moments = [one.log_pruned_at for one in placements if one.log_pruned_at]
    return max(moments) if moments and len(moments) == len(placements) else None


def _read_ask(request: HttpRequest) -> RanksAsk:
    ask = RanksAsk()
    try:
        ask.attempt = read_number(request, "attempt", low=1)
        ask.ranks = read_ranks(request.GET.get("ranks", ""))
        ask.before = _read_moment(request.GET.get("before", ""))
        ask.find = finder_asked(request)
    except Invalid as refused:
        ask.problems.append(refused.detail)
    return ask


def read_ranks(text: str) -> tuple[int, ...]:
    """`0,3` or `4-7`: up to four different ranks in their order. Raises Invalid."""
    found: set[int] = set()
    for part in text.replace(" ", "").split(",") if text.strip() else ():
        match = _SPAN.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        found |= set(range(first, min(last, first + MOST_BESIDE) + 1))
        if first > last or len(found) > MOST_BESIDE:
            raise Invalid(f"ranks: write up to {MOST_BESIDE} ranks, as 0,3 or 4-7.", field="ranks")
    return tuple(sorted(found))


def _chosen(ask: RanksAsk, placements: Sequence[Placement]) -> list[Placement]:
    """Those to put side by side; none for all of them by time."""
    there = [one for one in placements if one.rank in ask.ranks]
    if placements and len(there) < len(ask.ranks):
        last = placements[-1].rank
        ask.problems.append(f"ranks: this attempt has the ranks 0 to {last} and no others.")
    return there


def _usual(placements: Sequence[Placement]) -> list[Placement]:
    """Which to offer side by side: those that speak for the failure's cause, then the first."""
    evidence = placements[0].attempt.triage.get("evidence", ()) if placements else ()
    telling = {one.get("rank") for one in evidence}
    first = sorted(placements, key=lambda one: (one.rank not in telling, one.rank))
    return sorted(first[:MOST_BESIDE], key=lambda one: one.rank)


def _written(placements: Sequence[Placement]) -> str:
    return ",".join(str(one.rank) for one in placements)


def _column(placement: Placement, urls: Mapping[int, str], rows: Sequence[MergedRow]) -> Column:
    own = [row for row in rows if row.rank == placement.rank]
    return Column(placement, urls[placement.rank], merged_rows(own, urls, with_rank=False))


def _read_moment(text: str) -> datetime | None:
    """Seconds of the epoch as this page's links give them; None for none."""
    try:
        return datetime.fromtimestamp(float(text[:20]), tz=UTC) if text else None
    except (ValueError, OverflowError, OSError):
        raise Invalid("before: write seconds since 1970.", field="before") from None


def _urls(job: Job, placements: Sequence[Placement]) -> dict[int, str]:
    here = reverse("jobs:logs", args=[job.pk])
    return {
        one.rank: f"{here}?{urlencode({'attempt': one.attempt.number, 'rank': one.rank})}"
        for one in placements
    }


def _may_lack(merged: Merged, shown: Sequence[Placement]) -> bool:
    """Whether any of the nodes may have been silent; spares the question where none was."""
    return any(has_pause(one.arrivals) for one in merged.stretches) or any(
        one.node.state in (NodeState.SILENT, NodeState.LOST)
        or one.attempt.end_reason == EndReason.NODE_LOST
        for one in shown
    )


def _rows(
    merged: Merged, find: Finder | None, silences: Mapping[int, Sequence[Silence]]
) -> Iterator[MergedRow]:
    for stretch in merged.stretches:
        node, rank = stretch.placement.node, stretch.placement.rank
        gaps = gaps_above(silences.get(node.pk, ()), stretch.arrivals, node.name)
        for line in render_lines(stretch.raw, stretch.first_line).lines:
            at = arrival_of(stretch.arrivals, line.number)
            is_hit = find is not None and find(line.text.encode(), 0) >= 0
            left_out = stretch.left_out if line.number == stretch.first_line else 0
            yield MergedRow(at, rank, line, is_hit, gaps.get(line.number, ""), left_out)


def _found(job: Job, placements: Sequence[Placement], find: Finder) -> Search:
    """Rank by rank while there is time; the log of a rank goes on where this one stops."""
    urls, until = _urls(job, placements), time.monotonic() + LONGEST_S
    by_number = {one.pk: one for one in placements}
    found_in: list[FoundIn] = []
    left = {one.rank for one in placements if one.log_size}
    for number, pieces in every_stream(placements):
        placement = by_number[number]
        found = find_lines(
            pieces,
            1,
            find,
            most=MOST_FOUND,
            is_over=lambda: time.monotonic() > until,
            with_rest=log_is_complete(placement),
        )
        rank, is_full = placement.rank, bool(found.next_line)
        if found.lines:
            found_in.append(FoundIn(rank, urls[rank], len(found.lines), found.lines[0], is_full))
        if found.lines or not is_full:
            left.discard(rank)
        if time.monotonic() > until:
            break
    else:
        left.clear()
    return Search(sorted(found_in, key=lambda one: one.rank), sorted(left))
