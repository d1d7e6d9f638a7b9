"""No more is booked than its owner may hold, all the time."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.services import create_project, create_team, move_team
from scheduler.services.bookings import edit_booking
from scheduler.services.errors import Invalid
from scheduler.services.sharing.grants import add_grant
from scheduler.services.sharing.limits import set_quota
from tests import scenes
from tests.scenes import NOON, at
from tests.services.test_bookings import HOUR, book

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=3, gpus=4)


def test_no_more_is_booked_than_the_owner_may_hold_then(lead, root, team, project, cluster):
    set_quota(actor=root, owner=project, pool=cluster.pool, maximum=3)
    with pytest.raises(Invalid, match="more than the 3") as refused:
        book(lead, project, cluster, nodes=2, gpus_per_node=2)
    assert refused.value.field == "nodes"
    booking = book(lead, project, cluster, nodes=1, gpus_per_node=2)
    with pytest.raises(Invalid, match="beside 2 booked"):
        book(lead, project, cluster, nodes=1, gpus_per_node=2)
    with pytest.raises(Invalid, match="more than the 3"):
        edit_booking(actor=lead, booking=booking, changes={"nodes": 2}, now=NOON)


def test_a_grant_that_ends_or_begins_within_a_booking_counts_while_it_lasts(
    lead, root, project, cluster
):
    """A maximum of 2, and 2 more from one o'clock to two."""
    quota = set_quota(actor=root, owner=project, pool=cluster.pool, maximum=2)
    more = {"valid_from": at(HOUR), "valid_until": at(2 * HOUR)}
    add_grant(actor=root, quota=quota, maximum=2, now=NOON, **more)
    with pytest.raises(Invalid, match="may hold from 20 Nov 2026, 14:00 UTC; book fewer"):
        book(lead, project, cluster, gpus_per_node=4, hours=(1, 3))
    with pytest.raises(Invalid, match="more than the 2 that vision/digits may hold then"):
        book(lead, project, cluster, gpus_per_node=4, hours=(0.5, 2))
    during = book(lead, project, cluster, gpus_per_node=2, hours=(1, 2))
    with pytest.raises(Invalid, match="beside 2 booked then are more than the 4"):
        book(lead, project, cluster, gpus_per_node=3, hours=(1, 2))
    # The one ends as the grant does, so beside this there is none when less may be held.
    assert book(lead, project, cluster, gpus_per_node=2, hours=(1, 3))
    with pytest.raises(Invalid, match=r"beside 2 booked then .* from 20 Nov 2026, 14:00 UTC"):
        edit_booking(actor=lead, booking=during, changes={"until_at": at(3 * HOUR)}, now=NOON)


def test_all_that_lies_below_a_maximum_counts_for_it_together(
    lead, root, team, project, other_team, other_project, cluster
):
    """Two projects, a team and a team below it share what the one above may hold."""
    sister = create_project(actor=root, team=team, name="Faces")
    move_team(actor=root, team=other_team, parent=team)
    set_quota(actor=root, owner=team, pool=cluster.pool, maximum=6)
    for owner in (project, sister, team, other_project):
        book(root, owner, cluster, gpus_per_node=1)
    booking = book(root, other_team, cluster, gpus_per_node=1)
    for owner in (project, team, other_team, other_project):
        with pytest.raises(Invalid, match=r"beside 5 booked .* than the 6 that vision may"):
            book(root, owner, cluster, gpus_per_node=2)
    with pytest.raises(Invalid, match="vision may hold then, with all below it; book"):
        change = {"gpus_per_node": 3}
        edit_booking(actor=root, booking=booking, changes=change, now=NOON)
    # Later it is free again, and so it is for who lies beside it.
    assert book(root, sister, cluster, nodes=3, gpus_per_node=2, hours=(3, 4))
    assert book(root, create_team(actor=root, name="Text"), cluster, gpus_per_node=4)


def test_how_much_is_asked_does_not_grow_with_the_bookings(root, team, project, cluster):
    """Of whole nodes, each of which has GPUs to be counted."""
    set_quota(actor=root, owner=team, pool=cluster.pool, maximum=12)
    counts = []
    for _ in range(3):
        with CaptureQueriesContext(connection) as asked:
            book(root, project, cluster)
        counts.append(len(asked))
    assert counts[1] == counts[2]


def test_who_may_hold_less_by_now_may_end_a_booking_sooner(lead, root, project, cluster):
    booking = book(lead, project, cluster, gpus_per_node=2)
    set_quota(actor=root, owner=project, pool=cluster.pool, maximum=1)
    sooner, later = ({"until_at": at(hour * HOUR)} for hour in (2, 4))
    booking = edit_booking(actor=lead, booking=booking, changes=sooner, now=NOON)
    with pytest.raises(Invalid, match="more than the 1"):
        edit_booking(actor=lead, booking=booking, changes=later, now=NOON)
