"""Rows of the log window, the same for pages and for the socket."""

from __future__ import annotations

from collections.abc import Iterable

from django.utils.safestring import SafeString, mark_safe

from portal.terminal import RenderedLine


def log_rows(lines: Iterable[RenderedLine]) -> SafeString:
    """One element a line, its id the line's number; the text was escaped by portal.terminal."""
    return mark_safe(  # noqa: S308 - portal.terminal escapes all it lets through
        "".join(
            f'<div class="ln" id="L{line.number}"><a href="#L{line.number}">{line.number}</a>'
            f"<span>{line.html}</span></div>"
            for line in lines
        )
    )
