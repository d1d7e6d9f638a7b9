"""How figures, durations and dates are said: one way each, wherever they stand."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace

import pytest
from django.template import engines
from django.utils import timezone

from accounts.errors import moment_words as refused_words
from portal.templatetags import measures
from scheduler.states import (
    budget_words,
    dates_in_words,
    days_in_words,
    moment_words,
    rough_span,
    span_of,
    stamp,
    until_words,
    whole_span,
)

pytestmark = pytest.mark.once

NOW = datetime(2026, 11, 20, 14, 32, 8, tzinfo=UTC)


def rendered(source: str, **context: object) -> str:
    return engines["django"].from_string(source).render(context).strip()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        ("soon", "–"),
        (True, "–"),
        (0, "0 s"),
        (-5, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (125, "2 min 5 s"),
        (35 * 60 + 9, "35 min"),
        (3600, "1 h"),
        (9 * 3600 + 12 * 60, "9 h 12 min"),
        (timedelta(hours=47, minutes=59), "47 h 59 min"),
        (timedelta(days=3, hours=4), "3 d 4 h"),
        (timedelta(days=2), "2 d"),
    ],
)
def test_duration(seconds: object, text: str) -> None:
    assert measures.duration(seconds) == text == measures.run_time(seconds)


def test_what_ran_for_less_than_a_second_did_run() -> None:
    assert measures.run_time(timedelta(milliseconds=400)) == "under 1 s"
    assert measures.duration(timedelta(milliseconds=400)) == "0 s"
    assert measures.run_time(timedelta()) == "0 s"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0"),
        (1, "0.00028"),
        (30, "0.0083"),
        (-30, "−0.0083"),
        (18, "0.005"),
        (50, "0.014"),
        (180, "0.05"),
        (359, "0.10"),
        (600, "0.17"),
        (-600, "−0.17"),
        (3582, "1.0"),
        (3600, "1.0"),
        (-44280, "−12.3"),
        (36_000_000, "10,000.0"),
        (None, "–"),
    ],
)
def test_gpu_hours_say_as_much_as_the_price_beside_them(seconds: object, text: str) -> None:
    assert measures.gpu_hours(seconds) == text


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        ((7200, 0), ["2.0", "0.0"]),
        ((600, 0), ["0.17", "0.00"]),
        ((360, 50), ["0.100", "0.014"]),
        ((600, 10), ["0.1667", "0.0028"]),
        ((3600 * 1234, 600), ["1,234.00", "0.17"]),
        ((3600 * 1234, 10, 1, -1), ["1,234.000", "0.003", "< 0.001", "> −0.001"]),
        ((), []),
    ],
)
def test_a_column_of_gpu_hours_has_one_number_of_digits(column, texts) -> None:
    rows = [SimpleNamespace(seconds=each) for each in column]
    source = """{% with places=rows|hour_places:"seconds" %}{% for row in rows %}
        {{ row.seconds|gpu_hours:places|safe }}|{% endfor %}{% endwith %}"""
    assert [one.strip() for one in rendered(source, rows=rows).split("|")[:-1]] == texts


def test_a_day_and_an_end_have_one_form() -> None:
    end = datetime(2026, 12, 1, tzinfo=UTC)
    source = "{{ day|day }} {% utc_day end %} {% until end %} {% absolute end %} {% at end %}"
    page = re.sub("<[^>]+>", "", rendered(source, day=end.date(), end=end))
    day = "1 Dec 2026"
    assert page == f"{day} {day} until {day} {day}, 00:00 UTC {day}, 00:00"


def test_an_end_in_a_hundred_years_is_none() -> None:
    end = timezone.now() + timedelta(days=36_500)
    assert rendered("{% until end %}|{% utc_day end %}", end=end) == "no end|no end"
    assert until_words(end, NOW) == "without end"
    assert until_words(NOW, NOW) == "until 20 Nov 2026"


@pytest.mark.parametrize(
    ("begin", "end", "words"),
    [
        ("2026-11-01", "2027-01-01", "1 Nov – 31 Dec 2026"),
        ("2026-11-01", "2026-12-01", "1 – 30 Nov 2026"),
        ("2026-11-01", "2027-02-01", "1 Nov 2026 – 31 Jan 2027"),
        ("2026-11-20", "2026-11-21", "20 Nov 2026"),
        ("2026-11-20T18:00", "2026-11-22T00:00:01", "20 – 22 Nov 2026"),
        ("2026-01-01", "2126-01-01", "1 Jan 2026 – no end"),
        ("2026-01-01", "2026-01-01", "1 Jan 2026"),
        ("2026-01-01", "9999-12-31T23:59:59.999999", "1 Jan 2026 – no end"),
    ],
)
def test_a_period_names_its_last_day(begin, end, words) -> None:
    span = {"begin": begin, "end": end}
    moments = {name: datetime.fromisoformat(at).replace(tzinfo=UTC) for name, at in span.items()}
    page = rendered("{% utc_days begin end %}", **moments)
    assert re.sub("<[^>]+>", "", page) == words
    assert budget_words("vision", **moments) == f"vision, {words}"


def test_what_is_left_is_never_less_than_nothing() -> None:
    source = "{{ left|money|or_over }} {{ hours|or_over }} {{ more|or_over }}"
    said = rendered(source, left=Decimal("-3.89"), hours=-4, more=12)
    assert said == "3.89 EUR over 4 over 12"


def test_what_is_added_is_told_from_what_is_booked() -> None:
    assert rendered("{{ 8|asked_as:'maximum' }} {{ 1200|asked_as:'money' }}") == "+8 +1,200"
    assert rendered("{{ 8|asked_as:'reservation' }}") == "8"


def test_stamps_of_facts_are_said_as_moments() -> None:
    said = "Starts no earlier than 2026-11-20 12:10 UTC; tried at 2026-11-20 12:10:05 UTC."
    words = "Starts no earlier than 20 Nov 2026, 12:10 UTC; tried at 20 Nov 2026, 12:10:05 UTC."
    assert dates_in_words(said) == words
    assert dates_in_words("of 2026-13-45 12:10 UTC") == "of 2026-13-45 12:10 UTC"
    assert dates_in_words(stamp(NOW)) == moment_words(NOW) == refused_words(NOW)
    assert days_in_words("team:2 2026-01-01 - 2027-01-01") == "team:2 1 Jan 2026 - 1 Jan 2027"
    assert days_in_words("2026-12-06 16:15") == "6 Dec 2026, 16:15"
    assert days_in_words("run-2026-12-06, 2026-12-06-b") == "run-2026-12-06, 2026-12-06-b"
    assert span_of(NOW, NOW + timedelta(hours=2)).endswith("14:32 to 20 Nov 2026, 16:32 UTC")


def test_spans_are_rough_or_whole_where_that_is_meant() -> None:
    assert (rough_span(352), rough_span(42)) == ("5 min", "42 s")
    assert (whole_span(90_065), whole_span(0)) == ("1 d 1 h 1 min 5 s", "0 s")
