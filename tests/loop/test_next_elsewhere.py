"""Who has waited for long and comes first in another of its pools is the next one there."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.engine.policy import Policy
from scheduler.loop.cycle import Scheduler
from scheduler.loop.planning import elsewhere
from scheduler.models import Allocation, Job, SchedulerLease
from scheduler.services.nodes import create_pool
from tests import scenes
from tests.loop.otherwise import fill, places_of, two_pools
from tests.scenes import NOON, at, submit

pytestmark = pytest.mark.django_db

BOTH = {"pool": "default, spare", "gpus_per_node": 2}


@pytest.fixture
def scheduler(root):
    """Of two nodes of two GPUs in `default`, two of four in `spare`."""
    two_pools(root)
    SchedulerLease.objects.update(expires_at=NOON)
    return Scheduler(holder="test", policy=Policy(preempts=False))


def test_who_has_waited_and_comes_first_there_is_the_next_one_there(scheduler, alice, project):
    fill(alice, project, "n1", "n2", "m1")
    fill(alice, project, "m2", gpus=2)
    ahead = [submit(alice, project, now=at(-70), pool="default", gpus_per_node=2) for _ in "ab"]
    chooser = submit(alice, project, now=at(-60), **BOTH)
    there, later = (
        submit(alice, project, now=at(second), pool="spare", gpus_per_node=2) for second in (-9, -8)
    )
    outcome = scheduler.run_cycle(at(1))
    assert (outcome.moved, outcome.started, places_of(there)) == (1, 1, ["m2", "m2"])
    assert Job.objects.get(pk=chooser.pk).pool.name == "spare"
    Allocation.objects.filter(placement__attempt__job=there).update(released_at=at(2))
    assert scheduler.run_cycle(at(3)).started == 1
    assert (places_of(chooser), places_of(later)) == (["m2", "m2"], [])
    assert [places_of(one) for one in ahead] == [[], []]


def test_a_head_whose_start_is_near_stays_for_it(scheduler, alice, project, monkeypatch):
    fill(alice, project, "n1", "n2", "m1")
    fill(alice, project, "m2", gpus=2)
    submit(alice, project, now=at(-700), **BOTH)
    for second in (1, 2):
        # What fills `default` is planned for longer than ten minutes and less than two days.
        soon = timedelta(days=2) if second == 1 else timedelta(minutes=10)
        monkeypatch.setattr(elsewhere, "SOON", soon)
        there = submit(alice, project, now=at(0), pool="spare", gpus_per_node=2)
        outcome = scheduler.run_cycle(at(second))
        assert (outcome.started, outcome.moved) == (1, second - 1)
        Allocation.objects.filter(placement__attempt__job=there).update(released_at=at(second))


def test_who_would_go_first_in_one_pool_keeps_nobody_from_another(scheduler, root, alice, project):
    far = scenes.Cluster(root, create_pool(actor=root, name="far"), [])
    scenes.add_node(far, "f1", 2)
    fill(alice, project, "n1", "n2", "m1")
    fill(alice, project, "m2", gpus=2)
    asked = {"pool": "default", "gpus_per_node": 2}
    ahead = submit(alice, project, now=at(1), other_pools=["spare"], **asked)
    aside = submit(alice, project, now=at(1), other_pools=["far"], **asked)
    submit(alice, project, now=at(2), pool="spare", gpus_per_node=2)
    outcome = scheduler.run_cycle(at(3))
    assert (outcome.moved, outcome.started) == (1, 1)
    pools = [Job.objects.get(pk=job.pk).pool.name for job in (ahead, aside)]
    assert pools == ["default", "far"]
