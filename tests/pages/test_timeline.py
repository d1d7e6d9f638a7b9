"""The timeline: however much ran, all of it is told, a part of time at a time."""

from __future__ import annotations

import gzip
import re
from datetime import timedelta
from html import unescape
from urllib.parse import parse_qs, urlsplit

import pytest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape, strip_tags

from scheduler.models import Allocation, Attempt, Booking, Device, Job, MaintenanceWindow, Placement
from scheduler.selectors.calendar import plans
from scheduler.selectors.calendar.plans import plans_between
from scheduler.selectors.machines.timeline import MOST_BARS
from scheduler.services.nodes import create_pool, drain_node
from tests import scenes
from tests.pages.test_cluster import elements, reference_nodes
from tests.pages.yard import build_yard

pytestmark = pytest.mark.django_db
LINE = "cluster_timeline"


@pytest.fixture
def yard(root, alice, project):
    return build_yard(root, alice, project)


def have_run(yard, count, devices, over) -> None:
    """So many placements of alice's, evenly `over` what has passed, of one to nine minutes each."""
    now = timezone.now()
    attempts = Attempt.objects.bulk_create(
        Attempt(job=yard.succeeded, number=n + 2, state="ended", assigned_at=now)
        for n in range(count)
    )
    made = Placement.objects.bulk_create(
        Placement(
            attempt=attempt, node_id=devices[n % len(devices)].node_id, rank=0, cpus=1, memory_mib=1
        )
        for n, attempt in enumerate(attempts)
    )
    first, step = now - over, over / (count + 1)
    Allocation.objects.bulk_create(
        Allocation(
            placement=placement,
            device=devices[n % len(devices)],
            acquired_at=first + n * step,
            released_at=first + n * step + timedelta(minutes=1 + n % 9),
        )
        for n, placement in enumerate(made)
    )


def told(page) -> int:
    past = [bar for _, bar in page.context["lines"] if bar.kind == "past"]
    return sum(bar.jobs or 1 for bar in past)


@pytest.mark.parametrize("rows", ["node", "gpu", "team"])
def test_of_a_busy_month_every_job_is_told_the_shortest_in_sums(client, alice, yard, rows):
    devices = list(Device.objects.all())
    have_run(yard, MOST_BARS + 1000, devices, timedelta(days=10))
    client.force_login(alice)
    page = client.get(reverse(LINE), {"span": "30d", "rows": rows, "view": "list"})
    lines = page.context["lines"]
    assert told(page) == MOST_BARS + 1000 + 2, "beside the two that the yard ran"
    sums = [bar for _, bar in lines if bar.jobs]
    assert sums and len(lines) < MOST_BARS + 50
    assert max(bar.jobs for bar in sums) > 1
    longest_summed = max(bar.end - bar.start for _, bar in lines if not bar.jobs)
    assert longest_summed >= timedelta(minutes=9), "the longest stand by themselves"
    begins = min(bar.start for bar in sums)
    assert begins < timezone.now() - timedelta(days=9), "from the left edge on"
    drawn = client.get(reverse(LINE), {"span": "30d", "rows": rows}).content.decode()
    assert 'class="gb past sum"' in drawn and "short jobs" in drawn


def test_others_are_told_of_sums_how_many_and_no_more(client, carol, yard):
    have_run(yard, MOST_BARS + 200, list(Device.objects.all()), timedelta(days=10))
    Job.objects.filter(pk=yard.succeeded.pk).update(name="zebra-run")
    client.force_login(carol)
    for rows in ("node", "gpu", "team"):
        query = {"span": "30d", "rows": rows}
        drawn = client.get(reverse(LINE), query).content.decode()
        assert "zebra-run" not in drawn and yard.succeeded.project.team.slug not in drawn
        assert 'class="gb past sum"' in drawn


def test_five_hundred_rows_stay_below_8000_elements(client, root, yard):
    nodes = reference_nodes(yard.cluster.pool)
    devices = list(Device.objects.filter(node__in=nodes))
    have_run(yard, 2500, devices, timedelta(days=2))
    client.force_login(root)
    page = client.get(reverse(LINE), {"span": "7d"})
    assert page.context["rows"] > 512
    assert elements(page.content.decode()) < 8000
    assert len(gzip.compress(page.content)) < 90 * 1024
    gpus = client.get(reverse(LINE), {"span": "7d", "rows": "gpu", "skip": "400"})
    assert (gpus.context["first"], gpus.context["last"], gpus.context["gpus"]) == (401, 600, 4100)
    assert elements(gpus.content.decode()) < 8000


