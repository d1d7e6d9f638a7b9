"""A job that chooses from several pools starts in the first of them that has room."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from accounts.services import set_rate
from scheduler.engine.policy import Policy
from scheduler.loop.answering import answer_for
from scheduler.loop.cycle import Scheduler
from scheduler.loop.planning import elsewhere
from scheduler.models import (
    Allocation,
    BudgetPledge,
    Job,
    JobEvent,
    Node,
    Queue,
    SchedulerLease,
)
from scheduler.money import from_steps
from scheduler.services.changing.pools import move_to_pools
from scheduler.services.errors import Invalid, LeaseLost
from scheduler.services.nodes import create_pool
from scheduler.services.placing import start_attempts
from scheduler.services.queues import pause_queue, resume_queue
from scheduler.services.sharing.budgets import BudgetRules, set_budget
from scheduler.states import JobState
from tests import scenes
from tests.loop.otherwise import OTHER, change, fill, places_of, two_pools
from tests.scenes import MODEL, NOON, TOKEN, at, submit

pytestmark = pytest.mark.django_db

BOTH = {"pool": "default, spare", "gpus_per_node": 2}


@pytest.fixture
def cluster(root):
    """Two nodes of two GPUs in `default`, two of four in `spare`; nobody schedules yet."""
    made = two_pools(root)
    SchedulerLease.objects.update(expires_at=NOON)
    return made


@pytest.fixture
def scheduler(cluster):
    return Scheduler(holder="test", policy=Policy(preempts=False))


def test_it_goes_where_it_starts_at_once_in_its_old_place_and_that_is_on_record(
    cluster, scheduler, alice, project
):
    fill(alice, project, "n1", "n2")
    job = submit(alice, project, now=at(1), **BOTH)
    assert (job.pool.name, job.pool_choice) == ("default", ["default", "spare"])
    outcome = scheduler.run_cycle(at(2))
    assert (outcome.moved, outcome.started) == (1, 0)
    job = Job.objects.get(pk=job.pk)
    assert (job.pool.name, job.queue.pool_id) == ("spare", job.pool_id)
    assert (job.state, job.queued_at, job.version) == (JobState.QUEUED, at(1), 2)
    assert (job.wait_reason, job.wait_facts) == ("evaluating", {})
    event = JobEvent.objects.get(job=job, kind="moved_to_pool")
    assert (event.actor, event.detail) == (None, {"from": "default", "to": "spare"})
    assert (scheduler.run_cycle(at(3)).started, places_of(job)) == (1, ["m1", "m1"])
    # What was asked for is kept: who runs it again has the same choice.
    assert (job.spec["pool"], job.spec["other_pools"]) == ("default", ["spare"])


def test_it_stays_where_it_starts_and_while_it_starts_nowhere(cluster, scheduler, alice, project):
    job = submit(alice, project, **BOTH)
    outcome = scheduler.run_cycle(at(1))
    assert (outcome.moved, outcome.started, places_of(job)) == (0, 1, ["n1", "n1"])
    fill(alice, project, "n2", "m1", "m2")
    late = submit(alice, project, now=at(2), **BOTH)
    assert scheduler.run_cycle(at(3)).moved == 0
    late = Job.objects.get(pk=late.pk)
    assert (late.pool.name, late.version, late.wait_reason) == ("default", 1, "capacity_busy")


def test_the_first_of_its_pools_with_room_counts(cluster, scheduler, root, alice, project):
    far = scenes.Cluster(root, create_pool(actor=root, name="far"), [])
    for name in ("f1", "f2"):
        scenes.add_node(far, name, 2)
    fill(alice, project, "n1", "n2", "f2")
    asked = {"pool": "default", "gpus_per_node": 2}
    first = submit(alice, project, now=at(1), other_pools=["spare", "far"], **asked)
    second = submit(alice, project, now=at(2), other_pools=["far", "spare"], **asked)
    wide = submit(alice, project, now=at(3), pool="default", other_pools="far, spare",
                  gpus_per_node=1, nodes=2)  # fmt: skip
    assert scheduler.run_cycle(at(4)).moved == 3
    assert scheduler.run_cycle(at(5)).started == 3
    assert places_of(first) == ["m1", "m1"]
    assert places_of(second) == ["f1", "f1"]
    assert places_of(wide) == ["m1", "m2"], "far has one that is free"


def test_tasks_of_an_array_choose_each_for_itself(cluster, scheduler, alice, project):
    submit(alice, project, array="0-6", **BOTH)
    assert scheduler.run_cycle(at(1)).started == 2
    # Those that start now are seen to first.
    assert scheduler.run_cycle(at(3)).started + scheduler.run_cycle(at(4)).started == 4
    tasks = list(Job.objects.order_by("array_index"))
    assert [task.pool.name for task in tasks] == ["default"] * 2 + ["spare"] * 4 + ["default"]
    assert [task.state for task in tasks] == ["starting"] * 6 + ["queued"]


def test_nothing_is_asked_of_the_database_while_nobody_would_go(cluster, scheduler, alice, project):
    fill(alice, project, "n1", "n2", "m1", "m2")
    plain = submit(alice, project, now=at(1), exclusive=True, gpus_per_node=2)
    scheduler.run_cycle(at(2))
    asked = scheduler.run_cycle(at(4)).statements
    Job.objects.filter(pk=plain.pk).update(pool_choice=["default", "spare"])
    assert scheduler.run_cycle(at(6)).statements == asked


def test_who_finds_nothing_is_looked_at_once_a_second(
    cluster, scheduler, alice, project, monkeypatch
):
    looks, real = [], elsewhere.plan_cycle
    monkeypatch.setattr(elsewhere, "plan_cycle", lambda *args: looks.append(args) or real(*args))
    fill(alice, project, "n1", "n2", "m1")
    submit(alice, project, now=at(1), pool="spare", gpus_per_node=1)
    scheduler.run_cycle(at(1))
    submit(alice, project, now=at(1), pool="default,spare", gpus_per_node=2, constraints="rack=r1")
    for second in (2, 2.3, 2.6):
        assert scheduler.run_cycle(at(second)).moved == 0
    assert len(looks) == 1
    submit(alice, project, now=at(2.7), pool="default,spare", gpus_per_node=2)
    assert scheduler.run_cycle(at(2.7)).moved == 1, "somebody new is looked at at once"


def test_it_takes_nothing_from_who_starts_there_at_this_moment(cluster, scheduler, alice, project):
    fill(alice, project, "n1", "n2")
    chooser = submit(alice, project, now=at(1), **BOTH)
    wide = {"nodes": 2, "gpus_per_node": 3, "pool": "spare"}
    there = submit(alice, project, now=at(2), **wide)
    outcome = scheduler.run_cycle(at(3))
    assert (outcome.moved, outcome.started) == (0, 1)
    assert places_of(there) == ["m1"] * 3 + ["m2"] * 3
    assert Job.objects.get(pk=chooser.pk).pool.name == "default"


def test_nobody_is_stopped_for_who_only_chooses(cluster, alice, project):
    scheduler = Scheduler(holder="test", policy=Policy(preempts=True))
    fill(alice, project, "n1", "n2", tier="urgent")
    fill(alice, project, "m1", "m2", tier="exploratory", gpus=3)
    submit(alice, project, now=at(1), tier="urgent", **BOTH)
    outcome = scheduler.run_cycle(at(3))
    assert (outcome.moved, outcome.stopped) == (0, 0)
    submit(alice, project, now=at(1), tier="urgent", pool="spare", gpus_per_node=2)
    assert scheduler.run_cycle(at(5)).stopped == 1, "who asks for that pool stops others"


def test_a_paused_queue_is_no_choice(cluster, scheduler, root, alice, project):
    fill(alice, project, "n1", "n2")
    submit(alice, project, now=at(1), **BOTH)
    queue = pause_queue(actor=root, queue=Queue.objects.get(pool__name="spare"))
    assert scheduler.run_cycle(at(2)).moved == 0
    resume_queue(actor=root, queue=queue)
    assert scheduler.run_cycle(at(4)).moved == 1


def test_who_went_stays_for_a_while(cluster, scheduler, alice, project, monkeypatch):
    monkeypatch.setattr(elsewhere, "STAYS", timedelta(seconds=10))
    fill(alice, project, "n1", "n2")
    job = submit(alice, project, now=at(1), **BOTH)
    assert scheduler.run_cycle(at(2)).moved == 1
    fill(alice, project, "m1", "m2", now=at(2))
    Allocation.objects.filter(placement__node__name="n1").update(released_at=at(3))
    assert [scheduler.run_cycle(at(second)).moved for second in (3, 7, 11)] == [0, 0, 0]
    assert scheduler.run_cycle(at(13)).moved == 1
    kinds = JobEvent.objects.filter(job=job).order_by("pk").values_list("kind", flat=True)
    assert list(kinds) == ["submitted", "moved_to_pool", "moved_to_pool"]
    assert Job.objects.get(pk=job.pk).pool.name == "default"


def test_what_it_committed_follows_and_a_budget_that_refuses_keeps_it(
    cluster, scheduler, root, team, alice, project
):
    price = {"currency": "EUR", "valid_from": NOON - timedelta(days=9), "restated_for": "as then"}
    set_rate(actor=root, device_model=OTHER, price_per_gpu_hour=Decimal("7.20"), **price)
    fill(alice, project, "n1", "n2")
    set_budget(
        actor=root, owner=team, amount=Decimal("36.40"), valid_from=NOON - timedelta(days=1),
        valid_until=NOON + timedelta(days=9), rules=BudgetRules(commits_at="submit"), now=at(0),
    )  # fmt: skip
    jobs = [submit(alice, project, now=at(1 + number), **BOTH) for number in range(2)]

    def pledged():
        rows = BudgetPledge.objects.order_by("job").values_list("job", "money")
        return {job: from_steps(money) for job, money in rows}

    assert pledged() == dict.fromkeys([job.pk for job in jobs], Decimal("7.20"))
    assert scheduler.run_cycle(at(4)).moved == 1
    names = [Job.objects.get(pk=job.pk).pool.name for job in jobs]
    assert names == ["spare", "default"], "two at 14.40 are more than the 22 that are left"
    assert pledged() == {jobs[0].pk: Decimal("14.40"), jobs[1].pk: Decimal("7.20")}
    assert scheduler.run_cycle(at(6)).moved == 0, "who was refused is not tried again at once"


def test_only_what_still_waits_and_chooses_goes_under_the_lease(cluster, alice, project):
    SchedulerLease.objects.update(token=TOKEN, expires_at=at(999))
    go, gone, alone = (submit(alice, project, **BOTH) for _ in range(3))
    Job.objects.filter(pk=gone.pk).update(state=JobState.HELD)
    Job.objects.filter(pk=alone.pk).update(pool_choice=None)
    places = dict.fromkeys([go.pk, gone.pk, alone.pk, 10**9], "spare")
    with pytest.raises(LeaseLost):
        move_to_pools(places, lease_token=TOKEN + 1, now=at(1))
    assert move_to_pools(places, lease_token=TOKEN, now=at(1)) == [go.pk]
    assert move_to_pools(places, lease_token=TOKEN, now=at(1)) == []
    assert move_to_pools({go.pk: "nowhere"}, lease_token=TOKEN, now=at(1)) == []
    # A start that was decided before it went would give it GPUs of the pool that it left.
    assert start_attempts([scenes.planned(go, cluster.node(1))], lease_token=TOKEN, now=at(2)) == []
    assert Job.objects.get(pk=go.pk).state == JobState.QUEUED


def test_its_owner_names_other_pools_while_it_waits(cluster, scheduler, alice, project):
    fill(alice, project, "n1", "n2")
    job = submit(alice, project, now=at(1), gpus_per_node=2, gpu_model="")
    assert job.pool_choice is None
    job = change(alice, job, pool="default,spare", now=at(2))
    assert (job.pool.name, job.pool_choice) == ("default", ["default", "spare"])
    event = JobEvent.objects.get(job=job, kind="request_changed")
    assert event.detail["is"].endswith("of any model in pool default or spare")
    assert change(alice, job, pool="default,spare", now=at(2)).version == job.version
    with pytest.raises(Invalid, match="pool: there is no pool gone") as refused:
        change(alice, job, pool="default,gone", now=at(2))
    assert refused.value.field == "pool"
    Node.objects.update(last_seen_at=at(3))
    assert scheduler.run_cycle(at(3)).moved == 1
    moved = Job.objects.get(pk=job.pk)
    # Other GPUs leave it where it is, with the choice that it has.
    moved = change(alice, moved, gpus_per_node="1", now=at(4))
    assert (moved.pool.name, moved.pool_choice) == ("spare", ["default", "spare"])
    assert (moved.spec["pool"], moved.spec["other_pools"]) == ("default", ["spare"])
    moved = change(alice, moved, pool="spare", now=at(5))
    assert (moved.pool.name, moved.pool_choice, moved.is_shaped) == ("spare", None, False)
    assert (moved.spec["pool"], moved.spec["other_pools"]) == ("spare", [])
    assert MODEL not in moved.gpu_model


def test_who_asks_is_told_why_it_waits_in_each_of_its_pools(cluster, scheduler, alice, project):
    fill(alice, project, "n1", "n2", "m1", "m2")
    job = submit(alice, project, now=at(1), **BOTH)
    scheduler.run_cycle(at(2))
    answer = answer_for(alice, Job.objects.get(pk=job.pk), now=at(3))
    [also] = answer["also"]
    assert also["pool"] == "spare" and "0 of 8 GPUs in pool spare are free" in also["sentence"]
    assert "pool" not in [option["kind"] for option in answer["options"]]
    plain = submit(alice, project, now=at(1), gpus_per_node=2)
    assert answer_for(alice, plain, now=at(3))["also"] == []
