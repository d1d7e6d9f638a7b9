"""Bookings: who may book what, what clashes, and what becomes of them and of the jobs inside."""

from __future__ import annotations

import pytest

from accounts.models import AuditEvent, Role
from accounts.services import archive_project, create_team
from scheduler.models import Booking, MaintenanceWindow, OutboundMail
from scheduler.selectors.calendar.bookings import booking_views
from scheduler.selectors.calendar.reserved import reserved_devices
from scheduler.services.bookings import (
    cancel_booking,
    edit_booking,
    end_booked_jobs,
    plan_booking,
    release_unused,
)
from scheduler.services.errors import Conflict, Forbidden, Invalid, StaleVersion
from scheduler.services.placing import start_attempts
from scheduler.services.sharing.limits import set_quota
from scheduler.services.sites.windows import cancel_window, plan_window
from scheduler.spec import SpecInvalid
from scheduler.states import BookingState, EndReason
from tests import scenes
from tests.factories import member
from tests.scenes import NOON, at

pytestmark = pytest.mark.django_db
HOUR = 3600


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=3, gpus=4)


def book(actor, owner, cluster, *, nodes=1, hours=(1, 3), **more):
    begin, end = hours
    return plan_booking(
        actor=actor,
        owner=owner,
        pool=cluster.pool,
        nodes=nodes,
        from_at=at(begin * HOUR),
        until_at=at(end * HOUR),
        now=NOON,
        **more,
    )


def test_a_lead_books_and_the_record_says_so(lead, team, project, cluster):
    booking = book(lead, project, cluster, nodes=2, name="exam-week", note=" the exam ")
    assert (booking.note, len(booking.node_ids)) == ("the exam", 2)
    states = [booking.state_at(at(hour * HOUR)) for hour in (0, 1, 3)]
    assert states == [BookingState.PLANNED, BookingState.ACTIVE, BookingState.ENDED]
    assert AuditEvent.objects.filter(action="booking.plan", actor_name="lead").count() == 1
    book(lead, team, cluster)


def test_members_and_leads_of_others_may_not_book(alice, carol, operator, project, cluster):
    for stranger in (alice, carol):
        with pytest.raises(Forbidden):
            book(stranger, project, cluster)
    assert book(operator, project, cluster)


def test_what_clashes_is_named(lead, operator, project, cluster, root):
    first = book(lead, project, cluster, nodes=2)
    window = plan_window(
        actor=root,
        pool=cluster.pool,
        from_at=at(2 * HOUR),
        until_at=at(4 * HOUR),
        nodes=["n3"],
        now=NOON,
    )
    with pytest.raises(Conflict) as refused:
        book(operator, project, cluster, nodes=1, hours=(2, 5))
    assert refused.value.facts == {"free": 0, "bookings": [first.pk], "windows": [window.pk]}
    said = "(2 nodes, 20 Nov 2026, 13:00 to 20 Nov 2026, 15:00 UTC)"
    assert f"In the way: booking {first.pk} of vision/digits {said}" in str(refused.value)
    robots = create_team(actor=root, name="Robots")
    stranger = member("rose", robots, Role.LEAD, by=root)
    with pytest.raises(Conflict) as refused:
        book(stranger, robots, cluster, nodes=1, hours=(2, 5))
    assert f"In the way: another team's booking {first.pk} {said}" in str(refused.value)
    assert "vision" not in str(refused.value)
    assert book(operator, project, cluster, nodes=3, hours=(4, 5))
    assert book(operator, project, cluster, nodes=1, hours=(1, 2))


def test_parts_of_a_node_may_be_booked_beside_each_other(lead, project, cluster):
    made = [book(lead, project, cluster, gpus_per_node=2) for _ in range(6)]
    assert sorted(node for one in made for node in one.node_ids) == sorted(
        [node.pk for node in cluster.nodes] * 2
    )
    with pytest.raises(Conflict):
        book(lead, project, cluster, gpus_per_node=1)


def test_what_is_booked_one_after_the_other_is_not_added_up(lead, root, project, cluster):
    """Of each node two of four GPUs, first from one to two o'clock, then from two to three."""
    set_quota(actor=root, owner=project, maximum=12)
    for hours in ((1, 2), (2, 3)):
        book(lead, project, cluster, nodes=3, gpus_per_node=2, hours=hours)
    assert book(lead, project, cluster, nodes=3, gpus_per_node=2, hours=(1, 3))
    with pytest.raises(Conflict):
        book(lead, project, cluster, gpus_per_node=1, hours=(1, 3))


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"hours": (-1, 3)}, "from_at"),
        ({"hours": (3, 3)}, "until_at"),
        ({"hours": (1, 24 * 400)}, "until_at"),
        ({"nodes": 0}, "nodes"),
        ({"nodes": 4}, "nodes"),
        ({"gpus_per_node": 5}, "nodes"),
        ({"gpus_per_node": 65}, "gpus_per_node"),
        ({"gpu_model": "B200"}, "nodes"),
        ({"name": "Exam Week"}, "name"),
        ({"name": "12"}, "name"),
    ],
)
def test_bad_bookings_are_refused_by_field(lead, project, cluster, wrong, field):
    with pytest.raises(Invalid) as refused:
        book(lead, project, cluster, **wrong)
    assert refused.value.field == field
    assert not Booking.objects.exists()


