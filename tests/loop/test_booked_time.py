"""Booked and not used: reserved idle time of whoever booked, from the begin to the end."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from accounts.services import set_rate
from scheduler.models import DeviceSegment, UsageLine
from scheduler.selectors.books.catalogue import open_report
from scheduler.selectors.books.frame import Ask
from scheduler.services import books
from scheduler.services.bookings import cancel_booking, end_booked_jobs, plan_booking
from scheduler.services.timeline.bookings import follow_bookings
from scheduler.services.timeline.segments import reconcile_segments
from tests import scenes
from tests.scenes import NOON, at

pytestmark = pytest.mark.django_db
HOUR = 3600


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=2)


def book(actor, owner, cluster, **more):
    wanted = {"nodes": 1, "from_at": at(HOUR), "until_at": at(3 * HOUR), **more}
    return plan_booking(actor=actor, owner=owner, pool=cluster.pool, now=NOON, **wanted)


def story(cluster, index):
    """(bucket, project, team, first second after noon) of a device of the only node."""
    rows = DeviceSegment.objects.filter(device__node=cluster.node(1), device__index=index)
    start = int(NOON.timestamp())
    return [(r.bucket, r.project_id, r.team_id, r.start_s - start) for r in rows.order_by("id")]


def test_time_alone_reserves_and_frees(lead, project, cluster, django_assert_num_queries):
    book(lead, project, cluster)
    with django_assert_num_queries(2):
        assert follow_bookings(now=at(HOUR - 1)) == 0
    assert follow_bookings(now=at(HOUR)) == 2
    assert follow_bookings(now=at(HOUR + 1)) == 0
    assert reconcile_segments(now=at(2 * HOUR)) == 0, "what is true now says the same"
    assert follow_bookings(now=at(3 * HOUR)) == 2
    for index in (0, 1):
        assert story(cluster, index) == [
            ("free", None, None, 0),
            ("reserved_idle", project.pk, None, HOUR),
            ("free", None, None, 3 * HOUR),
        ]


def test_a_job_inside_takes_its_devices_and_gives_them_back_to_the_booking(
    lead, alice, project, cluster
):
    """A part of a node is booked: one card is reserved, a job on it is no idle time."""
    book(lead, project, cluster, name="exam", gpus_per_node=1)
    follow_bookings(now=at(HOUR))
    assert [story(cluster, index)[-1][0] for index in (0, 1)] == ["reserved_idle", "free"]
    job = scenes.submit(alice, project, booking="exam", now=at(HOUR))
    attempt = scenes.start(job, cluster.node(1), now=at(HOUR + 10))
    follow_bookings(now=at(HOUR + 10))
    scenes.sync(cluster.node(1), scenes.running(attempt), now=at(HOUR + 10))
    scenes.sync(cluster.node(1), scenes.ended(attempt), now=at(HOUR + 60))
    assert story(cluster, 0)[1:] == [
        ("reserved_idle", project.pk, None, HOUR),
        ("overhead", project.pk, None, HOUR + 10),
        ("run", project.pk, None, HOUR + 10),
        ("reserved_idle", project.pk, None, HOUR + 60),
    ]
    assert story(cluster, 1) == [("free", None, None, 0)]


def test_what_is_given_back_is_free_in_the_same_transaction(lead, team, cluster):
    booking = book(lead, team, cluster)
    follow_bookings(now=at(HOUR))
    cancel_booking(actor=lead, booking=booking, now=at(2 * HOUR))
    assert story(cluster, 0)[1:] == [
        ("reserved_idle", None, team.pk, HOUR),
        ("free", None, None, 2 * HOUR),
    ]
    # The team's lead sees the seconds that the team will pay for.
    ask = Ask(
        "2026-11", team=team.slug, bucket="reserved_idle", now_s=int(at(3 * HOUR).timestamp())
    )
    _, sheet = open_report(lead, "segments", ask)
    assert sheet.totals["gpu_seconds"] == 2 * HOUR and len(list(sheet.rows(0))) == 2


def test_a_team_pays_for_what_it_booked_and_did_not_use(root, lead, team, cluster):
    """Two cards for two hours at 3.60 are 14.40; without its price the month stays open."""
    book(lead, team, cluster)
    follow_bookings(now=at(HOUR))
    follow_bookings(now=at(3 * HOUR))
    end_booked_jobs(now=at(3 * HOUR))
    close = {"actor": root, "period": "2026-11", "now": datetime(2026, 12, 2, tzinfo=UTC)}
    with pytest.raises(books.CloseBlocked, match="reserved-idle has no price"):
        books.close_period(**close)
    set_rate(
        actor=root,
        device_model="",
        kind="reserved-idle",
        price_per_gpu_hour=Decimal("3.60"),
        valid_from=NOON,
        restated_for="as if then",
    )
    closed = books.close_period(**close)
    assert (closed.control, closed.seconds["reserved_idle"]) == (1440, 4 * HOUR)
    lines = {(one.account, one.holder, one.gpu_seconds) for one in UsageLine.objects.all()}
    assert lines == {(f"team:{team.pk}", f"reserved:team:{team.pk}", 4 * HOUR)}
    assert books.reconcile_books(now=close["now"]).holds
    _, sheet = open_report(root, "idle-waste", Ask("2026-11"))
    assert all(check.holds for check in sheet.checks)
    # Four hours at 3.60, reserved and not used.
    assert (sheet.totals["reserved_idle_gpu_seconds"], sheet.totals["waste"]) == (
        4 * HOUR,
        Decimal("14.4"),
    )
    _, sheet = open_report(root, "use-and-waste", Ask("2026-11"))
    assert all(check.holds for check in sheet.checks)
    amounts = [sheet.totals[f"{part}amount"] for part in ("", "reserved_", "used_")]
    assert amounts == [Decimal("14.4"), Decimal("14.4"), 0]
