"""One scheduler at a time."""

import pytest

from scheduler.loop.lease import LEASE_S, acquire_lease, release_lease, renew_lease
from scheduler.models import SchedulerLease
from tests.scenes import NOON, at

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
