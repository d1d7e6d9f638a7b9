"""Seconds and prices: exact, counted once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts.services import set_rate
from scheduler.models import UsageEntry
from scheduler.money import cost_of, seconds_between, split_by_hour
from scheduler.selectors.tables.so_far import so_far
from scheduler.selectors.usage import costs_by, job_cost
from scheduler.services.timeline.days import count_days
from scheduler.services.usage import accrue_usage
from tests import scenes
from tests.scenes import MODEL, at, ended, running, start, submit, sync

_moments = st.datetimes(
    min_value=datetime(2026, 1, 1), max_value=datetime(2026, 1, 3), timezones=st.just(UTC)
)


@given(_moments, _moments)
def test_the_hours_of_a_period_add_up_to_the_period(start_at, end_at):
    parts = list(split_by_hour(start_at, end_at))
    assert sum(seconds_between(a, b) for a, b in parts) == seconds_between(start_at, end_at)
    for (_, until), (begin, _) in pairwise(parts):
        assert until == begin
        assert (until.minute, until.second) == (0, 0)


@given(_moments, _moments, _moments)
def test_successive_holders_share_no_second_and_lose_none(a, b, c):
    a, b, c = sorted([a, b, c])
    assert seconds_between(a, b) + seconds_between(b, c) == seconds_between(a, c)


def test_cost_is_exact():
    assert cost_of(1, Decimal("3.6")) == Decimal("0.001")
    assert cost_of(7, Decimal("2.5000")) == Decimal("0.0048611111")


@pytest.mark.django_db
class TestAccrual:
    @pytest.fixture
    def cluster(self, root):
        return scenes.build_cluster(root, gpus=2)

    def test_full_hours_of_a_running_job_are_charged_once(self, cluster, alice, project):
        attempt = start(submit(alice, project), cluster.node(1), now=at(1800))
        sync(cluster.node(1), running(attempt), now=at(1801))
        for _ in range(2):
            accrue_usage(now=at(3 * 3600 + 5))
        rows = UsageEntry.objects.order_by("period_start")
        assert [r.gpu_seconds for r in rows] == [1800, 3600, 3600]
        sync(cluster.node(1), ended(attempt), now=at(3 * 3600 + 50))
        assert sum(r.gpu_seconds for r in UsageEntry.objects.all()) == 9050

    def test_the_live_figure_equals_the_final_one(self, cluster, alice, project):
        job = submit(alice, project, gpus_per_node=2)
        attempt = start(job, cluster.node(1), now=at(0))
        sync(cluster.node(1), running(attempt), now=at(1))
        job.refresh_from_db()
        live = job_cost(alice, job, now=at(4000))
        assert (live.gpu_seconds, live.cost, live.is_final) == (8000, Decimal("8"), False)
        assert live.hourly == Decimal("7.2")
        assert so_far(alice, [job], now=at(4000)).jobs == {job.pk: Decimal("8")}
        sync(cluster.node(1), ended(attempt), now=at(4000))
        job.refresh_from_db()
        final = job_cost(alice, job, now=at(9999))
        assert (final.gpu_seconds, final.cost, final.is_final) == (8000, Decimal("8"), True)

    def test_a_new_price_counts_from_its_own_hour_on(self, cluster, root, alice, project):
        job = submit(alice, project)
        attempt = start(job, cluster.node(1), now=at(0))
        set_rate(
            actor=root,
            device_model=MODEL,
            price_per_gpu_hour=Decimal("7.20"),
            currency="EUR",
            valid_from=at(3600),
            restated_for="as if then",
        )
        sync(cluster.node(1), ended(attempt), now=at(7200))
        prices = UsageEntry.objects.order_by("period_start").values_list("unit_price", "cost")
        assert list(prices) == [(Decimal("3.6"), Decimal("3.6")), (Decimal("7.2"), Decimal("7.2"))]

    def test_reports_tie_to_the_rows_and_show_only_what_is_visible(
        self, cluster, alice, carol, lead, project
    ):
        attempt = start(submit(alice, project, gpus_per_node=2), cluster.node(1), now=at(0))
        sync(cluster.node(1), ended(attempt), now=at(3600))
        period = {"start": at(-86400), "end": at(86400)}
        for by in ("team", "project", "user", "device_model"):
            rows, total = costs_by(lead, by, **period)
            assert total.cost == sum(r.cost for r in rows) == Decimal("7.2")
            assert costs_by(carol, by, **period)[0] == []

    def test_sums_of_days_and_every_entry_say_the_same(
        self, cluster, root, alice, bob, project, other_project, carol
    ):
        ran = ((alice, project, 0, 30), (bob, project, 30, 31), (carol, other_project, 31, 33))
        for person, place, since, until in ran:
            attempt = start(submit(person, place), cluster.node(1), now=at(3600 * since))
            sync(cluster.node(1), running(attempt), now=at(3600 * since))
            accrue_usage(now=at(3600 * until))
            sync(cluster.node(1), ended(attempt), now=at(3600 * until))
        period = {"start": at(-86400), "end": at(3 * 86400)}
        by_model = costs_by(root, "device_model", **period)[1]
        for counted in (False, True):
            if counted:
                count_days(now=at(4 * 86400))
            for by in ("team", "project", "user"):
                rows, total = costs_by(root, by, **period)
                assert (total.gpu_seconds, total.cost) == (by_model.gpu_seconds, by_model.cost)
                assert [row.jobs for row in rows] == ([1, 1, 1] if by == "user" else [2, 1])

    def test_no_float_adds_charges(self, cluster, root, alice, project):
        """A sum of so many digits is no float's."""
        attempt = start(submit(alice, project), cluster.node(1), now=at(0))
        sync(cluster.node(1), ended(attempt), now=at(3600))
        (charged,) = UsageEntry.objects.all()
        hours = {Decimal("89999.993457"): 1, Decimal("0.000001"): -3, Decimal("99999.999999"): 3}
        same = {f.attname: getattr(charged, f.attname) for f in charged._meta.fields}
        same |= {"id": None, "kind": UsageEntry.Kind.ADJUSTMENT}
        more = [
            same | {"unit_price": price, "gpu_seconds": 3600 * count, "cost": price * count}
            for price, count in hours.items()
        ]
        UsageEntry.objects.bulk_create(UsageEntry(**one) for one in more * 1400)
        wanted = charged.cost + 1400 * sum(price * count for price, count in hours.items())
        for by in ("device_model", "team"):
            _, total = costs_by(root, by, start=at(-86400), end=at(86400))
            assert total.cost == wanted == Decimal("545999994.4314")


def test_a_period_cut_at_midnight_keeps_its_seconds():
    late = datetime(2026, 11, 20, 23, 59, 59, tzinfo=UTC)
    assert len(list(split_by_hour(late, late + timedelta(seconds=2)))) == 2
