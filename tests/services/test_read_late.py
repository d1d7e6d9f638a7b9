"""Late readings undo no more than they have to, and nothing keeps hours unsummed for ever."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models import F

from scheduler.conf import load_conf
from scheduler.models import HoursSummed, SummedHour
from scheduler.selectors.books.slugs.wasted.asked import idle_as
from scheduler.selectors.books.slugs.wasted.hours import hours_of
from scheduler.services.timeline.readings import hours, late, pieces
from scheduler.services.timeline.readings.hours import sum_hours
from tests.scenes import at
from tests.services.test_read_hours import (
    FIRST,
    HOUR_S,
    every_minute,
    held,
    reads,
    told,
    window,
)

pytestmark = pytest.mark.django_db
assert held, "its fixture"


@pytest.fixture
def clock(monkeypatch):
    """A minute of readings takes a second to sum."""
    now = [0.0]
    write = pieces.PieceOfHour.write

    def slow(hour, turn):
        begin_s = hour.known.until_s if hour.known else hour.hour_s
        now[0] += (hour.upto_s - begin_s) / 60
        return write(hour, turn)

    monkeypatch.setattr(pieces.PieceOfHour, "write", slow)
    monkeypatch.setattr(hours, "monotonic", lambda: now[0])
    monkeypatch.setattr(hours, "_first_hour", lambda now, conf: int(at(FIRST).timestamp()))
    return now


def summed() -> dict[int, int]:
    """Seconds that are summed of each hour, by its number since the first."""
    first_s = int(at(FIRST).timestamp())
    rows = SummedHour.objects.filter(hour_s__gte=first_s)
    return {(one.hour_s - first_s) // HOUR_S: one.until_s - one.hour_s for one in rows}


def turn() -> int:
    return HoursSummed.objects.get().turn


def test_a_late_reading_undoes_its_hour_alone(held):
    node, uuid, attempt = held
    every_minute(held, FIRST, FIRST + 2 * HOUR_S)
    now = at(FIRST + 2 * HOUR_S + 100)
    sum_hours(now=now)
    count = SummedHour.objects.count()
    reads(node, now, (uuid, attempt.pk, FIRST + 2 * HOUR_S + 30, 0.0))
    assert SummedHour.objects.count() == count, "nobody has summed so far"
    before = told(now)[1]
    reads(node, now, (uuid, attempt.pk, FIRST + HOUR_S - 0.5, 100.0))
    assert SummedHour.objects.filter(until_s__gt=F("hour_s")).count() == count - 1
    plain, summed = told(now)
    assert summed == plain != before
    # More than an hour late: it rests.
    assert sum_hours(now=now) == 0
    later = now + timedelta(seconds=late.REST_S + 1)
    assert sum_hours(now=later) == 2 and told(later)[1] == plain


def test_a_clock_that_stays_behind_undoes_the_running_hour_once(held):
    node, uuid, attempt = held
    every_minute(held, FIRST, FIRST + 600, 50.0)
    turns, raw = [], []
    for minute in range(10, 40):
        now = FIRST + 60 * minute
        for ahead in (0, 30):
            # By its clock it is three minutes earlier.
            reads(node, at(now + ahead), (uuid, attempt.pk, now + ahead - 185.25, 0.0))
        sum_hours(now=at(now + 31))
        turns.append(turn())
        raw.append(now + 31 - FIRST - summed()[0])
        plain, kept = told(at(now + 31))
        assert plain == kept
    assert turns[-1] == turns[3], "before it was known that it stays so"
    assert max(raw[5:]) <= 185 + 60 + 1
    # It is put right: ten minutes later sums go on to their usual end.
    sum_hours(now=at(FIRST + 60 * 40 + 700))
    assert summed()[0] == 60 * 40 + 700 - late.YOUNG_S


def test_a_node_that_was_away_for_a_while_is_not_behind(held):
    node, uuid, attempt = held
    every_minute(held, FIRST, FIRST + 600)
    sum_hours(now=at(FIRST + 600))
    both = [(uuid, attempt.pk, FIRST + second, 0.0) for second in (30.5, 590.5)]
    reads(node, at(FIRST + 600), *both)
    assert turn() == 1 and summed().get(0) is None
    sum_hours(now=at(FIRST + 600))
    assert summed()[0] == 600 - late.YOUNG_S


@pytest.mark.parametrize("hour", [0, 2])
def test_an_hour_that_takes_long_and_is_undone_each_time_keeps_no_other_unsummed(held, clock, hour):
    node, uuid, attempt = held
    every_minute(held, FIRST, FIRST + 3 * HOUR_S, 0.0)
    now = at(FIRST + 3 * HOUR_S)
    for run in range(25):
        moment = FIRST + hour * HOUR_S + 1.25 + run
        reads(node, now, (uuid, attempt.pk, moment, 0.0))
        sum_hours(now=now, within_s=30)
    whole = {0: HOUR_S, 1: HOUR_S, 2: HOUR_S - late.YOUNG_S}
    assert {one: upto for one, upto in summed().items() if one != hour} == {
        one: upto for one, upto in whole.items() if one != hour
    }
    assert told(now)[0] == told(now)[1]


def test_what_is_undone_in_a_run_is_summed_in_the_same(held, monkeypatch):
    node, uuid, attempt = held
    every_minute(held, FIRST, FIRST + HOUR_S, 0.0)
    now, write, came = at(FIRST + HOUR_S + 200), pieces.PieceOfHour.write, []

    def writes(hour, turn):
        if not came and hour.hour_s == at(FIRST).timestamp():
            came.append(reads(node, now, (uuid, attempt.pk, FIRST + 1.5, 100.0)))
        return write(hour, turn)

    monkeypatch.setattr(pieces.PieceOfHour, "write", writes)
    sum_hours(now=now)
    assert came and summed()[0] == HOUR_S
    assert told(now)[0] == told(now)[1]


def test_sums_end_before_what_somebody_may_still_write(held, monkeypatch):
    every_minute(held, FIRST, FIRST + 900, 0.0)
    now = at(FIRST + 900)
    monkeypatch.setattr(late, "writing_for_s", lambda: 45.5)
    sum_hours(now=now)
    assert summed()[0] == 900 - late.YOUNG_S - 46
    monkeypatch.undo()
    sum_hours(now=now + timedelta(seconds=1))
    assert summed()[0] == 901 - late.YOUNG_S


def test_an_hour_rests_while_a_node_that_is_further_behind_goes_on_speaking_of_it(
    held, monkeypatch
):
    node, uuid, attempt = held
    every_minute(held, FIRST, FIRST + 2 * HOUR_S, 50.0)
    begin, write, written = FIRST + 2 * HOUR_S, pieces.PieceOfHour.write, []

    def writes(hour, turn):
        written.append(hour.hour_s)
        return write(hour, turn)

    sum_hours(now=at(begin))
    assert summed()[0] == HOUR_S
    monkeypatch.setattr(pieces.PieceOfHour, "write", writes)
    for second in range(0, 600, 30):
        now = begin + second
        # By its clock it is an hour and a half earlier.
        reads(node, at(now), (uuid, attempt.pk, now - 5400.25, 0.0))
        if second % 60 == 0:
            sum_hours(now=at(now + 1))
        plain, kept = told(at(now + 1))
        assert plain == kept
    assert int(at(FIRST).timestamp()) not in written and written
    sum_hours(now=at(begin + 570 + late.REST_S - 1))
    assert summed()[0] == 0
    sum_hours(now=at(begin + 570 + late.REST_S + 1))
    assert summed()[0] == HOUR_S and summed()[1] == HOUR_S


def test_what_stands_after_an_undo_is_there_for_who_reads_it_later(held):
    node, uuid, attempt = held
    every_minute(held, FIRST, FIRST + HOUR_S, 0.0)
    sum_hours(now=at(FIRST + HOUR_S + 200))
    reads(node, at(FIRST + HOUR_S + 200), (uuid, attempt.pk, FIRST + 300.5, 100.0))
    assert summed().get(0) is None
    sum_hours(now=at(FIRST + 600 + late.YOUNG_S))
    then = at(FIRST + 660)
    # Somebody has learned how far sums reach, and reads them after the next run.
    hours = hours_of(window(then), idle_as(load_conf()))
    hour_s, _, until_s = hours.summed[-1]
    assert (hour_s, until_s - hour_s) == (int(at(FIRST).timestamp()), 600)
    sum_hours(now=at(FIRST + 1200 + late.YOUNG_S))
    plain, kept = told(then, hours)
    assert plain == kept
