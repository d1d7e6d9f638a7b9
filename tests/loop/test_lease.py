"""One scheduler at a time."""

import os
import subprocess

import pytest

from scheduler.loop import cycle as loop_cycle
from scheduler.loop.cycle import Scheduler
from scheduler.loop.lease import (
    LEASE_S,
    acquire_lease,
    has_ended,
    own_name,
    release_lease,
    renew_lease,
)
from scheduler.models import SchedulerLease
from scheduler.selectors.waits.deciding import Decided, last_decided
from tests.scenes import NOON, at, submit

pytestmark = pytest.mark.django_db


def test_the_first_gets_it_the_second_waits_until_it_expires():
    first = acquire_lease("a", now=NOON)
    assert acquire_lease("b", now=at(LEASE_S - 0.1)) is None
    second = acquire_lease("b", now=at(LEASE_S))
    assert second.token == first.token + 1
    assert renew_lease(first, now=at(LEASE_S + 1)) is None


def test_a_renewed_lease_keeps_its_token_and_lasts_longer():
    first = acquire_lease("a", now=NOON)
    renewed = renew_lease(first, now=at(LEASE_S - 1))
    assert renewed.token == first.token
    assert acquire_lease("b", now=at(LEASE_S + 1)) is None


def test_a_lease_that_is_fresh_is_not_written_again(django_assert_num_queries):
    lease = acquire_lease("a", now=NOON)
    with django_assert_num_queries(0):
        assert renew_lease(lease, now=at(0.5)) is lease


def test_who_waits_writes_nothing(django_assert_num_queries):
    acquire_lease("a", now=NOON)
    with django_assert_num_queries(1):
        assert acquire_lease("b", now=at(1)) is None


def test_a_holder_that_slept_may_go_on_if_nobody_came():
    lease = acquire_lease("a", now=NOON)
    assert renew_lease(lease, now=at(1000)).token == lease.token


def test_released_it_is_free_at_once():
    release_lease(acquire_lease("a", now=NOON), now=at(1))
    assert acquire_lease("b", now=at(1)) is not None


def test_releasing_what_another_has_taken_changes_nothing():
    old = acquire_lease("a", now=NOON)
    new = acquire_lease("b", now=at(LEASE_S))
    release_lease(old, now=at(LEASE_S + 1))
    row = SchedulerLease.objects.get()
    assert (row.holder, row.token, row.expires_at) == ("b", new.token, new.expires_at)


def test_of_a_holder_that_has_ended_here_it_is_taken_at_once_and_of_no_other():
    gone = subprocess.Popen(["true"])
    mine = own_name()
    ended = f"{mine.removesuffix(str(os.getpid()))}{gone.pid}"
    # Gone by its start, too: that of another process, or of one that nobody has waited for.
    assert has_ended(ended) and not has_ended(mine)
    gone.wait()
    first = acquire_lease(mine, now=NOON)
    assert acquire_lease("b", now=at(1)) is None
    SchedulerLease.objects.update(holder=ended)
    second = acquire_lease("b", now=at(1))
    assert second.token == first.token + 1 and renew_lease(first, now=at(5)) is None
    for stranger in (ended.replace(" ", " other"), "b", "", f"b x/y:{gone.pid}"):
        assert not has_ended(stranger)


def test_who_cannot_decide_does_not_lengthen_the_lease_and_says_so(
    scheduler, alice, project, monkeypatch
):
    scheduler.run_cycle(at(0))
    scheduler.run_cycle(at(5))
    with monkeypatch.context() as patched:
        patched.setattr(loop_cycle, "load_snapshot", lambda now, **more: 1 / 0)
        for second in range(6, 30):
            with pytest.raises(ZeroDivisionError):
                scheduler.run_cycle(at(second))
    decided = last_decided(alice, now=at(30))
    assert at(3) <= decided.at <= at(6) and decided.is_late
    # It goes on with the same token where nobody came, and is fresh again.
    submit(alice, project)
    assert scheduler.run_cycle(at(30)).started == 1
    scheduler.run_cycle(at(31))
    assert last_decided(alice, now=at(32)) == Decided(at(31), is_late=False)


def test_another_takes_over_from_who_cannot_decide(scheduler, alice, project, monkeypatch):
    scheduler.run_cycle(at(0))
    with monkeypatch.context() as patched:
        patched.setattr(loop_cycle, "load_snapshot", lambda now, **more: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            scheduler.run_cycle(at(5))
    submit(alice, project)
    assert Scheduler(holder="other").run_cycle(at(12)).started == 1
    assert not scheduler.run_cycle(at(13)).has_lease
