"""Asking for GPUs from one hour to another: said at once what is in the way, booked by consent."""

from __future__ import annotations

from datetime import timedelta

import pytest

from accounts.models import AuditEvent
from accounts.services import move_team
from scheduler.models import Booking, Job, MaintenanceWindow, OutboundMail, Quota, QuotaRequest
from scheduler.services.bookings import cancel_booking, plan_booking
from scheduler.services.bookings.requested import shape_of
from scheduler.services.errors import Conflict, Forbidden, Invalid
from scheduler.services.requesting.foreseeing.whatif import ask_whatif, simulate
from scheduler.services.requesting.granting import is_in_force, revoke_granted
from scheduler.services.requesting.reminding import renew_request, tend_requests
from scheduler.services.sharing.grants import add_grant
from scheduler.services.sharing.limits import set_quota
from scheduler.services.sites.windows import plan_window
from scheduler.states import BookingState
from tests import requesting, scenes
from tests.requesting import DAY_S, decide
from tests.scenes import at

pytestmark = pytest.mark.django_db
HOUR = 3600


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=3, gpus=4)


@pytest.fixture
def wish(cluster, root, team, project, alice, lead):
    """Asks for GPUs from the second hour to the sixth; the team is guaranteed eight."""
    set_quota(actor=root, owner=team, guaranteed=8, maximum=10)

    def ask(amount=8, *, hours=(2, 6), now=None, who=alice, owner=project, **more):
        begin, end = (at(hour * HOUR) for hour in hours)
        fields = {"kind": "reservation", "pool": cluster.pool, "amount": amount}
        fields |= {"valid_from": begin, "valid_until": end, **more}
        return requesting.ask(who, owner, now=now or at(0), **fields)

    return ask


def test_consent_books_and_ending_it_gives_back(wish, cluster, project, alice, carol, lead):
    request = wish()
    assert (request.route, request.due_at) == (["lead"], at(2 * HOUR))
    assert not Booking.objects.exists()
    with pytest.raises(Forbidden):
        decide(alice, request)
    done = decide(lead, request)
    booking = done.booking
    assert (done.state, booking.project, booking.created_by) == ("approved", project, alice)
    # All four GPUs of each node: the nodes are the project's as a whole.
    assert (booking.nodes, booking.gpus_per_node, booking.note) == (2, 0, str(request))
    assert (booking.from_at, booking.until_at) == (at(2 * HOUR), at(6 * HOUR))
    # Eight GPUs for four hours at 3.60, used or not.
    assert f"{done.decisions.get().monthly_cost:.2f}" == "115.20"
    assert AuditEvent.objects.filter(action="booking.plan", actor_name="lead").count() == 1
    with pytest.raises(Forbidden):
        revoke_granted(actor=carol, request_id=done.pk, version=done.version, now=at(HOUR))
    gone = revoke_granted(actor=alice, request_id=done.pk, version=done.version, now=at(HOUR))
    booking.refresh_from_db()
    assert booking.closed_as == BookingState.CANCELLED
    assert not is_in_force(gone, at(HOUR))
    with pytest.raises(Conflict):
        revoke_granted(actor=lead, request_id=gone.pk, version=gone.version, now=at(HOUR))


def test_a_lead_gives_alone_what_the_team_is_guaranteed_all_the_time(wish, root, team):
    """Two more from the first hour to the fourth, and none of them from then on."""
    own = Quota.objects.get(account__team=team)
    span = {"valid_from": at(HOUR), "valid_until": at(4 * HOUR)}
    add_grant(actor=root, quota=own, guaranteed=2, now=at(0), **span)
    assert wish(9, hours=(1, 3)).route == ["lead"]
    assert wish(9, hours=(3, 6)).route == ["lead", "admin"]


def test_less_and_shorter_is_a_smaller_booking_and_late_consent_begins_at_once(wish, lead):
    request = wish(6)
    wrong = {"outcome": "less", "amount": 13}
    with pytest.raises(Invalid):
        decide(lead, request, **wrong)
    until = at(5 * HOUR)
    done = decide(lead, request, "less", amount=3, valid_until=until, now=at(3 * HOUR))
    assert (done.state, done.booking.nodes, done.booking.gpus_per_node) == ("partly_approved", 1, 3)
    assert (done.booking.from_at, done.booking.until_at) == (at(3 * HOUR), until)


def test_what_is_in_the_way_is_said_when_asking_and_again_when_deciding(
    wish, cluster, root, other_team, alice, lead, carol
):
    plan_window(actor=root, pool=cluster.pool, nodes=["n1"], from_at=at(HOUR),
                until_at=at(3 * HOUR), reason="disks", now=at(0))  # fmt: skip
    request = wish(8)
    times = {"from_at": at(4 * HOUR), "until_at": at(9 * HOUR)}
    theirs = plan_booking(
        actor=root, owner=other_team, pool=cluster.pool, nodes=2, now=at(0), **times
    )
    with pytest.raises(Invalid, match=r"maintenance 20 Nov 2026.*Choose another time") as refused:
        wish(8, who=lead, hours=(1, 8))
    assert refused.value.field == "valid_from"
    before = (QuotaRequest.objects.values().get(pk=request.pk), AuditEvent.objects.count())
    with pytest.raises(Conflict, match=f"booking {theirs.pk} ") as late:
        decide(lead, request)
    assert late.value.field == "valid_from"
    after = (QuotaRequest.objects.values().get(pk=request.pk), AuditEvent.objects.count())
    assert (before, Booking.objects.count()) == (after, 1)
    cancel_booking(actor=root, booking=theirs, now=at(60))
    assert decide(lead, request).state == "approved"
    assert MaintenanceWindow.objects.count() == 1


