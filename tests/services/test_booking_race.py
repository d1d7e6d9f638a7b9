"""A submit into a booking and the end of that booking at once: whoever comes second sees it."""

from __future__ import annotations

import pytest
from django.db import transaction

from scheduler.models import Job
from scheduler.services.bookings import cancel_booking, edit_booking, release_unused
from scheduler.services.errors import Invalid
from scheduler.services.nodes import create_pool
from scheduler.services.sharing.limits import set_quota
from scheduler.spec import SpecInvalid
from tests import scenes
from tests.locks import both, elsewhere
from tests.scenes import NOON, at
from tests.services.test_bookings import HOUR, book

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def booking(root, lead, project):
    return book(lead, project, scenes.build_cluster(root, nodes=2, gpus=2), nodes=2)


def test_nobody_comes_into_a_booking_that_is_being_closed(lead, alice, project, booking):
    def submit():
        return scenes.submit(alice, project, booking=str(booking.pk), now=NOON)

    [refused] = both(lambda: cancel_booking(actor=lead, booking=booking, now=NOON), submit)
    assert isinstance(refused, SpecInvalid)
    assert [one.field for one in refused.problems] == ["booking"]
    assert not Job.objects.exists()


def test_one_that_somebody_comes_into_is_not_given_back(alice, project, booking):
    def submit():
        scenes.submit(alice, project, booking=str(booking.pk), now=at(HOUR + 899))

    assert both(submit, lambda: release_unused(now=at(HOUR + 900))) == [0]
    booking.refresh_from_db()
    assert not booking.closed_as


def test_an_edit_waits_for_who_comes_into_it_and_holds_nothing_of_theirs(
    lead, alice, project, booking
):
    """A job's row needs its pool's when it is committed, which an edit holds, too."""

    def edit():
        return edit_booking(actor=lead, booking=booking, changes={"nodes": 1}, now=NOON)

    submit = {"booking": str(booking.pk), "now": NOON}
    [edited] = both(lambda: scenes.submit(alice, project, **submit), edit)
    assert edited.nodes == 1
    assert Job.objects.get().booked_in_id == booking.pk


def test_who_comes_into_a_booking_does_not_wait_for_others_who_do(alice, project, booking):
    def submit():
        scenes.submit(alice, project, booking=str(booking.pk), now=NOON)

    with transaction.atomic():
        submit()
        elsewhere(submit)
    assert Job.objects.filter(booked_in=booking).count() == 2


@pytest.mark.parametrize("change", ["another", "an edit"])
def test_of_two_bookings_in_two_pools_one_is_beyond_a_maximum_of_both(
    root, lead, team, project, change
):
    one = scenes.build_cluster(root, gpus=4)
    other = scenes.Cluster(root, create_pool(actor=root, name="other"), [])
    scenes.add_node(other, "o1", 4)
    set_quota(actor=root, owner=team, maximum=5)
    small = book(lead, project, other, gpus_per_node=1)

    def more():
        if change == "another":
            return book(lead, project, other, gpus_per_node=3)
        return edit_booking(actor=lead, booking=small, changes={"gpus_per_node": 4}, now=NOON)

    [refused] = both(lambda: book(lead, team, one, gpus_per_node=3), more)
    assert isinstance(refused, Invalid) and "vision may hold then" in str(refused)
