"""Times as pages say them: in the zone of the page, whole and with that zone on hover.

A day is `25 Nov 2026`, a moment `25 Nov 2026, 14:32`, within today `14:32:08`; nothing else.
`scheduler.states` says the same in sentences.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from html import escape

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from portal.templatetags import measures
from scheduler.states import day_words, is_endless, period_days

MOMENT = "%-d %b %Y, %H:%M"
# What begins at a moment is not within what ends there.
_LEAST = timedelta(microseconds=1)


def local(moment: datetime) -> datetime:
    """In the zone of the page; in its own where the calendar ends before that."""
    try:
        return timezone.localtime(moment)
    except OverflowError:
        return moment


def zone_word(moment: datetime) -> str:
    """`UTC`, `CET`; a zone without a word of its own says how far it is from UTC."""
    word = moment.tzname() or ""
    return f"UTC{word}" if word[:1] in ("+", "-") else word


def _time_element(moment: object, text: str, tick: str = "") -> SafeString:
    if not isinstance(moment, datetime):
        return format_html("{}", measures.NOTHING)
    shown, whole = local(moment), moment.astimezone(UTC).replace(microsecond=0)
    # Put together by hand: lists have hundreds of them.
    live = f' data-tick="{tick}"' if tick else ""
    title = f"{shown:{MOMENT}:%S} {zone_word(shown)}".rstrip()
    return SafeString(
        f'<time datetime="{whole.replace(tzinfo=None).isoformat()}Z" '
        f'title="{title}"{live}>{escape(text)}</time>'
    )


def _age(moment: object, now: datetime | None) -> str:
    if not isinstance(moment, datetime):
        return ""
    return measures.duration((now or timezone.now()) - moment)


def ago(moment: object, now: datetime | None = None) -> SafeString:
    """`3 min ago` with the absolute time and zone on hover; page.js keeps it current."""
    return _time_element(moment, f"{_age(moment, now)} ago", "ago")


def since(moment: object, now: datetime | None = None) -> SafeString:
    """`9 h 12 min` since `moment`, with the absolute time on hover; page.js keeps it current."""
    return _time_element(moment, _age(moment, now), "since")


def clock(
    moment: object, now: datetime | None = None, form: str = "%H:%M:%S", beside: object = None
) -> SafeString:
    """The local time of day within today, else the moment; full time and zone on hover. `beside`:
    the other end of a span, which has to be of today as well, so that both ends say their days."""
    if not isinstance(moment, datetime):
        return _time_element(moment, "")
    shown, today = local(moment), local(now or timezone.now())
    other = local(beside) if isinstance(beside, datetime) else today
    if shown.date() == today.date() == other.date():
        return _time_element(moment, f"{shown:{form}}")
    return _time_element(moment, f"{shown:{MOMENT}}")


def absolute(moment: object, form: str = MOMENT) -> SafeString:
    """`20 Nov 2026, 14:32 UTC`; seconds where they say something, by `form`."""
    if not isinstance(moment, datetime):
        return _time_element(moment, "")
    shown = local(moment)
    return _time_element(moment, f"{shown:{form}} {zone_word(shown)}".rstrip())


def at(moment: object, form: str = MOMENT) -> SafeString:
    """`20 Nov 2026, 14:32`: for tables whose head names the zone; seconds by `form`."""
    if not isinstance(moment, datetime):
        return _time_element(moment, "")
    return _time_element(moment, f"{local(moment):{form}}")


def utc_day(moment: object) -> SafeString:
    """The day of UTC, by which limits and budgets begin and end; it says so where the page is in
    another zone. `no end` where the moment stands for none."""
    if not isinstance(moment, datetime):
        return _time_element(moment, "")
    if is_endless(moment, timezone.now()):
        return SafeString("no end")
    return _time_element(moment, f"{day_words(moment.astimezone(UTC))}{_where()}")


def _where() -> str:
    """Said of days of UTC where the page is in another zone."""
    return "" if timezone.get_current_timezone_name() == "UTC" else " (UTC)"


def utc_days(begin: object, end: object) -> SafeString:
    """`1 Nov – 31 Dec 2026`: the days of UTC that lie between two moments, the last one itself
    included; `1 Nov 2026 – no end`, and of one day that day."""
    if not isinstance(begin, datetime) or not isinstance(end, datetime):
        return _time_element(None, "")
    first, last = period_days(begin, end)
    if is_endless(end, begin):
        return format_html("{} – {}", _time_element(begin, first), last)
    shown = _time_element(max(begin, end - _LEAST), f"{last}{_where()}")
    return shown if first == last else format_html("{} – {}", _time_element(begin, first), shown)


def until(moment: object) -> SafeString:
    """`until 20 Nov 2026`, by `utc_day`, or `no end`."""
    shown = utc_day(moment)
    if not isinstance(moment, datetime) or is_endless(moment, timezone.now()):
        return shown
    return format_html("until {}", shown)


def day(whole: object) -> SafeString:
    """`{{ row.since|day }}`: a day of the calendar that lies in no zone, `20 Nov 2026`."""
    if not isinstance(whole, date):
        return format_html("{}", measures.NOTHING)
    if isinstance(whole, datetime):
        whole = local(whole)
    return SafeString(f'<time datetime="{whole:%Y-%m-%d}">{day_words(whole)}</time>')


TAGS = (ago, since, clock, absolute, at, utc_day, utc_days, until)
