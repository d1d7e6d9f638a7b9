"""Quotas, budgets, caps and policies: what is refused, what is counted, what comes back."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from scheduler.models import (
    Budget,
    BudgetHold,
    PastUse,
    Quota,
    UsageEntry,
)
from scheduler.services.errors import Conflict, Forbidden, Invalid
from scheduler.services.jobs import cancel_job
from scheduler.services.placing import Start, start_attempts
from scheduler.services.rows.placed import PlacedOn
from scheduler.services.sharing.budgets import set_budget
from scheduler.services.sharing.effective import effective_of
from scheduler.services.sharing.grants import add_grant, revoke_grant
from scheduler.services.sharing.guard import held_now
from scheduler.services.sharing.limits import remove_quota, set_caps, set_quota
from scheduler.services.sharing.past_use import LAG, count_past_use, decayed_use
from scheduler.spec import SpecInvalid
from tests import scenes
from tests.scenes import TOKEN, at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db
HOUR_S = 3600


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=2, gpus=2)


@pytest.fixture
def budget(root, team):
    return lambda hours: set_budget(
        actor=root, owner=team, gpu_hours=hours, valid_from=at(-1), valid_until=at(10**6), now=at(0)
    )


def refused(job, node, now=at(0)) -> bool:
    """Whether the database refuses the start."""
    devices = scenes._free(node, job.gpus_per_node)
    placed = PlacedOn(node.pk, 0, devices, job.cpus, job.memory_mib)
    return start_attempts([Start(job.pk, (placed,))], lease_token=TOKEN, now=now) == []


class TestGuard:
    def test_a_maximum_is_kept_and_comes_back_with_the_devices(
        self, cluster, root, team, alice, project
    ):
        quota = set_quota(actor=root, owner=team, maximum=1)
        first, second = submit(alice, project), submit(alice, project)
        attempt = start(first, cluster.node(1))
        assert refused(second, cluster.node(1))
        sync(cluster.node(1), running(attempt), now=at(1))
        sync(cluster.node(1), ended(attempt), now=at(2))
        quota.refresh_from_db()
        assert quota.held == held_now(quota) == 0
        assert not refused(second, cluster.node(1))

    def test_one_start_over_the_limit_does_not_stop_the_others_of_its_batch(
        self, cluster, root, team, alice, project
    ):
        quota = set_quota(actor=root, owner=team, maximum=1)
        jobs = [submit(alice, project) for _ in range(2)]
        one, two = scenes._free(cluster.node(1), 2)
        starts = [
            Start(job.pk, (PlacedOn(cluster.node(1).pk, 0, (device,), 1, 16),))
            for job, device in zip(jobs, (one, two), strict=True)
        ]
        assert start_attempts(starts, lease_token=TOKEN, now=at(0)) == [jobs[0].pk]
        quota.refresh_from_db()
        assert quota.held == 1

    def test_a_new_quota_begins_with_what_is_held(self, cluster, root, team, alice, project):
        start(submit(alice, project, gpus_per_node=2), cluster.node(1))
        assert set_quota(actor=root, owner=team, guaranteed=1, maximum=1).held == 2
        other = set_quota(actor=root, owner=project, gpu_model="A100", maximum=1)
        assert other.held == 0

    def test_lowering_a_limit_stops_nobody_and_lets_nobody_start(
        self, cluster, root, team, alice, project
    ):
        attempt = start(submit(alice, project), cluster.node(1))
        set_quota(actor=root, owner=team, maximum=0)
        attempt.refresh_from_db()
        assert attempt.state == "assigned"
        assert refused(submit(alice, project), cluster.node(1))

    def test_only_so_many_may_wait(self, cluster, root, team, alice, project):
        set_caps(actor=root, owner=team, max_pending=2)
        first = submit(alice, project)
        submit(alice, project, hold=True)
        with pytest.raises(SpecInvalid, match="2 are allowed; 2 wait now"):
            submit(alice, project)
        start(first, cluster.node(1))
        submit(alice, project)
        set_caps(actor=root, owner=team, max_pending=4)
        with pytest.raises(SpecInvalid, match="array: would bring 5"):
            submit(alice, project, array={"range": "0-2"})

    def test_only_so_many_sessions_may_be_open(self, cluster, root, team, alice, project):
        set_caps(actor=root, owner=team, max_sessions=1)
        shell = {"script": "", "session": {"app": "shell"}}
        first = submit(alice, project, **shell)
        with pytest.raises(SpecInvalid, match=r"session: would be session 2 .* 1 may be open"):
            submit(alice, project, **shell)
        submit(alice, project)
        cancel_job(actor=alice, job=first)
        submit(alice, project, **shell)

    def test_caps_hold_for_all_below(self, cluster, root, team, alice, project):
        set_caps(actor=root, owner=team, max_running=1, max_gpus_per_job=1)
        assert refused(submit(alice, project, gpus_per_node=2), cluster.node(1))
        start(submit(alice, project), cluster.node(1))
        assert refused(submit(alice, project), cluster.node(1))

    def test_a_budget_commits_the_worst_case_and_is_trued_up_once(
        self, cluster, budget, alice, project
    ):
        held = budget(2)
        job = submit(alice, project, time_limit="2h")
        attempt = start(job, cluster.node(1))
        held.refresh_from_db()
        assert (held.committed_s, held.spent_s) == (2 * HOUR_S, 0)
        assert refused(submit(alice, project, time_limit="1m"), cluster.node(1))
        sync(cluster.node(1), running(attempt), now=at(1))
        for _ in range(2):
            sync(cluster.node(1), ended(attempt), now=at(600))
        held.refresh_from_db()
        assert (held.committed_s, held.spent_s) == (0, 600)
        assert BudgetHold.objects.get().spent_s == 600

    def test_a_refunded_attempt_spends_nothing(self, cluster, budget, alice, project):
        from scheduler.states import EndReason

        held = budget(2)
        attempt = start(submit(alice, project, time_limit="1h"), cluster.node(1))
        sync(cluster.node(1), running(attempt), now=at(1))
        sync(cluster.node(1), ended(attempt, reason=EndReason.NODE_LOST), now=at(600))
        held.refresh_from_db()
        assert held.committed_s == 0
        assert held.spent_s == sum(UsageEntry.objects.values_list("gpu_seconds", flat=True))

    def test_nothing_but_one_look_where_nobody_has_rules(
        self, cluster, alice, project, django_assert_num_queries
    ):
        from scheduler.models import Job
        from scheduler.services.sharing.guard import charge_starts

        job = Job.objects.select_related("project").get(pk=submit(alice, project).pk)
        with django_assert_num_queries(1):
            charge_starts([SimpleNamespace(job_id=job.pk)], {job.pk: job}, {job.pk: [1]}, now=at(0))


class TestQuotas:
    @pytest.mark.parametrize(
        ("figures", "field"),
        [
            ({}, "guaranteed"),
            ({"guaranteed": -1}, "guaranteed"),
            ({"guaranteed": 4, "maximum": 3}, "maximum"),
            ({"guaranteed": 4, "lend_limit": 4}, "lend_limit"),
            ({"maximum": 4, "lend_limit": 0}, "lend_limit"),
            ({"guaranteed": 4, "borrow_limit": 5, "maximum": 8}, "borrow_limit"),
        ],
    )
    def test_what_makes_no_sense_or_has_no_effect_is_refused(self, root, team, figures, field):
        with pytest.raises(Invalid) as caught:
            set_quota(actor=root, owner=team, **figures)
        assert caught.value.field == field
        assert not Quota.objects.exists()

    def test_the_tree_is_kept(self, root, team, project):
        set_quota(actor=root, owner=team, guaranteed=4, maximum=8)
        for figures, field in (({"guaranteed": 5}, "guaranteed"), ({"maximum": 9}, "maximum")):
            with pytest.raises(Invalid) as caught:
                set_quota(actor=root, owner=project, **figures)
            assert caught.value.field == field
        set_quota(actor=root, owner=project, guaranteed=4)
        with pytest.raises(Invalid, match="guaranteed 4"):
            set_quota(actor=root, owner=team, guaranteed=3, maximum=8)

    def test_only_operators_set_them(self, alice, lead, operator, team):
        for stranger in (alice, lead):
            with pytest.raises(Forbidden):
                set_quota(actor=stranger, owner=team, maximum=3)
        quota = set_quota(actor=operator, owner=team, maximum=3)
        remove_quota(actor=operator, quota_id=quota.pk)
        assert not Quota.objects.exists()

    def test_grants_count_from_their_begin_until_right_before_their_end(self, root, team):
        quota = set_quota(actor=root, owner=team, guaranteed=2, maximum=4)
        grant = add_grant(
            actor=root, quota=quota, valid_from=at(10), valid_until=at(20), maximum=3, now=at(0)
        )
        most = {s: effective_of([quota], now=at(s))[quota.pk].maximum for s in (9, 10, 19.9, 20)}
        assert most == {9: 4, 10: 7, 19.9: 7, 20: 4}
        revoke_grant(actor=root, grant_id=grant.pk, now=at(12))
        assert effective_of([quota], now=at(15))[quota.pk].maximum == 4
        with pytest.raises(Conflict):
            revoke_grant(actor=root, grant_id=grant.pk)
        with pytest.raises(Invalid, match="no borrow limit"):
            add_grant(
                actor=root,
                quota=quota,
                valid_from=at(10),
                valid_until=at(20),
                borrow_limit=1,
                now=at(0),
            )

    def test_the_same_grant_sent_twice_counts_once(self, root, operator, team):
        quota = set_quota(actor=root, owner=team, maximum=4)
        figures = {"maximum": 3, "valid_from": at(10), "valid_until": at(20), "reason": "paper"}
        grant = add_grant(actor=operator, quota=quota, now=at(0), **figures)
        with pytest.raises(Conflict, match="granted just this already") as refused:
            add_grant(actor=operator, quota=quota, now=at(9), **figures)
        assert refused.value.facts == {"grant": grant.pk}
        revoke_grant(actor=root, grant_id=grant.pk, now=at(9))
        add_grant(actor=operator, quota=quota, now=at(9), **figures)
        # Another reason makes it another one.
        add_grant(actor=operator, quota=quota, now=at(9), **{**figures, "reason": "more"})

    def test_caps_may_only_tighten(self, root, team, project):
        set_caps(actor=root, owner=team, max_running=4)
        with pytest.raises(Invalid, match="only become tighter") as caught:
            set_caps(actor=root, owner=project, max_running=4)
        assert caught.value.field == "max_running"
        set_caps(actor=root, owner=project, max_running=3)

    def test_periods_of_budgets_do_not_overlap(self, root, team, budget):
        budget(5)
        budget(7)
        assert Budget.objects.get().gpu_seconds == 7 * HOUR_S
        with pytest.raises(Invalid, match="must not overlap"):
            set_budget(
                actor=root, owner=team, gpu_hours=1, valid_from=at(5), valid_until=at(9), now=at(0)
            )


def test_past_use_is_counted_once_and_halves(cluster, alice, team, project):
    attempt = start(submit(alice, project), cluster.node(1))
    sync(cluster.node(1), running(attempt), now=at(1))
    sync(cluster.node(1), ended(attempt), now=at(1000))
    UsageEntry.objects.update(created_at=at(1000))
    half = 7200.0
    assert count_past_use(now=at(1000) + LAG, half_life_s=half) == 0
    for late in (1, 61, 121):
        count_past_use(now=at(1000 + late) + LAG, half_life_s=half)
    key = (team.pk, alice.pk)
    assert decayed_use(at(1000), half)[key] == pytest.approx(1000, rel=0.02)
    later = decayed_use(at(1000 + 3 * half), half)[key]
    assert later == pytest.approx(1000 / 8, rel=0.001)
    count_past_use(now=at(1000 + 3 * half) + LAG, half_life_s=half)
    assert decayed_use(at(1000 + 3 * half), half)[key] == pytest.approx(later, rel=0.001)
    assert PastUse.objects.count() == 1
