"""A limit that is raised while its job is being started: nobody's agreement is gone round."""

from __future__ import annotations

import pytest

from scheduler.loop import cycle
from scheduler.loop.changing import Change, change_job
from scheduler.models import Claim, Device, Job
from scheduler.services.errors import Conflict
from scheduler.services.preempting.ordering import Room, keep_room
from scheduler.services.rows.placed import PlacedOn
from scheduler.services.sites.windows import plan_window
from tests import scenes
from tests.locks import just_before
from tests.scenes import at

pytestmark = pytest.mark.django_db
HOUR = 3600
TEN_H = Change(time_limit_s=10 * HOUR)


def test_a_start_that_was_planned_for_less_time_is_planned_anew(
    monkeypatch, scheduler, cluster, root, alice, project
):
    plan_window(
        actor=root, pool=cluster.pool, from_at=at(2 * HOUR), until_at=at(4 * HOUR), now=at(0)
    )
    job = scenes.submit(alice, project, time_limit="1h")
    just_before(
        monkeypatch,
        cycle,
        "commit_starts",
        lambda: change_job(actor=alice, job=job, change=TEN_H, now=at(1)),
    )
    for second in (1, 3):
        assert scheduler.run_cycle(at(second)).started == 0
    job.refresh_from_db()
    assert (job.state, job.time_limit_s) == ("queued", 10 * HOUR)


def test_one_that_is_shortened_meanwhile_starts(monkeypatch, scheduler, cluster, alice, project):
    job = scenes.submit(alice, project, time_limit="1h")
    shorter = Change(time_limit_s=HOUR // 2)
    just_before(
        monkeypatch,
        cycle,
        "commit_starts",
        lambda: change_job(actor=alice, job=job, change=shorter, now=at(1)),
    )
    assert scheduler.run_cycle(at(1)).started == 1


def test_who_was_judged_as_waiting_is_not_extended_as_running(cluster, alice, project):
    """Of a waiting job nobody is asked; this one runs by the time it is written."""
    job = scenes.submit(alice, project, gpus_per_node=2, time_limit="1h")
    node = cluster.node(1)
    as_read = Job.objects.get(pk=job.pk)
    scenes.sync(node, scenes.running(scenes.start(job, node)), now=at(1), protocol=3)
    with pytest.raises(Conflict) as refused:
        change_job(actor=alice, job=as_read, change=TEN_H, now=at(60))
    assert refused.value.code == "try_again"
    job.refresh_from_db()
    assert (job.state, job.time_limit_s) == ("running", HOUR)


def test_room_that_is_made_for_less_time_is_given_up(cluster, alice, project):
    """What was stopped for it was weighed for an hour, before whatever begins after that."""
    job = scenes.submit(alice, project, time_limit="2h")
    device = Device.objects.filter(node=cluster.node(1)).first()
    room = Room(job.pk, (PlacedOn(cluster.node(1).pk, 0, (device.pk,), 1, 1024),), ())
    keep_room(room, grace_s=60, now=at(2))
    change_job(actor=alice, job=job, change=Change(time_limit_s=HOUR), now=at(3))
    assert Claim.objects.filter(job=job).exists()
    job.refresh_from_db()
    change_job(actor=alice, job=job, change=TEN_H, now=at(4))
    assert not Claim.objects.exists()