def test_nothing_is_booked_for_a_project_that_is_archived(root, lead, project, cluster):
    archive_project(actor=root, project=project)
    with pytest.raises(Invalid, match="vision/digits is archived") as refused:
        book(root, project, cluster)
    assert refused.value.field == "owner"


def test_an_edit_needs_the_version_that_was_read(lead, project, cluster):
    booking = book(lead, project, cluster)
    edited = edit_booking(
        actor=lead, booking=booking, version=1, changes={"until_at": at(5 * HOUR)}, now=NOON
    )
    assert (edited.version, edited.until_at, edited.node_ids) == (
        2,
        at(5 * HOUR),
        booking.node_ids,
    )
    with pytest.raises(StaleVersion):
        edit_booking(actor=lead, booking=booking, version=1, changes={"nodes": 2}, now=NOON)
    with pytest.raises(StaleVersion):
        cancel_booking(actor=lead, booking=booking, version=1, now=NOON)
    book(lead, project, cluster, nodes=2, hours=(4, 6))
    with pytest.raises(Conflict):
        edit_booking(actor=lead, booking=booking, changes={"nodes": 2}, now=NOON)
    with pytest.raises(Invalid):
        late = at(2 * HOUR)
        edit_booking(actor=lead, booking=booking, changes={"from_at": late}, now=late)


def test_one_that_nobody_uses_is_given_back(lead, alice, project, cluster):
    idle, used, awaited = (book(lead, project, cluster) for _ in range(3))
    job = scenes.submit(alice, project, booking=str(used.pk), now=NOON)
    scenes.start(job, cluster.node(1), now=at(HOUR + 1))
    scenes.submit(alice, project, booking=str(awaited.pk), now=NOON)
    assert release_unused(now=at(HOUR + 899)) == 0
    assert release_unused(now=at(HOUR + 900)) == 1
    idle.refresh_from_db()
    assert idle.state_at(at(HOUR + 900)) is BookingState.RELEASED
    assert release_unused(now=at(HOUR + 901)) == 0
    assert book(lead, project, cluster)


def test_its_jobs_stop_a_minute_before_its_end_and_late_ones_are_cancelled(
    lead, alice, project, cluster
):
    booking = book(lead, project, cluster)
    running = scenes.submit(alice, project, booking=str(booking.pk), now=NOON)
    waiting = scenes.submit(alice, project, booking=str(booking.pk), now=NOON)
    follower = scenes.submit(alice, project, depends_on=[f"afterok:{waiting.pk}"], now=NOON)
    attempt = scenes.start(running, cluster.node(1), now=at(HOUR + 1))
    assert end_booked_jobs(now=at(3 * HOUR - 61)) == 0
    assert end_booked_jobs(now=at(3 * HOUR - 60)) == 1
    attempt.refresh_from_db()
    assert (attempt.state, attempt.stop_reason) == ("stopping", EndReason.BOOKING_ENDED)
    assert end_booked_jobs(now=at(3 * HOUR)) == 1
    assert end_booked_jobs(now=at(3 * HOUR + 1)) == 0
    waiting.refresh_from_db()
    follower.refresh_from_db()
    assert (waiting.state, waiting.end_reason) == ("cancelled", EndReason.BOOKING_ENDED)
    assert waiting.end_facts == {"booking": booking.pk}
    assert follower.state == "cancelled"


def test_cancelling_an_active_one_ends_it_now(lead, alice, project, cluster):
    booking = book(lead, project, cluster)
    job = scenes.submit(alice, project, booking=str(booking.pk), now=NOON)
    scenes.start(job, cluster.node(1), now=at(HOUR + 1))
    now = at(HOUR + 60)
    done = cancel_booking(actor=lead, booking=booking, reason="off", now=now)
    assert done.closed_as == "cancelled"
    assert cancel_booking(actor=lead, booking=booking, now=now).closed_as == "cancelled"
    assert end_booked_jobs(now=now) == 1
    with pytest.raises(Conflict):
        edit_booking(actor=lead, booking=booking, changes={"note": "x"}, now=now)


