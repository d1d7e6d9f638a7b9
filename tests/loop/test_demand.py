"""What jobs have asked for lately reaches the engine if the policy packs, and only then."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.exceptions import ImproperlyConfigured

from portal.settings import env
from scheduler.conf import load_conf
from scheduler.engine.checks import check_snapshot
from scheduler.engine.packing.mix import typical_mix
from scheduler.engine.policy import DEFAULT_POLICY, Order, PlacementRule
from scheduler.loop.cycle import Scheduler
from scheduler.loop.demand import COUNT_EVERY, WINDOW, DemandMemory
from scheduler.loop.loading import load_snapshot
from scheduler.models import Job
from scheduler.states import JobState
from tests.scenes import MODEL, NOON, at, submit

pytestmark = pytest.mark.django_db


def demand_of(memory: DemandMemory, now):
    snapshot = memory.add_to(load_snapshot(now).snapshot, now=now)
    check_snapshot(snapshot)
    columns = [getattr(snapshot.demand, name) for name in ("gpus", "cpus", "model", "count")]
    return snapshot, list(zip(*(column.tolist() for column in columns), strict=True))


def test_shares_of_two_weeks_are_counted_by_what_they_asked_for(cluster, alice, project):
    submit(alice, project, nodes=2, gpus_per_node=2, cpus=4)
    submit(alice, project, gpus_per_node=2, cpus=4)
    submit(alice, project, gpus_per_node=1, cpus=2, gpu_model=MODEL)
    old = submit(alice, project, gpus_per_node=1, cpus=9)
    Job.objects.filter(pk=old.pk).update(queued_at=NOON - WINDOW - timedelta(seconds=1))
    snapshot, demand = demand_of(DemandMemory(), NOON)
    assert demand == [(1, 2, snapshot.models.index(MODEL), 1), (2, 4, -1, 3)]
    assert typical_mix(snapshot).count.tolist() == [3, 1]


def test_it_is_counted_anew_after_a_while(cluster, alice, project, django_assert_num_queries):
    memory = DemandMemory()
    snapshot = load_snapshot(NOON).snapshot
    with django_assert_num_queries(1):
        memory.add_to(snapshot, now=NOON)
    submit(alice, project, cpus=2)
    with django_assert_num_queries(0):
        assert not len(memory.add_to(snapshot, now=at(5)).demand.count)
    with django_assert_num_queries(1):
        later = memory.add_to(snapshot, now=NOON + COUNT_EVERY)
    assert later.demand.count.tolist() == [1]


def test_models_that_nobody_has_are_left_out(cluster, alice, project):
    job = submit(alice, project)
    Job.objects.filter(pk=job.pk).update(gpu_model="Z9", state=JobState.CANCELLED)
    assert demand_of(DemandMemory(), NOON)[1] == []


def test_the_setting_chooses_the_rule(cluster, alice, project, settings):
    assert load_conf().policy.order is Order.FAIR
    assert load_conf().policy.placement is DEFAULT_POLICY.placement
    settings.TRAINYARD = {**settings.TRAINYARD, "placement": "pack"}
    assert load_conf().policy.placement is PlacementRule.PACK
    job = submit(alice, project)
    scheduler = Scheduler(holder="two")
    assert scheduler.run_cycle(at(1)).started == 1
    assert scheduler.memories.demand.counted_at == at(1)
    job.refresh_from_db()
    assert job.state == JobState.STARTING


def test_another_word_is_refused(monkeypatch):
    monkeypatch.setenv("TRAINYARD_PLACEMENT", "loose")
    with pytest.raises(ImproperlyConfigured, match="TRAINYARD_PLACEMENT must be tight or pack"):
        env.choice("TRAINYARD_PLACEMENT", "tight", "pack")
