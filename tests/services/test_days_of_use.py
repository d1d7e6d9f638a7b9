"""Use by day from sums equals what every entry says, whoever counted when."""

from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta
from decimal import Decimal
from itertools import chain

import pytest
from django.db import transaction
from django.db.models import Sum

from accounts.models import Project
from scheduler.models import Allocation, DayOfUse, DaysCounted, UsageEntry
from scheduler.selectors.sharing.reach import projects_of
from scheduler.selectors.sharing.use import counted_upto, parts_of_use
from scheduler.services.timeline import days
from scheduler.services.timeline.days import count_days
from tests import scenes
from tests.scenes import NOON, at

pytestmark = pytest.mark.django_db
PRICES = [Decimal(text) for text in ("0", "3.6", "0.000001", "7.123457")]
DAY_S = 86_400


class History:
    """Entries of two people and three projects, over twelve days, in no order."""

    def __init__(self, seed, root, owners) -> None:
        self.draws, self.now_s = random.Random(seed), 0
        cluster = scenes.build_cluster(root, gpus=len(owners))
        for owner, project in owners:
            scenes.start(scenes.submit(owner, project), cluster.node(1))
        self.held = list(Allocation.objects.select_related("placement__attempt__job"))

    def add(self) -> None:
        for _ in range(self.draws.randint(1, 12)):
            held = self.draws.choice(self.held)
            begin = at(self.draws.randrange(-6 * DAY_S, 6 * DAY_S, 1800))
            UsageEntry.objects.create(
                kind=UsageEntry.Kind.ADJUSTMENT,
                allocation=held,
                attempt=held.placement.attempt,
                job=held.placement.attempt.job,
                project=held.placement.attempt.job.project,
                device_model="X",
                period_start=begin,
                period_end=begin + timedelta(hours=1),
                gpu_seconds=self.draws.randint(-3600, 3600),
                unit_price=self.draws.choice(PRICES),
                currency="EUR",
                cost=0,
            )

    def count(self) -> int:
        self.now_s += self.draws.choice((10, 600))
        return count_days(now=at(self.now_s))

    def span(self):
        begin, end = sorted(self.draws.randrange(-7 * DAY_S, 7 * DAY_S, 600) for _ in range(2))
        if self.draws.random() < 0.3:
            begin -= (begin + 12 * 3600) % DAY_S
        return at(begin), at(end)


def summed(projects, since, until, counted):
    asked = {"since": since, "until": until, "counted": counted}
    plain = parts_of_use(projects, **asked)
    named = parts_of_use(projects, **asked, by_person=True)
    by_day, by_person = Counter(), Counter()
    for day, price, seconds in chain(
        *(part.values_list("on_day", "unit_price", "gpu_seconds") for part in plain)
    ):
        by_day[day, price] += seconds
    for person, seconds in chain(*(part.values_list("whose", "gpu_seconds") for part in named)):
        by_person[person] += seconds
    return by_day, by_person


def entry_by_entry(projects, since, until):
    by_day, by_person = Counter(), Counter()
    for entry in UsageEntry.objects.select_related("job"):
        inside = projects is None or entry.project_id in set(projects.values_list("pk", flat=True))
        if inside and since <= entry.period_start < until:
            day = entry.period_start.replace(hour=0, minute=0)
            by_day[day, entry.unit_price] += entry.gpu_seconds
            by_person[entry.job.owner_id] += entry.gpu_seconds
    return by_day, by_person


@pytest.mark.parametrize("seed", range(4))
def test_sums_of_days_equal_the_entries_however_they_came(
    seed, root, alice, bob, carol, project, other_project, monkeypatch
):
    monkeypatch.setattr(days, "AT_ONCE", 7)
    history = History(seed, root, [(alice, project), (bob, project), (carol, other_project)])
    whose = [None, projects_of(project.team_id), Project.objects.filter(pk=other_project.pk)]
    read = 0
    for turn in range(12):
        before = counted_upto()
        history.add()
        if turn % 3:
            history.count()
        since, until = history.span()
        projects = history.draws.choice(whose)
        wanted = entry_by_entry(projects, since, until)
        assert summed(projects, since, until, counted_upto()) == wanted
        # Whoever had read how far it was counted just before that reads the same.
        assert summed(projects, since, until, before) == wanted
        read += bool(wanted[0])
    history.now_s += 3600
    for _ in range(2):
        history.count()
        history.now_s += 3600
    assert read > 3 and counted_upto() == UsageEntry.objects.latest("pk").pk
    keys = list(DayOfUse.objects.values_list("project", "day", "person", "unit_price"))
    assert len(keys) == len(set(keys)), "one row for each day, person and price in the end"
    total = sum(DayOfUse.objects.values_list("gpu_seconds", flat=True))
    assert total == sum(UsageEntry.objects.values_list("gpu_seconds", flat=True))


def test_a_count_is_not_repeated_nor_made_twice_at_once(root, alice, project):
    history = History(1, root, [(alice, project)])
    history.add()
    assert count_days(now=NOON) > 0
    history.add()
    assert count_days(now=NOON + timedelta(seconds=5)) == 0, "readers may be under way"
    state = DaysCounted.objects.get()
    with transaction.atomic():
        # Somebody else went on from the same place in the meantime.
        assert not days._count(state.upto - 1, state.upto + 5, NOON)
    assert DaysCounted.objects.get().upto == state.upto
    assert count_days(now=NOON + timedelta(hours=1)) > 0
    assert count_days(now=NOON + timedelta(hours=2)) == 0


@pytest.mark.once
@pytest.mark.parametrize("by_person", [False, True])
def test_what_is_not_counted_is_found_by_number_however_it_is_summed(project, by_person):
    """Not along an index in the order of the sums: that goes through all that ever was."""
    whose = Project.objects.filter(pk=project.pk)
    span = {"since": at(-6 * DAY_S), "until": at(6 * DAY_S), "counted": 7, "by_person": by_person}
    found = []
    for part in parts_of_use(whose, **span):
        sums = part.order_by().values("whose" if by_person else "project_id", "unit_price")
        found.append(sums.annotate(seconds=Sum("gpu_seconds")).explain())
    (later,) = (plan for plan in found if "PRIMARY KEY (rowid>" in plan)
    assert "scheduler_usageentry USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)" in later
    assert not any("SCAN scheduler_usageentry" in plan for plan in found)