def test_no_start_is_committed_into_a_booking_cancelled_since_the_plan(
    lead, alice, project, cluster
):
    """Its job ends as one that waited, though it was about to start; others start."""
    booking = book(lead, project, cluster)
    job = scenes.submit(alice, project, booking=str(booking.pk), now=NOON)
    other = scenes.submit(alice, project, now=NOON)
    starts = [scenes.planned(one, cluster.node(n)) for n, one in enumerate((job, other), start=1)]
    cancel_booking(actor=lead, booking=booking, reason="off", now=at(HOUR + 1))
    assert start_attempts(starts, lease_token=scenes.TOKEN, now=at(HOUR + 1)) == [other.pk]
    assert end_booked_jobs(now=at(HOUR + 1)) == 1
    job.refresh_from_db()
    assert (job.state, job.end_reason) == ("cancelled", EndReason.BOOKING_ENDED)
    assert not job.attempts.exists()


def test_a_job_names_a_booking_that_it_may_use_and_that_holds_it(
    lead, alice, carol, team, project, other_project, cluster
):
    book(lead, team, cluster, gpus_per_node=2, name="exam")
    assert scenes.submit(alice, project, booking="exam").booked_in.name == "exam"
    for field, fields in (
        ("booking", {"booking": "ghost"}),
        ("nodes", {"booking": "exam", "nodes": 2}),
        ("gpus_per_node", {"booking": "exam", "gpus_per_node": 3}),
        ("exclusive", {"booking": "exam", "exclusive": True}),
        ("begin", {"booking": "exam", "begin": at(4 * HOUR).isoformat()}),
    ):
        with pytest.raises(SpecInvalid) as refused:
            scenes.submit(alice, project, **fields)
        assert [one.field for one in refused.value.problems] == [field]
    with pytest.raises(SpecInvalid):
        scenes.submit(carol, other_project, booking="exam")


def test_who_looks_on_sees_when_and_how_much_but_not_whose(
    lead, carol, project, cluster, django_assert_max_num_queries
):
    for _ in range(3):
        book(lead, project, cluster, note="secret")
    with django_assert_max_num_queries(14):
        views = booking_views(carol, now=NOON)
    assert {(view.is_shown, view.may_change) for view in views} == {(False, False)}
    assert {(view.is_shown, view.may_change) for view in booking_views(lead, now=NOON)} == {
        (True, True)
    }


def test_whose_devices_are_while_a_booking_is_active(lead, alice, project, cluster):
    whole, part = book(lead, project, cluster), book(lead, project, cluster, gpus_per_node=2)
    assert reserved_devices(now=NOON) == {}
    job = scenes.submit(alice, project, now=NOON)
    scenes.start(job, next(n for n in cluster.nodes if n.pk == part.node_ids[0]), now=at(HOUR - 1))
    owned = reserved_devices(now=at(HOUR))
    assert sorted(one.pk for one in owned.values()) == [whole.pk] * 4 + [part.pk] * 2
    assert not set(owned) & set(
        job.attempts.get().placements.values_list("allocations__device", flat=True)
    )


def plan_over(root, cluster, nodes, **more):
    return plan_window(
        actor=root, pool=cluster.pool, from_at=at(1.5 * HOUR), until_at=at(2 * HOUR), nodes=nodes,
        now=NOON, **more,
    )  # fmt: skip


def test_maintenance_moves_a_booking_that_has_other_nodes(lead, root, project, cluster):
    booking = book(lead, project, cluster, nodes=1)
    (here,) = booking.node_ids
    plan_over(root, cluster, [node.name for node in cluster.nodes if node.pk == here])
    booking.refresh_from_db()
    assert booking.node_ids != [here] and booking.hurt_by is None
    assert not OutboundMail.objects.exists()


def test_maintenance_over_a_booking_is_asked_about_and_told(lead, root, project, cluster):
    booking = book(lead, project, cluster, nodes=len(cluster.nodes))
    with pytest.raises(Conflict) as refused:
        plan_over(root, cluster, ())
    assert refused.value.facts == {"bookings": [booking.pk]}
    assert not MaintenanceWindow.objects.exists()
    window = plan_over(root, cluster, (), over_bookings=True, reason="power")
    booking.refresh_from_db()
    assert booking.hurt_by == window
    mails = OutboundMail.objects.filter(key__startswith=f"window:{window.pk}:")
    assert lead in [mail.person for mail in mails]
    assert "(power)" in mails[0].text and "no other nodes" in mails[0].text
    cancel_window(actor=root, window=window, now=NOON)
    booking.refresh_from_db()
    assert booking.hurt_by is None
