"""Rows of the log window, the same for pages and for the socket."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape

from django.utils.safestring import SafeString, mark_safe

from portal.terminal import RenderedLine

GROUP, GROUP_END = "::group::", "::endgroup::"
Arrivals = Sequence[tuple[int, datetime]]


def log_rows(lines: Iterable[RenderedLine], arrivals: Arrivals = ()) -> SafeString:
    """One element a line, its id the line's number; the text was escaped by portal.terminal.

    `data-t` is the second at which the line had come. A line `::group::name` becomes the head of
    a group, `::endgroup::` its end; the download keeps both as they are.
    """
    starts = [first for first, _ in arrivals]
    seconds = [int(at.timestamp()) for _, at in arrivals]
    return mark_safe(  # noqa: S308 - portal.terminal escapes all it lets through
        "".join(_row(line, _second(starts, seconds, line.number)) for line in lines)
    )


def _second(starts: list[int], seconds: list[int], line: int) -> str:
    at = bisect_right(starts, line) - 1
    return f' data-t="{seconds[at]}"' if at >= 0 else ""


def _row(line: RenderedLine, came: str) -> str:
    css, shown = "ln", line.html
    if line.text.startswith("::"):
        if line.text.startswith(GROUP):
            name = escape(line.text.removeprefix(GROUP).strip() or "group")
            css, shown = "ln lg", f'<button type="button" class="fold">{name}</button>'
        elif line.text.rstrip() == GROUP_END:
            css, shown = "ln le", ""
    if line.cut_bytes:
        shown += ' <button type="button" class="lnk whole">show it</button>'
    return (
        f'<div class="{css}" id="L{line.number}"{came}>'
        f'<a href="#L{line.number}">{line.number}</a><span>{shown}</span></div>'
    )
