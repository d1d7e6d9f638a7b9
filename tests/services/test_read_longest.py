"""The longest idle time of a GPU is the same from summed hours as from raw readings."""

from __future__ import annotations

import random

import pytest

from scheduler.conf import load_conf
from scheduler.models import HourOfIdle
from scheduler.selectors.books.seconds import read_idle
from scheduler.selectors.books.slugs.wasted.asked import all_within, idle_as
from scheduler.selectors.books.slugs.wasted.hours import hours_of
from scheduler.selectors.books.slugs.wasted.longest import read_longest
from scheduler.services.telemetry import prune_telemetry
from scheduler.services.timeline.readings.hours import sum_hours
from tests.scenes import at
from tests.selectors.test_reports import opened
from tests.services.test_read_hours import DAY_S, HOUR_S, MIDNIGHT, Night, window

pytestmark = pytest.mark.django_db


def both(now):
    """By attempt: readings, how many of them idle, the longest idle time; raw and summed."""
    conf, windows = load_conf(), window(now)
    plain = all_within(windows, ()).readings
    summed = all_within(windows, (), hours_of(windows, idle_as(conf))).readings
    found = read_idle(plain.samples, plain.rolled_up, conf), read_longest(summed, conf)
    return [
        {pk: (one.readings, one.idle, one.longest_s) for pk, one in read.items()} for read in found
    ]


@pytest.mark.parametrize("seed", range(2))
def test_summed_and_raw_say_the_same(seed, root, alice, lead, project):
    night = Night(seed, root, alice, project)
    draws, longest = random.Random(seed), 0
    while night.second < MIDNIGHT + 2 * HOUR_S:
        night.goes_on(draws.choice((60, 600, 3000)))
        if draws.random() < 0.8:
            sum_hours(now=night.now)
        raw, summed = both(night.now)
        assert summed == raw
        longest = max([longest, *(one[2] for one in raw.values())])
    assert longest > 2 * load_conf().idle_span_s and HourOfIdle.objects.exists()
    now_s = int(night.now.timestamp())
    before = [opened(who, "idle-waste", now_s=now_s)[0] for who in (root, alice)]
    prune_telemetry(now=at(night.second + DAY_S + 2 * HOUR_S))
    assert not HourOfIdle.objects.exists()
    assert [opened(who, "idle-waste", now_s=now_s)[0] for who in (root, alice)] == before