def test_rows_are_gpus_and_a_node_can_be_looked_at_alone(client, alice, yard):
    now = timezone.now()
    MaintenanceWindow.objects.create(
        pool=yard.cluster.pool, from_at=now + timedelta(hours=2), until_at=now + timedelta(hours=3),
        reason="new switches",
    )  # fmt: skip
    client.force_login(alice)
    page = client.get(reverse(LINE), {"rows": "gpu", "node": "n1", "view": "list"})
    held = Allocation.objects.get(released_at__isnull=True).device
    running = [row.name for row, bar in page.context["lines"] if bar.kind == "running"]
    assert running == [f"n1 · {held.index}"]
    closed = [row.name for row, bar in page.context["lines"] if bar.kind == "maintenance"]
    assert closed == ["n1 · 0", "n1 · 1"]
    nowhere = client.get(reverse(LINE), {"node": "n99"}).content.decode()
    assert escape("node: there is no node 'n99' here.") in nowhere
    Device.objects.filter(node__name="n2").update(is_present=False)
    none = client.get(reverse(LINE), {"rows": "gpu", "node": "n2"}).content.decode()
    assert escape("node: node 'n2' has no GPU.") in none and "no such node" not in none
    later = client.get(reverse(LINE), {"rows": "gpu", "node": "n1", "skip": "9"}).content.decode()
    assert "There are no more than 2 GPUs." in later and "there is no node" not in later


@pytest.mark.parametrize("rows", ["node", "gpu", "team"])
def test_a_node_of_another_pool_is_said_to_be_there(client, alice, root, yard, rows):
    other = create_pool(actor=root, name="other")
    client.force_login(alice)
    asked = {"rows": rows, "node": "n1", "pool": other.name}
    page = client.get(reverse(LINE), asked)
    text = page.content.decode()
    assert escape("node: node 'n1' is in pool default, not in pool other.") in text
    assert "It is in pool default." in text and "no such node" not in text
    (there,) = re.findall(r'<a href="([^"]+)">Show it there</a>', text)
    shown = client.get(reverse(LINE) + unescape(there))
    assert parse_qs(urlsplit(unescape(there)).query)["pool"] == ["default"]
    assert not shown.context["problems"] and not shown.context["missing"]


def test_a_span_of_ones_own_is_shown_and_led_on_from(client, alice, yard):
    client.force_login(alice)
    end = timezone.now().replace(second=0, microsecond=0)
    asked = {"from": f"{end - timedelta(hours=2):%Y-%m-%dT%H:%MZ}", "to": f"{end:%Y-%m-%dT%H:%MZ}"}
    page = client.get(reverse(LINE), asked)
    window = page.context["window"]
    assert (window.start, window.end) == (end - timedelta(hours=2), end)
    links = {word: (start, until) for word, start, until in window.ways}
    closer = client.get(reverse(LINE), dict(zip(("from", "to"), links["Zoom in"], strict=True)))
    assert closer.context["window"].end - closer.context["window"].start == timedelta(hours=1)
    assert escape(f"from={links['Later'][0].replace(':', '%3A')}&") in page.content.decode()
    one = client.get(reverse(LINE), {"from": asked["from"], "span": "1h"}).context["window"]
    assert (one.start, one.end) == (window.start, window.start + timedelta(hours=1))


def test_a_span_over_midnight_says_both_days(client, alice, yard):
    client.force_login(alice)
    midnight = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    start, end = midnight - timedelta(hours=2), midnight + timedelta(hours=2)
    asked = {"from": f"{start:%Y-%m-%dT%H:%MZ}", "to": f"{end:%Y-%m-%dT%H:%MZ}"}
    for route in (LINE, "cluster_room"):
        page = strip_tags(client.get(reverse(route), asked).content.decode())
        assert f"{start:%-d %b %Y, 22:00} to {end:%-d %b %Y, 02:00}" in page
    device = yard.cluster.node(1).devices.order_by("pk").first()
    have_run(yard, 1, [device], timedelta(hours=1))
    Allocation.objects.filter(placement__attempt__number=2, device=device).update(
        acquired_at=midnight - timedelta(minutes=30), released_at=midnight + timedelta(seconds=1)
    )
    listed = client.get(reverse(LINE), {**asked, "view": "list"}).content.decode()
    assert f">{midnight - timedelta(minutes=30):%-d %b %Y, 23:30}</time>" in listed
    assert f">{midnight:%-d %b %Y, 00:00}</time>" in listed


def test_a_span_is_typed_and_the_rest_of_the_address_stays(client, root, alice):
    scenes.build_cluster(root)
    client.force_login(alice)
    day = f"{timezone.now() - timedelta(days=3):%Y-%m-%d}"
    for route in ("cluster_timeline", "cluster_room"):
        asked = {"span": "6h", "pool": "default", "view": "list", "part": "live"}
        page = client.get(reverse(route), asked).content.decode()
        form = page.partition('id="span-menu"')[2].partition("</form>")[0]
        assert '<input type="hidden" name="pool" value="default">' in form
        assert '<input type="hidden" name="view" value="list">' in form
        assert 'name="span"' not in form and 'name="part"' not in form
        typed = {"from": f"{day}T08:00", "to": f"{day}T20:30"}
        shown = client.get(reverse(route), {**typed, "pool": "default"})
        assert shown.context["problems"] == []
        window = shown.context["window"]
        ends = [f"{at:%Y-%m-%dT%H:%M}" for at in (window.start, window.end)]
        assert ends == list(typed.values())


