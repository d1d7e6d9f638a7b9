"""How long people waited on each day, as a picture; the table below it says the same."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from portal.templatetags import measures
from scheduler.selectors.waits.hours import WaitHistory

# Of a day with its gap, of a bar, and of what stands left of, above and below the bars.
_STEP, _WIDE, _LEFT, _TOP, _HIGH, _BELOW = 10, 8, 30, 8, 72, 12
LEGEND = (("u4", "half waited at most"), ("u2", "nine of ten waited at most"))
# Ends of the scale that people can halve in their heads.
_ENDS_S = (
    *(10, 60, 120, 600, 1200, 3600, 2 * 3600, 4 * 3600, 8 * 3600, 12 * 3600, 24 * 3600),
    *(2 * 86400, 4 * 86400, 7 * 86400, 14 * 86400, 28 * 86400),
)


def days_picture(history: WaitHistory) -> SafeString:
    """A bar for each day up to what nine of ten waited, before it a darker one for half of them."""
    longest = max((waits.p90_s or 0 for _, waits in history.by_day), default=0)
    top = next((end for end in _ENDS_S if end >= longest), longest)
    lines = [(_at(share), measures.duration(top * share)) for share in (0, 0.5, 1)]
    right = _LEFT + _STEP * len(history.by_day)
    return format_html(
        '<svg class="weekmap" viewBox="0 0 {} {}" role="img" aria-label="{}">{}{}{}{}</svg>',
        right,
        _TOP + _HIGH + _BELOW,
        days_summary(history),
        format_html_join(
            "",
            '<path class="hair" d="M{} {}H{}"/>',
            ((_LEFT, y, right) for y, _ in lines),
        ),
        format_html_join("", '<text x="0" y="{}">{}</text>', ((y + 2, said) for y, said in lines)),
        format_html_join("", '<text x="{}" y="{}">{}</text>', _names(history)),
        format_html_join(
            "",
            '<rect class="{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>',
            _bars(history, top),
        ),
    )


def days_summary(history: WaitHistory) -> str:
    """The picture in a sentence."""
    waited = [(waits, day) for day, waits in history.by_day if waits.p50_s is not None]
    if not waited:
        return "Nobody started on these days."
    waits, day = max(waited, key=lambda one: one[0].p90_s or 0)
    half, most = (measures.duration(value or 0) for value in (waits.p50_s, waits.p90_s))
    return (
        f"What half and nine of ten waited at most on each of {len(history.by_day)} days; the "
        f"longest waits were those of {day.day} {day:%b}: {half} and {most}. The table below says "
        "the same."
    )


def _at(share: float) -> float:
    return round(_TOP + _HIGH * (1 - share), 1)


def _names(history: WaitHistory) -> Iterator[tuple[int, int, str]]:
    for number, (day, _) in enumerate(history.by_day):
        if number % 7 == 0:
            yield _LEFT + _STEP * number, _TOP + _HIGH + 9, f"{day.day} {day:%b}"


def _bars(history: WaitHistory, top: float) -> Iterator[tuple[str, int, float, int, float, str]]:
    for number, (day, waits) in enumerate(history.by_day):
        for css, value, words in (("u2", waits.p90_s, "nine of ten"), ("u4", waits.p50_s, "half")):
            if value is not None:
                # A wait of a second is a wait: it has a line to point at.
                high = max(round(_HIGH * value / top, 1) if top else 0, 0.5)
                said = f"{day.day} {day:%b}, {words} waited at most {measures.duration(value)}"
                x, y = _LEFT + _STEP * number, round(_TOP + _HIGH - high, 1)
                yield css, x, y, _WIDE, high, said
