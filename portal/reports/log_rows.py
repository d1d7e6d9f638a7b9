"""Rows of the log window, the same for pages and for the socket."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import escape
from itertools import pairwise

from django.utils import timezone
from django.utils.safestring import SafeString, mark_safe

from portal.terminal import RenderedLine
from scheduler.selectors.printed.silences import Silence

GROUP, GROUP_END = "::group::", "::endgroup::"
# No node is called silent sooner than that.
_PAUSE = timedelta(seconds=5)
Arrivals = Sequence[tuple[int, datetime]]


def has_pause(arrivals: Arrivals) -> bool:
    """Whether so much time lies between two arrivals that the node may have been silent."""
    return any(later - at >= _PAUSE for (_, at), (_, later) in pairwise(arrivals))


def gaps_above(silences: Iterable[Silence], arrivals: Arrivals, node: str) -> dict[int, str]:
    """What stands above the line that came first after each silence, by that line's number."""
    found = {}
    for gap in silences:
        line = next((line for line, at in arrivals if at >= gap.since), None)
        if line is None or gap.until is None:
            continue
        # The socket sends one row to everybody who follows: it has no zone of its own.
        since, until = gap.since.astimezone(UTC), gap.until.astimezone(UTC)
        form = "%H:%M:%S" if since.date() == until.date() else "%-d %b %Y, %H:%M:%S"
        found[line] = (
            f"{node} was not heard {since:%-d %b %Y, %H:%M:%S} to {until:{form}} UTC; "
            "what it wrote meanwhile stands below, 0 bytes were lost"
        )
    return found


def log_rows(
    lines: Iterable[RenderedLine], arrivals: Arrivals = (), gaps: Mapping[int, str] | None = None
) -> SafeString:
    """One element a line, its id the line's number; the text was escaped by portal.terminal.

    `data-t` is the second at which the line had come; `gaps`: what stands above a line, within its
    element, so that numbers and counts of rows stay. A line `::group::name` becomes the head of
    a group, `::endgroup::` its end; the download keeps both as they are.
    """
    above = gaps or {}
    starts = [first for first, _ in arrivals]
    seconds = [int(at.timestamp()) for _, at in arrivals]
    return mark_safe(  # noqa: S308 - portal.terminal escapes all it lets through
        "".join(
            _row(line, _second(starts, seconds, line.number), above.get(line.number, ""))
            for line in lines
        )
    )


def _second(starts: list[int], seconds: list[int], line: int) -> str:
    at = bisect_right(starts, line) - 1
    return f' data-t="{seconds[at]}"' if at >= 0 else ""


def _row(line: RenderedLine, came: str, gap: str) -> str:
    """Numbers are no stops of the Tab key: there are thousands, and `y` links the line that is
    found, chosen or at the top."""
    css, shown = _grouped(line, '<button type="button" class="fold">{}</button>')
    if line.cut_bytes:
        shown += ' <button type="button" class="lnk whole">show it</button>'
    above = f'<p class="gap">{escape(gap)}</p>' if gap else ""
    return (
        f'<div class="{css}" id="L{line.number}"{came}>{above}'
        f'<a href="#L{line.number}" tabindex="-1">{line.number}</a><span>{shown}</span></div>'
    )


def _grouped(line: RenderedLine, head: str) -> tuple[str, str]:
    """Classes and content of a line; the name of a group stands in `head`. Its end is not shown,
    but for what stands above it."""
    if line.text.startswith(GROUP):
        return "ln lg", head.format(escape(line.text.removeprefix(GROUP).strip() or "group"))
    if line.text.startswith("::") and line.text.rstrip() == GROUP_END:
        return "ln le", ""
    return "ln", line.html


@dataclass(frozen=True, slots=True)
class MergedRow:
    """A line among those of other ranks; `is_hit`: what was searched for is in it; `above`: what a
    reader should know before it; `left_out`: so many lines before it are in the rank's own log."""

    at: datetime
    rank: int
    line: RenderedLine
    is_hit: bool = False
    above: str = ""
    left_out: int = 0


def merged_rows(
    rows: Iterable[MergedRow], urls: Mapping[int, str], *, with_rank: bool = True
) -> SafeString:
    """Rows by time with the time of each and a link to its line in the log of its rank.

    `urls`: by rank the address of its log. A group's name heads it and its end is no line; nothing
    folds here, where lines of other ranks stand among them.
    """
    ordered = sorted(rows, key=lambda row: (row.at, row.rank, row.line.number))
    return mark_safe(  # noqa: S308 - portal.terminal escapes all it lets through
        "".join(_merged_row(row, urls[row.rank], with_rank) for row in ordered)
    )


def _merged_row(row: MergedRow, url: str, with_rank: bool) -> str:
    css, shown = _grouped(row.line, "{}")
    rank = f"<b>{row.rank}</b> " if with_rank else ""
    return (
        f'<div class="{css}{" hit" if row.is_hit else ""}"'
        f' data-at="{timezone.localtime(row.at):%H:%M:%S}">{_above(row, url)}'
        f'<a href="{escape(url)}#L{row.line.number}">{rank}{row.line.number}</a>'
        f"<span>{shown}</span></div>"
    )


def _above(row: MergedRow, url: str) -> str:
    said = escape(row.above)
    if row.left_out:
        lines = f"{row.left_out} line{'' if row.left_out == 1 else 's'}"
        said += (
            f"{'. ' if said else ''}Before it {lines} of rank {row.rank} came in the same time: "
            f'<a href="{escape(url)}#L{max(1, row.line.number - row.left_out)}">in its own log</a>'
        )
    return f'<p class="gap">{said}</p>' if said else ""


def arrival_of(arrivals: Arrivals, line: int) -> datetime:
    """When a line had come; of one before them all the first."""
    return arrivals[max(0, bisect_right([first for first, _ in arrivals], line) - 1)][1]
