"""What the engine plans the services take: both see limits of accounts alike."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pytest

from accounts.models import Rate
from scheduler.engine.snapshot import Limits, ints
from scheduler.loop import cycle as loop_cycle
from scheduler.loop.loading import load_snapshot
from scheduler.models import Job, Node
from scheduler.services.placing import Start
from scheduler.services.preempting.overtaken import why_dropped
from scheduler.services.rows.placed import PlacedOn
from scheduler.services.sharing.budgets import set_budget
from scheduler.services.sharing.keeping.rules import BudgetRules
from scheduler.services.sharing.limits import set_caps, set_quota
from scheduler.states import JobState, NodeState, WaitReason, wait_sentence
from tests.scenes import at, submit
from tests.scenes import start as start_there

pytestmark = pytest.mark.django_db


def blind(now, **more):
    """The picture without limits, as if they had been set a moment later."""
    loaded = load_snapshot(now, **more)
    return replace(loaded, snapshot=replace(loaded.snapshot, limits=Limits.of(account=ints([]))))


def test_an_elastic_job_starts_with_as_many_nodes_as_a_cap_allows(
    scheduler, alice, project, team, root
):
    set_caps(actor=root, owner=team, max_gpus_per_job=2)
    job = submit(alice, project, nodes="1..2", gpus_per_node=2)
    outcome = scheduler.run_cycle(at(1))
    assert (outcome.started, outcome.dropped) == (1, 0)
    job.refresh_from_db()
    assert job.state == JobState.STARTING
    assert job.attempts.get().placements.count() == 1


def test_a_budget_that_stops_at_its_end_has_to_know_what_it_pays_for(
    scheduler, alice, project, team, root
):
    rules = BudgetRules(enforcement="hard_stop")
    period = {"valid_from": at(-1), "valid_until": at(10**6), "now": at(0)}
    set_budget(actor=root, owner=team, amount=Decimal(1), rules=rules, **period)
    job = submit(alice, project, time_limit="24h")
    rates = list(Rate.objects.all())
    Rate.objects.all().delete()
    outcome = scheduler.run_cycle(at(1))
    assert (outcome.started, outcome.dropped) == (0, 0)
    job.refresh_from_db()
    assert job.wait_reason == WaitReason.BUDGET_EXHAUSTED
    assert wait_sentence(job.wait_reason, job.wait_facts) == (
        "The budget of vision has money left; the job may take an amount nobody knows, because no "
        "price is set for its GPUs."
    )
    # Until it is spent it pays for whatever has a price, more than is left of it as well.
    Rate.objects.bulk_create(rates)
    assert scheduler.run_cycle(at(2)).started == 1


def test_who_is_refused_unforeseen_is_told_why_and_rests_longer_each_time(
    scheduler, alice, project, team, root, monkeypatch
):
    job, other = submit(alice, project), submit(alice, project, cpus=2)
    set_quota(actor=root, owner=team, maximum=1)

    monkeypatch.setattr(loop_cycle, "load_snapshot", blind)
    tried = [second for second in range(1, 60) if scheduler.run_cycle(at(second)).dropped]
    gaps = [after - before for before, after in pairwise(tried)]
    assert [gap > pause for gap, pause in zip(gaps, (4, 9, 19), strict=True)] == [True] * 3
    job.refresh_from_db()
    other.refresh_from_db()
    assert JobState.STARTING in (job.state, other.state)
    refused = job if job.state == JobState.QUEUED else other
    assert refused.wait_reason == WaitReason.QUOTA_HARD
    told = wait_sentence(refused.wait_reason, refused.wait_facts)
    assert told == "vision may have 1 GPU; it has 1, the job wants 1 more."


def test_so_is_who_is_tried_alone_beside_a_start_that_breaks(
    scheduler, alice, project, team, root, monkeypatch
):
    bad, job = submit(alice, project), submit(alice, project)
    Job.objects.filter(pk=bad.pk).update(spec={"stop": {}})
    set_quota(actor=root, owner=team, maximum=0)

    monkeypatch.setattr(loop_cycle, "load_snapshot", blind)
    assert scheduler.run_cycle(at(1)).dropped == 2
    job.refresh_from_db()
    bad.refresh_from_db()
    assert (bad.state, job.wait_reason) == (JobState.HELD, WaitReason.QUOTA_HARD)
    assert job.pk in scheduler.memory.resting


def test_who_is_planned_in_vain_time_and_again_is_told_so_and_gives_way(
    scheduler, cluster, alice, project, monkeypatch, caplog
):
    """The engine sees a free node that takes no work; as if it had forgotten to ask."""
    job = submit(alice, project, nodes=2, gpus_per_node=2)
    Node.objects.filter(name="n2").update(state=NodeState.DRAINING)
    all_of_them = np.ones(len(cluster.nodes), bool)

    def blind_to_drains(now, **more):
        loaded = load_snapshot(now, **more)
        nodes = replace(loaded.snapshot.nodes, takes_work=all_of_them)
        return replace(loaded, snapshot=replace(loaded.snapshot, nodes=nodes))

    monkeypatch.setattr(loop_cycle, "load_snapshot", blind_to_drains)
    assert [scheduler.run_cycle(at(second)).dropped for second in (1, 2)] == [1, 1]
    job.refresh_from_db()
    assert job.wait_reason == WaitReason.EVALUATING and not caplog.records
    other = submit(alice, project, gpus_per_node=2, now=at(2))
    assert scheduler.run_cycle(at(3)).dropped == 1
    job.refresh_from_db()
    assert wait_sentence(job.wait_reason, job.wait_facts) == (
        "There is room for it, but it could not be started: n2 takes no work. "
        "Tried again at 12:00:08 UTC."
    )
    assert [line.getMessage() for line in caplog.records if "in vain" in line.getMessage()]
    # Meanwhile nobody waits behind it.
    assert scheduler.run_cycle(at(4)).started == 1
    other.refresh_from_db()
    assert other.state == JobState.STARTING


def test_what_keeps_a_start_from_becoming_fact_is_named_by_the_rows(
    cluster, alice, project, django_assert_num_queries
):
    first, second = cluster.node(1), cluster.node(2)
    start_there(submit(alice, project, gpus_per_node=2), first)
    taken, free = first.devices.first(), second.devices.first()
    starts = [
        Start(1, (PlacedOn(first.pk, 0, (taken.pk,), 1, 1024),)),
        Start(2, (PlacedOn(second.pk, 0, (free.pk,), 1, 1024),)),
        Start(3, (PlacedOn(second.pk, 0, (free.pk,), 1, 1024), PlacedOn(0, 1, (), 1, 1024))),
    ]
    with django_assert_num_queries(2):
        told = why_dropped(starts)
    assert told == {
        1: "a GPU of n1 is held by another job",
        2: "what was planned is not what it asks for",
        3: "a node that is gone takes no work",
    }