def test_beyond_the_guarantee_an_administrator_agrees_too_and_beyond_the_maximum_nobody_asks(
    wish, cluster, root, lead, team, alice
):
    decide(lead, wish(4))
    assert wish(4, hours=(6, 8)).route == ["lead"]
    # Four are booked beside it: of the eight that are guaranteed, four are left.
    assert wish(6, hours=(4, 5), gpu_model=scenes.MODEL).route == ["lead", "admin"]
    with pytest.raises(Invalid, match="asks for the same and is open"):
        wish(2, hours=(7, 9))
    with pytest.raises(Invalid, match="more than the 10 that vision may hold") as refused:
        wish(12, owner=team, hours=(6, 8))
    assert refused.value.field == "amount"


def test_what_a_team_below_has_booked_is_no_longer_the_leads_to_give(
    wish, cluster, root, team, other_team
):
    move_team(actor=root, team=other_team, parent=team)
    times = {"from_at": at(2 * HOUR), "until_at": at(6 * HOUR), "now": at(0)}
    plan_booking(actor=root, owner=other_team, pool=cluster.pool, nodes=1, **times)
    assert wish(6).route == ["lead", "admin"]
    with pytest.raises(Invalid, match="8 GPUs beside 4 booked then are more than the 10"):
        wish(8, hours=(5, 7))


def test_what_cannot_be_booked_is_named(wish):
    for more, field in (
        ({"pool": None}, "pool"),
        ({"amount": 13}, "amount"),
        ({"hours": (2, 2)}, "valid_until"),
        ({"hours": (2, 2 + 31 * 24)}, "valid_until"),
        ({"hours": (2, 2.05)}, "valid_until"),
        ({"hours": (-2, 5)}, "valid_from"),
    ):
        with pytest.raises(Invalid) as refused:
            wish(**more)
        assert refused.value.field == field, more
    assert not QuotaRequest.objects.exists()


def test_gpus_go_evenly_over_the_fewest_nodes(cluster):
    shapes = {}
    for gpus in (1, 4, 6, 7, 8, 9, 12):
        try:
            found = shape_of(cluster.pool, "", gpus)
            shapes[gpus] = (found.nodes, found.gpus_per_node)
        except Invalid as refused:
            shapes[gpus] = refused.field
    assert shapes == {
        1: (1, 1), 4: (1, 0), 6: (2, 3), 7: "amount", 8: (2, 0), 9: (3, 3), 12: (3, 0),
    }  # fmt: skip


def test_hours_that_pass_undecided_end_it_and_a_renewal_follows(wish, lead, alice):
    late = wish(4)
    assert tend_requests(now=at(6 * HOUR - 1))["expired"] == 0
    assert tend_requests(now=at(6 * HOUR))["expired"] == 1
    late.refresh_from_db()
    assert late.state == "expired"
    assert OutboundMail.objects.filter(person=alice, text__contains="hours were over").exists()
    done = decide(lead, wish(4, hours=(10, 14), now=at(7 * HOUR)), now=at(8 * HOUR))
    again = renew_request(actor=alice, request=done, now=at(9 * HOUR)).versions.get()
    assert (again.amount, again.valid_from, again.valid_until) == (
        4, at(14 * HOUR), at(18 * HOUR),
    )  # fmt: skip


def test_the_what_if_plays_last_weeks_hours_again_with_fewer_nodes(
    wish, cluster, root, project, other_project, carol, lead
):
    now = at(7 * DAY_S)
    for _ in range(3):
        job = scenes.submit(carol, other_project, now=at(3 * HOUR), gpus_per_node=4)
        begin = at(3 * HOUR)
        Job.objects.filter(pk=job.pk).update(
            queued_at=begin, started_at=begin, ended_at=begin + timedelta(hours=1)
        )
    request = wish(8, hours=(7 * 24 + 2, 7 * 24 + 6), now=now)
    row = simulate(ask_whatif(actor=lead, request=request, now=now), now=now)
    (theirs,) = row.answer["teams"]
    assert theirs["name"] == "speech" and theirs["is_news"]
    # One node instead of three: one starts at once, the second an hour later, the third at the end.
    assert theirs["p50_s"] == [0, 0, 3600]
    assert row.answer["booking"] == {"in_service": 12, "booked": [0, 4, 8], "clash": ""}
    assert [f"{float(one):.2f}" for one in row.answer["monthly_cost"]] == [
        "0.00",
        "57.60",
        "115.20",
    ]
    plan_window(actor=root, pool=cluster.pool, from_at=at(7 * DAY_S + HOUR),
                until_at=at(7 * DAY_S + 4 * HOUR), reason="disks", now=now)  # fmt: skip
    row = simulate(ask_whatif(actor=lead, request=request, now=now), now=now)
    assert "Only 0 of the 2 nodes are free" in row.answer["booking"]["clash"]
