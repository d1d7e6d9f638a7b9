"""Many jobs that want to pledge: each has its turn, and many go on at once."""

from __future__ import annotations

import pytest

from scheduler.models import Budget, Job
from scheduler.services.budgets import pledges
from scheduler.services.budgets.pledges import settle_pledges
from scheduler.states import WaitReason
from tests.scenes import at, submit
from tests.services.test_pledges import budget, cluster, hours

__all__ = ["budget", "cluster"]

pytestmark = pytest.mark.django_db


class TestBatches:
    def test_who_fits_has_a_turn_behind_more_than_one_batch_of_others(
        self,
        cluster,
        budget,
        alice,
        project,
        monkeypatch,
    ):
        monkeypatch.setattr(pledges, "MOST", 2)
        for limit in ("4h", "4h", "1h"):
            submit(alice, project, time_limit=limit)
        own = budget(3)
        settle_pledges(now=at(10))
        assert hours(own) == 1

    def test_a_pass_that_ran_out_of_time_leaves_the_rest_to_those_after_it(
        self,
        cluster,
        budget,
        alice,
        project,
        monkeypatch,
    ):
        # In one batch: the lease of the scheduler would run out before many are through.
        monkeypatch.setattr(pledges, "LONGEST", -1)
        for limit in ("4h", "4h", "1h"):
            submit(alice, project, time_limit=limit)
        own = budget(3)
        assert [settle_pledges(now=at(second)) for second in range(4)] == [1, 1, 1, 0]
        assert hours(own) == 1

    def test_letting_many_go_asks_no_more_than_letting_two_go(
        self,
        cluster,
        budget,
        alice,
        project,
        root,
        monkeypatch,
        django_assert_max_num_queries,
    ):
        def asked(many):
            for _ in range(many):
                submit(alice, project, time_limit="4h")
            own = budget(3)
            settle_pledges(now=at(10))
            held = Job.objects.filter(wait_reason=WaitReason.BUDGET_EXHAUSTED)
            assert held.count() >= many
            Budget.objects.filter(pk=own.pk).update(commits_at="start")
            with django_assert_max_num_queries(100) as asked:
                assert settle_pledges(now=at(20)) >= many
            assert not held.exists()
            Budget.objects.filter(pk=own.pk).delete()
            return len(asked)

        assert asked(2) == asked(8)
