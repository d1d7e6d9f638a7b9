"""Hours of readings say the same summed as raw, whatever came late and whatever went."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from scheduler.conf import load_conf
from scheduler.models import (
    DeviceHour,
    DeviceSample,
    HourOfReadings,
    SpanBegun,
    SummedDay,
    SummedHour,
)
from scheduler.selectors.books.slugs.wasted import use
from scheduler.selectors.books.slugs.wasted.asked import all_within, idle_as
from scheduler.selectors.books.slugs.wasted.hours import Hours, hours_of
from scheduler.selectors.books.slugs.wasted.readings import idle_by_day
from scheduler.services.kept.pruning import prune_kept, set_retention
from scheduler.services.telemetry import ingest_samples, prune_telemetry
from scheduler.services.timeline.readings import late, pieces
from scheduler.services.timeline.readings.hours import sum_hours
from scheduler.services.timeline.wasted_days import sum_again, sum_days
from scheduler.wire import messages
from tests import scenes
from tests.scenes import at, ended, running, start, submit, sync
from tests.selectors.test_reports import opened

pytestmark = pytest.mark.django_db
HOUR_S, DAY_S = 3600, 86_400
# Midnight after the noon that scenes begin at.
MIDNIGHT = 12 * HOUR_S
SPAN = {"since": "2026-11-20", "until": "2026-11-22"}


def window(now):
    """Both days of the scenes, up to now."""
    return ((int(at(-MIDNIGHT).timestamp()), int(now.timestamp())),)


def told(now, hours: Hours | None = None):
    """By attempt and day, from raw readings and from what is summed."""
    conf, windows = load_conf(), window(now)
    hours = hours or hours_of(windows, idle_as(conf))
    plain = all_within(windows, ()).readings
    summed = all_within(windows, (), hours).readings
    return tuple(idle_by_day(one, conf, windows[0][1]) for one in (plain, summed))


def reads(node, now, *readings):
    """The call of a node that brings readings: (uuid, attempt, second after noon, per cent)."""
    samples = tuple(
        messages.DeviceSample(uuid, at(second).timestamp(), percent, 1, 1.0, 1.0, attempt)
        for uuid, attempt, second, percent in readings
    )
    request = messages.SyncRequest(
        protocol=3, agent_version="", agent_id="", boot_id="", seen_revision=0, hold_s=0,
        sent_at=now.timestamp(), samples=samples,
    )  # fmt: skip
    return ingest_samples(node=node, request=request, now=now)


class Night:
    """Three GPUs read from some hours before midnight to some after it: one all the time, one in
    attempts that follow each other, one whose node keeps its readings for up to three hours."""

    def __init__(self, seed, root, alice, project) -> None:
        self.draws = random.Random(seed)
        self.node = scenes.build_cluster(root, nodes=1, gpus=3).node(1)
        self.second: float = MIDNIGHT - 5 * HOUR_S
        self.owner, self.held = (alice, project), []
        self.unsent: list[Any] = []
        for _ in range(3):
            self.held.append(self._start())

    def _start(self):
        now = at(self.second)
        attempt = start(submit(*self.owner, now=now), self.node, now=now)
        sync(self.node, running(attempt), now=now)
        uuid = attempt.placements.get().allocations.get().device.uuid
        return attempt, uuid

    def goes_on(self, seconds) -> None:
        """Readings of that time, and what comes of it at its end."""
        until = self.second + seconds
        readings: list[Any] = []
        while (second := self.second) < until:
            step = self.draws.choice((37, 61, 113, 300, 0.25, 299.75))
            # Just at the hour's edge, and just before.
            edge = second - second % HOUR_S + HOUR_S
            self.second = (
                edge - self.draws.choice((0, 0.001))
                if second < edge < second + step
                else second + step
            )
            for place, (attempt, uuid) in enumerate(self.held):
                percent = self.draws.choice((0, 0, 4, 5, 9, 80.5, None))
                one = (uuid, attempt.pk, second, percent)
                (self.unsent if place == 2 else readings).append(one)
        if self.draws.random() < 0.15:
            readings += self.unsent
            self.unsent = []
        reads(self.node, self.now, *readings)
        if self.draws.random() < 0.2:
            sync(self.node, ended(self.held[1][0]), now=self.now)
            self.held[1] = self._start()

    @property
    def now(self):
        """The moment it is."""
        return at(self.second)


@pytest.mark.parametrize("seed", range(3))
def test_summed_hours_equal_raw_readings_however_late(
    seed, root, alice, lead, project, monkeypatch
):
    night = Night(seed, root, alice, project)
    draws = random.Random(seed)
    while night.second < MIDNIGHT + 5 * HOUR_S:
        night.goes_on(draws.choice((60, 60, 240, 600, 3000)))
        if draws.random() < 0.8:
            sum_hours(now=night.now, within_s=draws.choice((0, 60)))
        plain, summed = told(night.now)
        assert summed == plain
    assert HourOfReadings.objects.exists()
    reads(night.node, night.now, *night.unsent)
    plain, summed = told(night.now)
    assert summed == plain, "hours late"
    night.second += late.REST_S + 1
    sum_hours(now=night.now)
    plain, summed = told(night.now)
    assert summed == plain
    raw = hours_of(window(night.now), idle_as(load_conf())).raw
    assert night.now.timestamp() - raw[-1][0] < 91, "only the last moments are raw"
    assert len(raw) == 2, "and those that may be rolled up meanwhile"
    people, span = (root, lead, alice), SPAN | {"now_s": int(night.now.timestamp())}
    seen = [opened(viewer, "use-and-waste", **span)[0] for viewer in people]
    monkeypatch.setattr(use, "_FEW", 0)
    assert opened(alice, "use-and-waste", **span)[0] == seen[2], "of many attempts"
    with transaction.atomic():
        sum_again()
        assert seen == [opened(viewer, "use-and-waste", **span)[0] for viewer in people]
        transaction.set_rollback(True)
    assert seen[0] and seen[0] == seen[2]


@pytest.fixture
def held(root, alice, project):
    """A GPU that an attempt holds, from three hours before midnight."""
    node = scenes.build_cluster(root, nodes=1, gpus=1).node(1)
    now = at(MIDNIGHT - 3 * HOUR_S)
    attempt = start(submit(alice, project, now=now), node, now=now)
    sync(node, running(attempt), now=now)
    return node, attempt.placements.get().allocations.get().device.uuid, attempt


def every_minute(held, begin, end, percent=0.0):
    """Read by the minute, and told at once."""
    node, uuid, attempt = held
    for second in range(begin, end, 60):
        reads(node, at(second + 1), (uuid, attempt.pk, second, percent))


FIRST = MIDNIGHT - 2 * HOUR_S


def test_each_run_goes_on_where_the_last_one_ended(held, monkeypatch):
    every_minute(held, FIRST, FIRST + HOUR_S + 600)
    read = []
    spans = pieces.idle_spans
    monkeypatch.setattr(
        pieces, "idle_spans", lambda rows, conf: read.append(rows.count()) or spans(rows, conf)
    )
    sum_hours(now=at(FIRST + 1000))
    sum_hours(now=at(FIRST + 1060))
    sum_hours(now=at(FIRST + 1060))
    assert sum(read) == 17, "once each"
    row = SummedHour.objects.get(hour_s=at(FIRST).timestamp())
    assert (row.until_s - row.hour_s, row.spans_s - row.hour_s) == (970, 900)
    now = at(FIRST + HOUR_S + 600)
    assert told(now)[0] == told(now)[1]
    assert sum_hours(now=now) == 2
    assert told(now)[0] == told(now)[1]
    for hours in (3, 4):
        sum_hours(now=now + timedelta(hours=hours))
    assert SpanBegun.objects.count() == 0
    assert HourOfReadings.objects.filter(hour_s=row.hour_s).count() == 1, "of readers before"


def test_who_sums_while_a_late_reading_comes_writes_nothing(held):
    node, uuid, attempt = held
    every_minute(held, FIRST, FIRST + HOUR_S)
    now, hour_s = at(FIRST + HOUR_S + 200), int(at(FIRST).timestamp())
    turn = late.begin(now)
    hour = pieces.PieceOfHour(hour_s, hour_s + HOUR_S, None, load_conf())
    reads(node, now, (uuid, attempt.pk, FIRST + 1.5, 100.0))
    later = hour.write(turn)
    assert later != turn and not HourOfReadings.objects.exists()
    assert hour.write(later) == later and HourOfReadings.objects.exists()
    late.begin(now)
    assert hour.write(later) is None, "somebody else has begun"


def test_who_has_begun_to_read_is_told_the_same_while_somebody_sums(held):
    node, uuid, attempt = held
    every_minute(held, FIRST, FIRST + HOUR_S + 1000)
    now = at(FIRST + HOUR_S + 900)
    for earlier in (500, 700):
        sum_hours(now=at(FIRST + HOUR_S + earlier))
    hours = hours_of(window(now), idle_as(load_conf()))
    sum_hours(now=now)
    plain, summed = told(now, hours)
    assert summed == plain, "the sums before are there"
    reads(node, now, (uuid, attempt.pk, FIRST + 61.5, 100.0))
    assert told(now, hours)[1] == plain, "as they were when it began"
    assert told(now)[1] == told(now)[0] != plain


def test_another_rule_makes_sums_count_for_nothing(held, settings):
    every_minute(held, FIRST, FIRST + 2 * HOUR_S, 20.0)
    now = at(FIRST + 2 * HOUR_S + 100)
    sum_hours(now=now)
    before = told(now)[1]
    settings.TRAINYARD = settings.TRAINYARD | {"idle_below_percent": 30, "idle_span_s": 700}
    assert not hours_of(window(now), idle_as(load_conf())).summed
    plain, summed = told(now)
    assert summed == plain != before
    assert sum_hours(now=now) and told(now) == (plain, plain)


def test_sums_go_when_their_readings_are_rolled_up_or_pruned(held, lead, project):
    node, _, attempt = held
    every_minute(held, FIRST, FIRST + 2 * HOUR_S + 60)
    sync(node, ended(attempt), now=at(FIRST + 2 * HOUR_S + 60))
    sum_hours(now=at(FIRST + 2 * HOUR_S + 200))
    before = told(at(FIRST + 2 * HOUR_S + 200))[0]
    later = at(FIRST + HOUR_S + DAY_S)
    hours = hours_of(window(later), idle_as(load_conf()))
    prune_telemetry(now=later)
    assert DeviceHour.objects.exists() and DeviceSample.objects.exists()
    (left,) = HourOfReadings.objects.all()
    assert left.hour_s == at(FIRST + HOUR_S).timestamp() and SpanBegun.objects.exists()
    assert told(later) == (before, before) == told(later, hours)
    set_retention(actor=lead, project=project, log_days=None, file_days=None, sample_days=1)
    prune_kept(now=at(FIRST + 2 * HOUR_S + DAY_S + 120))
    assert not DeviceSample.objects.exists() and not HourOfReadings.objects.exists()
    assert told(later) == (before, before)


def test_a_day_is_summed_from_its_hours(held, root):
    every_minute(held, FIRST, MIDNIGHT + HOUR_S)
    now = at(MIDNIGHT + 2 * HOUR_S + 60)
    sum_hours(now=now)
    before, _ = opened(root, "use-and-waste", **SPAN, now_s=int(now.timestamp()))
    assert sum_days(now=now) and SummedDay.objects.exists()
    assert opened(root, "use-and-waste", **SPAN, now_s=int(now.timestamp()))[0] == before
    assert [row["unread_gpu_seconds"] for row in before] == [0, 0]


def test_a_rule_that_was_and_is_again_finds_what_it_had_summed(held, settings):
    every_minute(held, FIRST, FIRST + HOUR_S)
    sum_hours(now=at(FIRST + 1000))
    rule, now = settings.TRAINYARD, at(FIRST + 3 * HOUR_S)
    settings.TRAINYARD = rule | {"idle_below_percent": 30}
    sum_hours(now=now, within_s=0)
    settings.TRAINYARD = rule
    assert told(now)[0] == told(now)[1]
    sum_hours(now=now)
    assert told(now)[0] == told(now)[1]


def test_a_reading_just_before_an_hour_s_end_is_of_that_hour(held):
    node, uuid, attempt = held
    now = at(FIRST + HOUR_S + 200)
    reads(node, now, (uuid, attempt.pk, FIRST + HOUR_S - 0.0001, 0.0))
    sum_hours(now=now)
    plain, summed = told(now)
    assert summed == plain and HourOfReadings.objects.get().readings == 1
