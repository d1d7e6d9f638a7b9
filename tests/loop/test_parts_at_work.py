"""Jobs that run on parts of cards are known to the engine, where some may be stopped or resized."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from accounts.services import set_rate
from scheduler.engine.checks import check_snapshot
from scheduler.engine.policy import DEFAULT_POLICY, Order, Policy
from scheduler.engine.snapshot import floats
from scheduler.loop.cycle import Scheduler
from scheduler.loop.loading import load_snapshot
from scheduler.loop.planning.poisoned import plan_or_hold
from scheduler.models import Device, Job
from scheduler.services.nodes.cutting import cut_card
from scheduler.states import JobState
from tests.scenes import MODEL, NOON, at, submit

pytestmark = pytest.mark.django_db


@pytest.fixture
def halves(cluster, root):
    """Both cards of `n1`, and one of `n2`, in two slots each."""
    set_rate(
        actor=root,
        device_model=f"{MODEL} 1/2",
        price_per_gpu_hour=Decimal(2),
        currency="EUR",
        valid_from=NOON - timedelta(days=1),
        restated_for="as if then",
    )
    for node, index in ((1, 0), (1, 1), (2, 0)):
        card = Device.objects.get(node=cluster.node(node), index=index, parent=None)
        cut_card(actor=root, device=card, slots=2, now=NOON)
    return cluster


def test_others_start_while_an_elastic_job_runs_on_parts(halves, scheduler, alice, project):
    submit(alice, project, nodes="1..2", gpu_milli="0.5")
    assert scheduler.run_cycle(at(1)).started == 1
    submit(alice, project)
    submit(alice, project, gpu_milli="0.5", now=at(2))
    assert scheduler.run_cycle(at(2)).started == 2


@pytest.mark.parametrize("order", [Order.SHORTEST, Order.LAS])
def test_so_they_do_where_all_who_run_are_chosen_anew(halves, alice, project, order):
    scheduler = Scheduler(holder="test", policy=replace(DEFAULT_POLICY, order=order, preempts=True))
    first = submit(alice, project, gpu_milli="0.5")
    assert scheduler.run_cycle(at(1)).started == 1
    submit(alice, project, gpu_milli="0.5", now=at(2))
    assert (outcome := scheduler.run_cycle(at(2))).started == 1 and not outcome.stopped
    first.refresh_from_db()
    assert first.state == JobState.STARTING


def test_who_runs_on_a_part_would_get_such_a_one_again(halves, scheduler, alice, project):
    submit(alice, project, nodes="1..2", gpu_milli="0.5")
    scheduler.run_cycle(at(1))
    loaded = load_snapshot(at(2)).with_running(rest_s=0, now=at(2))
    check_snapshot(loaded.snapshot)
    (model,) = loaded.snapshot.running.jobs.model.tolist()
    assert loaded.snapshot.models[model].endswith(" 1/2")


def test_a_live_job_that_the_engine_refuses_is_left_alone_and_others_start(
    cluster, scheduler, alice, project
):
    live = submit(alice, project, nodes="1..2", gpus_per_node=1)
    assert scheduler.run_cycle(at(1)).started == 1
    waiting = submit(alice, project, now=at(2))
    snapshot = load_snapshot(at(2)).with_running(rest_s=0, now=at(2)).snapshot
    jobs = replace(snapshot.running.jobs, remaining_s=floats([-1.0]))
    snapshot = replace(snapshot, running=replace(snapshot.running, jobs=jobs))
    plan = plan_or_hold(snapshot, Policy(preempts=True), now=at(3))
    assert [start.job for start in plan.starts] == [waiting.pk]
    live.refresh_from_db()
    assert live.state == JobState.STARTING
    assert not Job.objects.filter(state=JobState.HELD).exists()
