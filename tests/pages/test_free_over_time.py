"""What is free over time: as it was by every second's record, as it comes if nothing new starts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import strip_tags

from portal.templatetags.moments import local
from scheduler.loop.cycle import Scheduler
from scheduler.models import MaintenanceWindow, Node, SchedulerLease
from scheduler.selectors.freeing.room import room_over_time
from scheduler.services.nodes import drain_node
from scheduler.services.sites.following import follow_windows
from scheduler.states import NodeState
from tests import scenes
from tests.pages.test_budgets import statements
from tests.pages.yard import book_soon
from tests.scenes import at, ended, running, start, submit, sync
from tests.services.test_bookings import HOUR as HOUR_S
from tests.services.test_bookings import book

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=2, gpus=4)


def run(alice, project, node, since, *, gpus=1, until=None, limit="2h"):
    job = submit(alice, project, gpus_per_node=gpus, time_limit=limit, now=since)
    attempt = start(job, node, now=since)
    sync(node, running(attempt), now=since)
    if until is not None:
        sync(node, ended(attempt), now=until)
    return job


def seen(viewer, begin, end, now, **more):
    """Of the only pool: past, latest and likely as counts by whole hours from noon."""
    (room,) = room_over_time(viewer, start=at(begin), end=at(end), now=at(now), **more)
    told = []
    for points in (room.past, room.latest, room.likely):
        told.append({(moment - scenes.NOON) / HOUR: count for moment, count in points})
    return room, *told


def test_what_was_is_what_the_record_says(alice, project, cluster):
    one, two = cluster.nodes
    run(alice, project, one, at(3600), gpus=3, until=at(7200))
    run(alice, project, two, at(5400), gpus=1, until=at(3 * 3600))
    room, past, latest, likely = seen(alice, 0, 4 * 3600, 5 * 3600)
    assert (room.total, latest, likely) == (8, {}, {})
    # Eight GPUs; the first run takes three from one o'clock on, the second one from half past.
    assert [past[hour] for hour in (0.5, 1, 1.5, 2, 2.5, 3)] == [8, 5, 4, 7, 7, 8]
    room, past, *_ = seen(alice, 0, 4 * 3600, 5 * 3600, whole_nodes=True)
    assert room.total == 2
    assert [past[hour] for hour in (0.5, 1, 1.5, 2, 2.5, 3)] == [2, 1, 0, 1, 1, 2]


def test_what_comes_is_by_limits_by_runs_alike_and_less_what_is_planned(
    root, alice, lead, project, cluster
):
    one, two = cluster.nodes
    for _ in range(3):
        run(alice, project, two, at(0), until=at(1800))
    run(alice, project, one, at(3600), gpus=1, limit="3h")
    run(alice, project, two, at(3600), gpus=2, limit="1h")
    _, past, latest, likely = seen(alice, 0, 6 * 3600, 3660)
    now = 3660 / 3600
    assert past and max(past) < now
    assert (latest[now], latest[2.1], latest[4.1]) == (5, 7, 8)
    # Such runs usually take half an hour.
    assert likely[1.6] > latest[1.6] == 5
    MaintenanceWindow.objects.create(
        pool=cluster.pool, from_at=at(5 * 3600), until_at=at(9 * 3600), reason="fans"
    )
    _, _, latest, _ = seen(alice, 0, 6 * 3600, 3660)
    assert latest[4.5] == 8 and latest[5] == latest[5.5] == 0
    drain_node(actor=root, node=two, reason="fans")
    _, _, latest, _ = seen(alice, 0, 6 * 3600, 3660)
    assert latest[4.5] == 4


def test_what_is_booked_is_free_for_nobody_else(alice, lead, project, cluster):
    """Two of four are: two others are held until three, and one of the booking itself until two."""
    Node.objects.exclude(pk=cluster.node(1).pk).update(state=NodeState.RETIRED)
    first = book(lead, project, cluster, gpus_per_node=2, hours=(1, 5))
    run(alice, project, cluster.node(1), at(HOUR_S), gpus=2, limit="2h")
    _, _, latest, _ = seen(alice, 0, 6 * HOUR_S, HOUR_S)
    assert (latest[1], latest[3.1], latest[5.1]) == (0, 2, 4)
    inside = submit(
        alice, project, gpus_per_node=1, time_limit="1h", booking=str(first.pk), now=at(HOUR_S)
    )
    start(inside, cluster.node(1), now=at(HOUR_S))
    _, _, latest, _ = seen(alice, 0, 6 * HOUR_S, HOUR_S)
    assert (latest[1], latest[2.1], latest[3.1], latest[5.1]) == (0, 0, 2, 4)
    book(lead, project, cluster, gpus_per_node=2, hours=(4, 6))
    _, _, latest, _ = seen(alice, 0, 6 * HOUR_S, HOUR_S)
    assert (latest[3.1], latest[4.1], latest[5.1]) == (2, 0, 2)


def test_nodes_in_maintenance_are_free_again_when_it_is_over(root, alice, cluster):
    """But not one that an operator drains meanwhile."""
    MaintenanceWindow.objects.create(pool=cluster.pool, from_at=at(0), until_at=at(2 * 3600))
    follow_windows(now=at(1))
    _, _, latest, _ = seen(alice, 0, 4 * 3600, 3600)
    assert latest[1] == latest[1.9] == 0 and latest[2] == latest[4] == 8
    drain_node(actor=root, node=cluster.node(2), reason="fans")
    _, _, latest, _ = seen(alice, 0, 4 * 3600, 3600)
    assert latest[1.9] == 0 and latest[2] == 4
    follow_windows(now=at(2 * 3600))
    _, _, latest, _ = seen(alice, 0, 4 * 3600, 2 * 3600)
    assert latest[2] == 4


def test_the_page_says_it_in_a_picture_a_sentence_and_a_table(
    client, root, alice, lead, project, cluster
):
    now = timezone.now()
    run(alice, project, cluster.node(1), now, gpus=4, limit="2h")
    book_soon(lead, project, cluster.pool, nodes=1)
    client.force_login(alice)
    url = reverse("cluster_room")
    page = client.get(url, {"span": "6h", "of": "nodes", "need": "2"})
    text = page.content.decode()
    assert 'aria-label="Free in default: 2 in all' in text and "needs 2" in text
    # The line of what is needed says its number, and the scale does not say it there again.
    assert ">1</text>" in text and ">2</text>" not in text
    # On ground of its own, above all that is drawn.
    drawn = text.partition('<svg class="gantt"')[2].partition("</svg>")[0]
    assert drawn.rindex('class="gut"') > max(map(drawn.rindex, ("rm-late", "rm-need", "nowt")))
    assert drawn.index('class="gl mu"') > drawn.rindex('class="gut"')
    assert "1 free now" in text and "2 are free together" in text
    past = {"from": f"{now - 3 * HOUR:%Y-%m-%dT%H:%MZ}", "to": f"{now - HOUR:%Y-%m-%dT%H:%MZ}"}
    text = client.get(url, {**past, "need": "2"}).content.decode()
    assert "needs 2" in text and "free together" not in text
    table = client.get(url, {"span": "6h", "view": "list"}).content.decode()
    assert '<svg class="gantt"' not in table and "At the latest" in table
    odd = client.get(url, {"of": "racks", "need": "-1", "pool": "none", "x": "1"})
    assert odd.status_code == 200
    for words in ("need: ", "pool: there is no pool", "of: "):
        assert words in odd.content.decode()
    part = client.get(url, {"part": "live"}).content.decode()
    assert part.strip().startswith("<div") and "<html" not in part


def test_what_is_free_for_a_waiting_job_agrees_with_when_it_starts(client, alice, project, cluster):
    """To the minute, though the picture itself is looked at each six minutes."""
    now = timezone.now()
    for node in cluster.nodes:
        run(alice, project, node, now - timedelta(minutes=1), gpus=3, limit="9m20s")
        sync(node, now=now)
    job = submit(alice, project, nodes=2, gpus_per_node=4, now=now)
    SchedulerLease.objects.update(expires_at=scenes.NOON)
    Scheduler(holder="test").run_cycle(now)
    job.refresh_from_db()
    assert job.wait_reason == "capacity_busy", job.wait_facts
    starts = datetime.fromtimestamp(job.wait_facts["start_p90_at"], UTC)
    client.force_login(alice)
    page = client.get(reverse("jobs:detail", args=[job.pk])).content.decode()
    assert "need=8&amp;part=job" in page and "if jobs run to their time limits" in page
    asked = {"pool": "default", "span": "24h", "need": "8", "part": "job"}
    told = strip_tags(client.get(reverse("cluster_room"), asked).content.decode())
    assert f"8 are free by {local(starts):%H:%M} at the latest" in told
    assert "likely from" not in told
    assert "2 are free now." in strip_tags(
        client.get(reverse("cluster_room"), {**asked, "need": "2"}).content.decode()
    )


def test_an_elastic_job_is_told_of_as_many_as_it_starts_with(client, alice, project, cluster):
    job = submit(alice, project, nodes="1..2", gpus_per_node=4)
    client.force_login(alice)
    page = client.get(reverse("jobs:detail", args=[job.pk])).content.decode()
    assert "need=4&amp;part=job" in page


def test_it_asks_as_much_for_many_nodes_and_jobs(root, alice, project, cluster):
    counts = []
    for number in range(2):
        run(alice, project, cluster.node(1), at(0))
        with statements() as asked:
            room_over_time(alice, start=at(0), end=at(7200), now=at(3600))
        counts.append(len(asked))
        scenes.add_node(cluster, f"more-{number}", 8)
    assert counts[0] == counts[1] <= 6
