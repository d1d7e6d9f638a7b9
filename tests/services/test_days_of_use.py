"""Use by day from sums equals what every entry says, whoever counted when."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from datetime import timedelta
from decimal import Decimal
from itertools import chain

import pytest
from django.db import transaction
from django.db.models import Sum

from accounts.models import Project
from scheduler.models import Allocation, DayOfJobs, DayOfUse, DaysCounted, UsageEntry
from scheduler.selectors.sharing.reach import projects_of
from scheduler.selectors.sharing.reckoning import daily_use, daily_uses
from scheduler.selectors.sharing.use import (
    MODEL,
    NAMES,
    PERSON,
    counted_upto,
    jobs_of_use,
    parts_of_use,
)
from scheduler.services.sharing.budgets import set_budget
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
        cluster = scenes.build_cluster(root, gpus=2 * len(owners))
        for owner, project in owners * 2:
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
                device_model=self.draws.choice("XY"),
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
    by_day = Counter()
    for day, price, seconds in chain(
        *(part.values_list("on_day", "unit_price", "gpu_seconds") for part in plain)
    ):
        by_day[day, price] += seconds
    return by_day, *(summed_by(by, projects, asked) for by in (PERSON, MODEL))


def summed_by(by, projects, asked):
    named, sums = parts_of_use(projects, **asked, by=by), Counter()
    for whose, seconds in chain(*(part.values_list("whose", "gpu_seconds") for part in named)):
        sums[whose] += seconds
    return sums


def entry_by_entry(projects, since, until):
    by_day, by_person, by_model = Counter(), Counter(), Counter()
    for entry in UsageEntry.objects.select_related("job"):
        inside = projects is None or entry.project_id in set(projects.values_list("pk", flat=True))
        if inside and since <= entry.period_start < until:
            day = entry.period_start.replace(hour=0, minute=0)
            by_day[day, entry.unit_price] += entry.gpu_seconds
            by_person[entry.job.owner_id] += entry.gpu_seconds
            by_model[entry.device_model] += entry.gpu_seconds
    return by_day, by_person, by_model


def jobs_of_all(projects, since, until, counted):
    """How many jobs were charged, for each thing to group by and each group."""
    found = {}
    for by in NAMES:
        found[by] = Counter()
        span = {"since": since, "until": until, "counted": counted, "by": by}
        for _, names, jobs in jobs_of_use(projects, **span):
            found[by]["/".join(names)] += jobs
    return found


def jobs_one_by_one(projects, since, until):
    jobs = {by: defaultdict(set) for by in NAMES}
    entries = UsageEntry.objects.filter(
        project__in=projects, period_start__gte=since, period_start__lt=until
    )
    for entry in entries.select_related("job__owner", "project__team"):
        team, project = entry.project.team.slug, entry.project.slug
        groups = team, f"{team}/{project}", entry.job.owner.username, entry.device_model
        for by, group in zip(NAMES, groups, strict=True):
            jobs[by][group].add(entry.job_id)
    return {by: Counter({group: len(ids) for group, ids in jobs[by].items()}) for by in NAMES}


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
        projects = Project.objects.all() if projects is None else projects
        wanted_jobs = jobs_one_by_one(projects, since, until)
        for counted in (counted_upto(), before):
            assert jobs_of_all(projects, since, until, counted) == wanted_jobs
        read += bool(wanted[0])
    history.now_s += 3600
    for _ in range(2):
        history.count()
        history.now_s += 3600
    assert read > 3 and counted_upto() == UsageEntry.objects.latest("pk").pk
    kind = "project", "day", "person", "device_model"
    for model, last in ((DayOfUse, "unit_price"), (DayOfJobs, "before")):
        keys = list(model.objects.values_list(*kind, last))
        assert len(keys) == len(set(keys)), "one row of each kind in the end"
    assert not DayOfJobs.objects.filter(jobs__lte=0).exists(), "of nothing there is no row"
    total = sum(DayOfUse.objects.values_list("gpu_seconds", flat=True))
    assert total == sum(UsageEntry.objects.values_list("gpu_seconds", flat=True))


@pytest.mark.parametrize("seed", range(3))
def test_budgets_of_one_account_are_told_together_what_each_is_told_alone(
    seed, root, alice, bob, carol, project, other_project
):
    """In hours and in money, of a team and of its project, of several months of the same."""
    history = History(seed, root, [(alice, project), (bob, project), (carol, other_project)])
    history.add()
    history.count()
    history.add()
    budgets = [
        set_budget(
            actor=root,
            owner=owner,
            valid_from=at(begin * DAY_S),
            valid_until=at((begin + 3) * DAY_S),
            now=at(0),
            **figure,
        )
        for begin in (1, 5)
        for owner, figure in (
            (project, {"gpu_hours": 9}),
            (project.team, {"amount": Decimal(9)}),
            (other_project, {"amount": Decimal(9)}),
        )
    ]
    span = {"since": at(-6 * DAY_S - 5), "until": at(6 * DAY_S)}
    together = daily_uses(budgets, **span)
    assert together == {budget.pk: daily_use(budget, **span) for budget in budgets}
    assert any(together.values())


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
@pytest.mark.parametrize("by", ["", PERSON, MODEL])
def test_what_is_not_counted_is_found_by_number_however_it_is_summed(project, by):
    """Not along an index in the order of the sums: that goes through all that ever was."""
    whose = Project.objects.filter(pk=project.pk)
    span = {"since": at(-6 * DAY_S), "until": at(6 * DAY_S), "counted": 7, "by": by}
    found = []
    for part in parts_of_use(whose, **span):
        sums = part.order_by().values("whose" if by else "project_id", "unit_price")
        found.append(sums.annotate(seconds=Sum("gpu_seconds")).explain())
    (later,) = (plan for plan in found if "PRIMARY KEY (rowid>" in plan)
    assert "scheduler_usageentry USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)" in later
    assert not any("SCAN scheduler_usageentry" in plan for plan in found)
