"""A clock that is set decides nothing: leases, deadlines and limits count what really passed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.conf import load_conf
from scheduler.loop.lease import LEASE_S, acquire_lease, renew_lease
from scheduler.models import Allocation, Node, UsageEntry
from scheduler.services import logs, reaping
from scheduler.services.bookings import plan_booking
from scheduler.services.placing import Start, start_attempts
from scheduler.services.rows.placed import PlacedOn
from scheduler.services.timeline.clock import Clock
from scheduler.states import EndReason
from tests import scenes
from tests.scenes import NOON, at, ended, running, start, submit, sync

pytestmark = pytest.mark.once
HOUR_S = 3600


def stepped(*steps):
    """A clock that was looked at once a second and set at these seconds, by so much."""
    clock, ahead_s = Clock(), 0
    for second in range(60):
        ahead_s += sum(by_s for when, by_s in steps if when == second)
        clock.look(at(second + ahead_s), 1000.0 + second)
    return clock


@pytest.mark.parametrize(
    ("steps", "at_s", "now_s", "age_s"),
    [
        ([], 10, 50, 40),
        ([(30, HOUR_S)], 10, HOUR_S + 50, 40),
        ([(30, HOUR_S)], HOUR_S + 40, HOUR_S + 50, 10),
        # Told by a node before the step, in a call that took five seconds; and by a server whose
        # clock is five seconds behind.
        ([(30, HOUR_S)], 33, HOUR_S + 50, 17),
        ([(30, HOUR_S)], HOUR_S + 26, HOUR_S + 50, 24),
        ([(20, HOUR_S), (40, HOUR_S)], 10, 2 * HOUR_S + 50, 40),
        ([(20, HOUR_S), (40, HOUR_S)], HOUR_S + 30, 2 * HOUR_S + 50, 20),
        ([(30, 4)], 10, 50, 40),
        ([(30, -HOUR_S)], 10, 50 - HOUR_S, 40 - HOUR_S),
        ([(20, -HOUR_S), (40, HOUR_S)], 10, 50, 40),
        ([(20, HOUR_S), (40, -HOUR_S)], 10, 50, 40),
        ([(20, HOUR_S), (40, -HOUR_S)], 45, 50, 5),
        ([(20, HOUR_S), (40, 100 - HOUR_S)], 145, 150, 5),
        ([(20, HOUR_S), (40, 100 - HOUR_S)], 10, 150, 40),
        ([(20, HOUR_S), (30, HOUR_S), (40, -HOUR_S - 60)], 10, HOUR_S - 60 + 50, 40),
    ],
)
def test_what_was_before_a_step_is_not_older_for_it(steps, at_s, now_s, age_s):
    assert stepped(*steps).age(at(at_s), at(now_s)) == timedelta(seconds=age_s)


@pytest.mark.parametrize(
    ("at_s", "age_s"), [(10, 60), (27, 43), (45, 25), (HOUR_S + 55, 15), (HOUR_S + 69, 1)]
)
def test_a_process_that_comes_back_knows_of_a_step_that_nobody_saw(tmp_path, at_s, age_s):
    """It was last kept at 25, died at 29 and came back at 60; the clock was set at 50."""
    first, path = Clock(), tmp_path / "clock.json"
    first.keep_in(path)
    for second in range(30):
        first.look(at(second), 1000.0 + second)
    second = Clock()
    second.keep_in(path)
    second.look(at(HOUR_S + 60), 1060.0)
    assert second.age(at(at_s), at(HOUR_S + 70)) == timedelta(seconds=age_s)
    third = Clock()
    third.keep_in(path)
    assert third.steps == second.steps


@pytest.mark.parametrize(("at_s", "least_s", "most_s"), [(25, 40, 40), (HOUR_S + 40, -1e9, 30)])
def test_between_two_steps_that_nobody_saw_nothing_is_older_than_it_is(at_s, least_s, most_s):
    """It was looked at at 25 and at 60; the clock was set at 30 and at 50, and now it is 65."""
    clock = Clock()
    clock.look(at(25), 1025.0)
    clock.look(at(2 * HOUR_S + 60), 1060.0)
    age_s = clock.age(at(at_s), at(2 * HOUR_S + 65)).total_seconds()
    assert least_s <= age_s <= most_s


def test_what_another_boot_or_half_a_file_says_is_not_believed(tmp_path):
    path = tmp_path / "clock.json"
    for text in ('{"boot": "other", "looked": ["x", 1], "steps": []}', '{"boot": '):
        path.write_text(text)
        clock = Clock()
        clock.keep_in(path)
        clock.look(at(HOUR_S), 1.0)
        assert clock.steps == []


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=2)


@pytest.mark.django_db
def test_an_hour_ahead_gives_nobody_up_and_stops_nothing(cluster, alice, project, monkeypatch):
    """I28: the nodes were heard at noon; one of them is never heard again."""
    for module in (reaping, logs):
        monkeypatch.setattr(module, "CLOCK", stepped((30, HOUR_S)))
    conf = load_conf()
    first = start(submit(alice, project, time_limit="10m"), cluster.node(1))
    sync(cluster.node(1), running(first))
    start(submit(alice, project), cluster.node(2))

    def reaped(seconds):
        now = at(HOUR_S + seconds)
        work = (reaping.mark_silent, reaping.mark_lost, reaping.revoke_unaccepted)
        return [one(now=now) for one in (*work, reaping.stop_overdue, logs.finish_undrained)]

    assert reaped(31) == [0, 0, 0, 0, 0]
    sync(cluster.node(1), now=at(HOUR_S + 40))
    assert reaped(conf.node_lease_s + 1) == [1, 0, 0, 0, 0]
    lost_s = scenes.given_up_after().total_seconds()
    sync(cluster.node(1), running(first), now=at(HOUR_S + lost_s))
    assert reaped(lost_s - 1)[:2] == [0, 0]
    assert reaped(lost_s + 1)[:2] == [0, 1]
    assert Node.objects.get(pk=cluster.node(1).pk).state == "ready"


@pytest.mark.django_db
@pytest.mark.parametrize("ahead_s", [0.4, HOUR_S])
def test_nobody_holds_a_device_from_before_the_last_one_let_go(cluster, alice, project, ahead_s):
    """I1, I2: the portal that hears the end has a clock ahead of the one that plans."""
    node, job = cluster.node(1), submit(alice, project, retries=1)
    first = start(job, node)
    sync(node, ended(first, reason=EndReason.EXIT_CODE, exit_code=1), now=at(60 + ahead_s))
    second = start(job, node, now=at(60))
    first.refresh_from_db()
    assert first.ended_at is not None
    assert second.assigned_at >= first.ended_at
    (let_go,), (taken,) = held_by(first), held_by(second)
    assert taken.device_id == let_go.device_id
    assert taken.acquired_at >= let_go.released_at


@pytest.mark.django_db
def test_nobody_begins_in_a_booking_that_has_ended_by_the_clock_of_who_let_go(
    cluster, lead, alice, project
):
    """I13: the plan finds the booking open by a clock that is behind that of the portal."""
    node = cluster.node(1)
    first = start(submit(alice, project, gpus_per_node=2), node)
    booking = plan_booking(
        actor=lead, owner=project, pool=cluster.pool, nodes=1, from_at=at(60),
        until_at=at(HOUR_S), now=NOON,
    )  # fmt: skip
    job = submit(alice, project, booking=str(booking.pk))
    other = submit(alice, project)
    sync(node, ended(first), now=at(2 * HOUR_S))
    devices = sorted(held.device_id for held in held_by(first))
    starts = [
        Start(each.pk, (PlacedOn(node.pk, 0, (device,), 1, 64),))
        for each, device in zip((job, other), devices, strict=True)
    ]
    assert start_attempts(starts, lease_token=scenes.TOKEN, now=at(100)) == [other.pk]
    job.refresh_from_db()
    assert (job.state, job.attempts.count()) == ("queued", 0)


@pytest.mark.django_db
def test_a_clock_that_was_put_back_charges_no_negative_time(cluster, alice, project):
    node = cluster.node(1)
    attempt = start(submit(alice, project), node, now=at(HOUR_S))
    sync(node, ended(attempt), now=at(60))
    (held,) = held_by(attempt)
    assert held.released_at == held.acquired_at
    assert not UsageEntry.objects.filter(allocation=held, gpu_seconds__lt=0).exists()


def held_by(attempt):
    return Allocation.objects.filter(placement__attempt=attempt)


@pytest.mark.django_db
def test_a_scheduler_whose_clock_was_put_back_renews_its_lease(db):
    lease = acquire_lease("one", now=NOON)
    renewed = renew_lease(lease, now=at(-HOUR_S))
    assert renewed.expires_at == at(-HOUR_S + LEASE_S)
