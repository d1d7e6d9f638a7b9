"""A job that waits asks for other GPUs, nodes or another pool: as if submitted so, in its place."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.db.models import Sum

from accounts.models import AuditEvent
from scheduler.loop.changing import change_job, preview, read_change
from scheduler.loop.cycle import Scheduler
from scheduler.models import (
    Allocation,
    BudgetPledge,
    Claim,
    Dependency,
    Device,
    Job,
    JobEvent,
    Node,
    SchedulerLease,
)
from scheduler.selectors.composing.templates import get_version
from scheduler.services.changing.by_hand import hold_job
from scheduler.services.composing import templates
from scheduler.services.errors import Conflict, Forbidden, Invalid, StaleVersion
from scheduler.services.placing import Start, start_attempts
from scheduler.services.preempting.ordering import Room, Victim, keep_room, order_room
from scheduler.services.preempting.overtaken import refuse_overtaken
from scheduler.services.rows.placed import PlacedOn
from scheduler.services.sharing.budgets import BudgetRules, set_budget
from scheduler.spec import parse_spec
from tests import scenes
from tests.composing import make_template
from tests.loop.otherwise import OTHER, change, request_of, two_pools
from tests.scenes import NOON, at

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return two_pools(root)


def test_it_asks_for_something_else_in_its_old_place_and_that_is_on_record(
    cluster, alice, lead, project
):
    job = scenes.submit(alice, project, gpus_per_node=2, gpu_model=scenes.MODEL, now=at(1))
    Job.objects.filter(pk=job.pk).update(wait_reason="capacity_busy", wait_facts={"ahead": 3})
    after = change(alice, job, gpus_per_node="4", gpu_model="", nodes="1..2", pool="spare")
    assert (after.pk, after.state, after.queued_at) == (job.pk, "queued", at(1))
    assert (after.submitted_at, after.version) == (at(1), job.version + 1)
    assert (after.wait_reason, after.wait_facts) == ("evaluating", {})
    alike = scenes.submit(
        alice, project, gpus_per_node=4, gpu_model="", nodes="1..2", pool="spare", now=at(1)
    )
    assert request_of(after) == request_of(alike)
    event = JobEvent.objects.get(job=job, kind="request_changed")
    assert event.actor == alice
    assert event.detail == {
        "was": f"1 node with 2 GPUs of {scenes.MODEL} in pool default",
        "is": "1 to 2 nodes with 4 GPUs each of any model in pool spare",
    }
    [audited] = AuditEvent.objects.filter(action="job.request_changed")
    assert json.loads(audited.before) == {"request": event.detail["was"]}
    assert json.loads(audited.after) == {"request": event.detail["is"]}
    # The same once more changes nothing, and nothing is told of it.
    assert change(alice, after, gpus_per_node="4", pool="spare").version == after.version
    change(lead, after, gpus_per_node="1")
    assert JobEvent.objects.filter(job=job, kind="request_changed").count() == 2
    assert AuditEvent.objects.filter(action="job.request_changed").count() == 2
    SchedulerLease.objects.all().delete()
    Node.objects.update(last_seen_at=at(60))
    assert Scheduler(holder="test").run_cycle(at(61)).started == 1
    places = job.attempts.get().placements.all()
    assert {place.node.name for place in places} <= {"m1", "m2"}
    assert all(place.allocations.count() == 1 for place in places)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"gpus_per_node": "3"}, "gpus_per_node: the largest node of pool default has 2"),
        ({"gpus_per_node": "-1"}, "gpus_per_node: write a whole number"),
        ({"gpus_per_node": "٣"}, "gpus_per_node: write a whole number"),
        ({"nodes": "3"}, "nodes: pool default has 2 nodes"),
        ({"nodes": "2..1"}, "nodes: must begin with the fewest"),
        ({"nodes": "0"}, "nodes: must be at least 1"),
        ({"nodes": "x"}, "nodes: "),
        ({"pool": "nowhere"}, "pool: there is no pool nowhere"),
        ({"gpu_model": "H300"}, "gpu_model: pool default has no H300; it has"),
        ({"gpu_model": "x\x00y"}, "gpu_model"),
    ],
)
def test_what_no_submit_could_ask_for_is_refused_by_name(cluster, alice, project, asked, words):
    job = scenes.submit(alice, project)
    before = request_of(job)
    for ask in (preview, lambda who, what, how, now: change_job(actor=who, job=what, change=how)):
        with pytest.raises(Invalid, match=words):
            ask(alice, job, read_change(**asked), now=at(9))
    assert request_of(job) == before
    assert not JobEvent.objects.filter(job=job, kind="request_changed").exists()


def test_only_who_may_act_on_it_and_only_what_they_saw(cluster, alice, bob, carol, project):
    job = scenes.submit(alice, project)
    for stranger in (bob, carol):
        with pytest.raises(Forbidden):
            change(stranger, job, gpus_per_node="2")
    with pytest.raises(StaleVersion):
        change(alice, job, gpus_per_node="2", version=job.version + 1)
    held = hold_job(actor=alice, job=job, now=at(2))
    after = change(alice, held, gpus_per_node="2")
    assert (after.state, after.wait_reason, after.gpus_per_node) == ("held", "held_by_user", 2)
    impact = preview(alice, after, read_change(gpus_per_node="1"), now=at(3))
    assert (impact["own"], impact["delayed_count"]) == (None, 0)


def test_once_it_has_started_nothing_is_changed(cluster, alice, project):
    job = scenes.submit(alice, project)
    seen = Job.objects.get(pk=job.pk)
    scenes.start(job, cluster.node(1))
    with pytest.raises(Conflict, match="has started") as refused:
        change(alice, seen, gpus_per_node="2")
    assert refused.value.code == "started"
    with pytest.raises(Conflict, match="has started"):
        change(alice, seen, pool="spare")
    with pytest.raises(Conflict, match="has started"):
        preview(alice, Job.objects.get(pk=job.pk), read_change(pool="spare"), now=at(9))
    job.refresh_from_db()
    assert (job.gpus_per_node, job.pool.name) == (1, "default")


def test_a_start_that_was_decided_before_happens_no_more(cluster, alice, project):
    """Of a batch only the one that asks for something else is dropped, and the room for it."""
    moved, resized, other_model, stays = (scenes.submit(alice, project) for _ in range(4))
    devices = iter(Device.objects.filter(node__pool=cluster.pool).order_by("pk"))

    def planned(job):
        device = next(devices)
        return Start(job.pk, (PlacedOn(device.node_id, 0, (device.pk,), 1, 1024),))

    starts = [planned(job) for job in (moved, resized, other_model, stays)]
    change(alice, moved, pool="spare")
    change(alice, resized, gpus_per_node="2")
    with pytest.raises(Invalid):
        change(alice, other_model, gpu_model=OTHER)
    change(alice, other_model, gpu_model=scenes.MODEL)
    keep_room(Room(moved.pk, starts[0].placements, ()), grace_s=60, now=at(60))
    assert Claim.objects.filter(job=moved).exists()
    started = start_attempts(starts, lease_token=scenes.TOKEN, now=at(61))
    assert sorted(started) == sorted([other_model.pk, stays.pk])
    assert not Claim.objects.filter(job=moved).exists()
    for job in (moved, resized):
        job.refresh_from_db()
        assert (job.state, job.attempts.count()) == ("queued", 0)


def test_jobs_that_only_ran_or_waited_before_are_looked_at_together(
    cluster, alice, project, django_assert_num_queries
):
    jobs = {job.pk: job for job in (scenes.submit(alice, project) for _ in range(3))}
    Job.objects.filter(pk__in=jobs).update(version=7)
    for job in jobs.values():
        job.refresh_from_db()
    nowhere = PlacedOn(cluster.node(1).pk, 0, (), 1, 1024)
    with django_assert_num_queries(1):
        refuse_overtaken([Start(pk, (nowhere,)) for pk in jobs], jobs)


@pytest.mark.parametrize(("gpus", "stopped"), [("2", 0), ("1", 1)])
def test_nobody_is_stopped_for_what_it_asked_for_before(cluster, alice, project, gpus, stopped):
    victim, job = (scenes.submit(alice, project, name=name) for name in ("old", "new"))
    attempt = scenes.start(victim, cluster.node(1))
    devices = [one.device_id for one in Allocation.objects.filter(placement__attempt=attempt)]
    places = (PlacedOn(cluster.node(1).pk, 0, tuple(devices), 1, 1024),)
    room = Room(job.pk, places, (Victim(victim.pk),), job.time_limit_s)
    change(alice, job, gpus_per_node="2")
    change(alice, job, gpus_per_node=gpus)
    assert order_room(room, lease_token=scenes.TOKEN, now=at(61)) == stopped
    assert Claim.objects.filter(job=job).exists() is bool(stopped)
    victim.refresh_from_db()
    assert victim.state == ("stopping" if stopped else "starting")


def test_room_that_was_being_made_is_given_up(cluster, alice, project):
    job = scenes.submit(alice, project)
    device = Device.objects.filter(node=cluster.node(1)).first()
    room = Room(job.pk, (PlacedOn(cluster.node(1).pk, 0, (device.pk,), 1, 1024),), ())
    keep_room(room, grace_s=60, now=at(2))
    change(alice, job, gpus_per_node="2")
    assert not Claim.objects.exists()
    assert JobEvent.objects.filter(job=job, kind="room_lost").exists()


def test_what_it_committed_follows_as_at_a_submit_or_the_budget_refuses(
    cluster, root, team, alice, project
):
    budget = set_budget(
        actor=root, owner=team, gpu_hours=4, valid_from=NOON - timedelta(days=1),
        valid_until=NOON + timedelta(days=9), rules=BudgetRules(commits_at="submit"), now=at(0),
    )  # fmt: skip
    job = scenes.submit(alice, project, gpus_per_node=2, time_limit="1h")

    def committed():
        budget.refresh_from_db()
        held = BudgetPledge.objects.aggregate(s=Sum("gpu_seconds"))["s"] or 0
        assert budget.committed_s == held
        return held / 3600

    assert committed() == 2
    change(alice, job, gpus_per_node="1")
    assert committed() == 1
    change(alice, job, gpus_per_node="0")
    assert committed() == 0
    change(alice, job, gpus_per_node="2", nodes="2")
    assert committed() == 4
    before = request_of(job)
    with pytest.raises(Conflict, match="Not paid for") as refused:
        change(alice, job, gpus_per_node="3", nodes="2", pool="spare")
    assert refused.value.code == "budget"
    assert (committed(), request_of(job)) == (4, before)


def test_a_template_holds_what_it_bounds(cluster, alice, lead, team, project):
    version = get_version(alice, make_template(lead, team))
    spec = parse_spec({**version.document, "project": project.path})
    job = templates.submit_from_template(
        actor=alice, version=version, spec=spec, idempotency_key="k"
    ).job
    with pytest.raises(Invalid, match=r"gpus_per_node: must lie in 1\.\.4"):
        change(alice, job, gpus_per_node="0")
    assert change(alice, job, pool="spare").pool.name == "spare"


def test_one_task_changes_alone_and_who_waits_for_it_goes_on_waiting(cluster, alice, project):
    first = scenes.submit(alice, project, array={"range": "0-2"})
    after = scenes.submit(alice, project, depends_on=f"afterok:{first.pk}")
    change(alice, first, gpus_per_node="2")
    tasks = Job.objects.filter(job_set=first.job_set).order_by("array_index")
    assert [task.gpus_per_node for task in tasks] == [2, 1, 1]
    after.refresh_from_db()
    assert (after.state, Dependency.objects.get(job=after).on_id) == ("held", first.pk)
    change(alice, after, pool="spare")
    after.refresh_from_db()
    assert (after.state, after.wait_reason, after.pool.name) == (
        "held",
        "dependency_wait",
        "spare",
    )


def test_before_the_button_stands_what_it_does_to_others_and_what_it_costs(
    cluster, alice, bob, carol, project, other_project
):
    busy = [scenes.submit(bob, project, gpus_per_node=2, time_limit="2h") for _ in range(2)]
    for job, node in zip(busy, cluster.nodes, strict=True):
        scenes.sync(node, scenes.running(scenes.start(job, node)), now=at(1))
    small = scenes.submit(alice, project, gpus_per_node=1, time_limit="1h", now=at(2))
    behind = scenes.submit(
        carol, other_project, gpus_per_node=2, nodes=2, time_limit="1h", now=at(3)
    )
    impact = preview(alice, small, read_change(gpus_per_node="2", nodes="2"), now=at(60))
    assert (impact["consent"], impact["may"]) == ("", True)
    assert impact["most_cost"] == {"was": "3.60 EUR", "then": "14.40 EUR"}
    both = preview(alice, small, read_change("2h", gpus_per_node="2", nodes="2"), now=at(60))
    assert both["most_cost"] == {"was": "3.60 EUR", "then": "28.80 EUR"}
    assert both["more_cost"] is None
    away = preview(alice, small, read_change(pool="spare"), now=at(60))
    assert away["own"]["then_at"] == at(60) and away["own"]["was_at"] > at(3600)
    assert away["most_cost"]["then"] is None
    assert {one["job"] for one in away["sooner"]} <= {None}
    seen_by_carol = preview(carol, behind, read_change(nodes="1"), now=at(60))
    assert seen_by_carol["own"]["then_at"] <= seen_by_carol["own"]["was_at"]
    small.refresh_from_db()
    assert (small.gpus_per_node, small.pool.name) == (1, "default")