def test_a_plus_leads_to_the_form_with_pool_and_time(client, root, alice, lead, yard):
    client.force_login(root)
    drawn = client.get(reverse(LINE)).content.decode()
    link = re.search(r'<a href="([^"]*)" class="gn" aria-label="Book in pool default', drawn)[1]
    asked = parse_qs(urlsplit(link.replace("&amp;", "&")).query)
    assert asked["pool"] == ["default"]
    form = client.get(link.replace("&amp;", "&")).context["form"]
    assert form["pool"].value() == "default"
    begin = form.initial["from_at"]
    assert form.initial["until_at"] - begin == timedelta(hours=2) and begin > timezone.now()
    wrong = client.get(reverse("bookings:list"), {"pool": "<b>", "from_at": "soon"})
    said = wrong.content.decode()
    assert "there is no pool" in said and "is no moment" in said and "<b>&" not in said
    client.force_login(lead)
    ready = client.get(reverse(LINE)).content.decode().count('class="gn"')
    drain_node(actor=root, node=yard.cluster.node(2), reason="fans")
    assert client.get(reverse(LINE)).content.decode().count('class="gn"') == ready - 1
    client.force_login(alice)
    drawn = client.get(reverse(LINE)).content.decode()
    assert 'class="gn"' not in drawn and "?kind=reservation" in drawn and "#book" not in drawn
    assert "ask for a booking" in client.get(link.replace("&amp;", "&")).content.decode()


def test_only_who_is_planned_there_is_shown_the_first_first(root, alice, project, monkeypatch):
    """However many wait: neither who starts after it, nor who has ended before, nor who was told
    nothing, nor the jobs of another pool take the place of another."""
    cluster = scenes.build_cluster(root, nodes=1, gpus=1)
    other = create_pool(actor=root, name="other")
    starts_s = [500, 100, 4000, -9000, None, -100]
    jobs = [scenes.submit(alice, project, time_limit="1h") for _ in starts_s]
    for job, start_s in zip(jobs, starts_s, strict=True):
        told = None if start_s is None else int(scenes.at(start_s).timestamp())
        Job.objects.filter(pk=job.pk).update(wait_facts={"start_p50_at": told})
    elsewhere = scenes.submit(alice, project)
    there = {"start_p50_at": int(scenes.at(0).timestamp())}
    Job.objects.filter(pk=elsewhere.pk).update(pool=other, wait_facts=there)

    def shown(**more):
        plans = plans_between(root, scenes.at(0), scenes.at(3600), **more)
        return sorted((plan.start, plan.number) for plan in plans)

    first = [(scenes.at(at_s), jobs[row].pk) for at_s, row in ((-100, 5), (100, 1), (500, 0))]
    assert shown(pool=cluster.pool) == first
    assert shown() == sorted([*first, (scenes.at(0), elsewhere.pk)])
    monkeypatch.setattr(plans, "MOST_JOBS", 2)
    assert shown(pool=cluster.pool) == first[:2]


def test_what_was_closed_before_its_end_was_there_until_then(root, project):
    cluster = scenes.build_cluster(root, nodes=1, gpus=1)
    times = {"pool": cluster.pool, "from_at": scenes.at(100), "until_at": scenes.at(900)}
    for closed_s in (50, 500):
        closed = scenes.at(closed_s)
        MaintenanceWindow.objects.create(cancelled_at=closed, reason=str(closed_s), **times)
        Booking.objects.create(
            closed_at=closed, closed_as="cancelled", name=str(closed_s), created_by=root,
            project=project, nodes=1, gpus_per_node=1, **times,
        )  # fmt: skip

    def shown(begin_s, end_s):
        found = plans_between(root, scenes.at(begin_s), scenes.at(end_s))
        return sorted((plan.kind, plan.words.split()[0], plan.end) for plan in found)

    until = scenes.at(500)
    assert shown(0, 900) == [("booking", "500", until), ("maintenance", "500", until)]
    assert shown(0, 100) == shown(500, 900) == []


def test_the_picture_renews_itself(client, alice, yard):
    client.force_login(alice)
    part = client.get(reverse(LINE), {"part": "live", "span": "6h"}).content.decode()
    assert part.lstrip().startswith('<div id="timeline-live"') and "<html" not in part
    assert 'data-topic="nodes"' in part and "part=live" in part and "span=6h" in part
