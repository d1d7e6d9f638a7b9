"""The queue: one's own jobs in full, others as numbers; pausing is for operators."""

from __future__ import annotations

import functools
import re
from datetime import timedelta
from html import unescape

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from scheduler.models import Job, Queue
from scheduler.selectors.queues import own_rows_behind, queue_rows
from scheduler.services.waits import record_waits
from tests import scenes
from tests.pages.yard import build_yard

pytestmark = pytest.mark.django_db


@pytest.fixture
def yard(root, alice, project):
    return build_yard(root, alice, project)


def test_owner_sees_the_place_and_the_reason(client, alice, yard):
    client.force_login(alice)
    page = client.get(reverse("queue:list"))
    text = page.content.decode()
    assert "0 of 4 GPUs in pool default are free" in text
    assert [line.first for line in page.context["lines"]] == [1]
    part = client.get(reverse("queue:list"), {"pool": "default", "part": "line"})
    assert "<html" not in part.content.decode()


def test_own_jobs_say_when_they_start_and_others_do_not(client, alice, bob, yard):
    """Those of the same project that are not one's own keep their line short."""
    page = reverse("queue:list")
    client.force_login(alice)
    assert "Start unknown" in client.get(page).content.decode()
    now = timezone.now()
    start = {f"start_p{n}_at": int(now.timestamp()) + 36 * n for n in (50, 90)}
    facts = {"need": "1 GPU", "free": 0, "total": 4, "pool": "default", **start}
    record_waits([(yard.queued.pk, "capacity_busy", facts)], now=now - timedelta(hours=2))
    with CaptureQueriesContext(connection) as seen:
        text = client.get(page).content.decode()
    # The wait is so for two hours, which is not when the start was worked out.
    assert re.search(r"Starts <time [^>]+>[^<]+</time> to <time [^>]+>[^<]+</time></span>", text)
    client.force_login(bob)
    with CaptureQueriesContext(connection) as others:
        text = client.get(page).content.decode()
    assert "Starts <time" not in text and len(others) == len(seen)


def test_own_jobs_far_behind_are_shown_and_counted(
    client, alice, carol, project, yard, monkeypatch
):
    """The line ends somewhere; one's own jobs do not."""
    for _ in range(3):
        scenes.submit(alice, project, name="far-behind", tier="exploratory")
    line = functools.partial(queue_rows, limit=2)
    monkeypatch.setattr("portal.pages.queue.line.queue_rows", line)
    client.force_login(alice)
    page = client.get(reverse("queue:list")).content.decode()
    shown = page.count('<tr id="queued-')
    waiting = Job.objects.filter(state="queued", owner=alice).count()
    assert shown == waiting >= 4 and f"{waiting} of them yours" in page
    assert "of yours that stand" in page and page.count("far-behind") == 3
    behind = functools.partial(own_rows_behind, limit=1)
    monkeypatch.setattr("portal.pages.queue.line.own_rows_behind", behind)
    page = client.get(reverse("queue:list")).content.decode()
    assert page.count('<tr id="queued-') < waiting and f"{waiting} of them yours" in page
    assert "the first 1 of yours that stands further back" in page
    (link,) = re.findall(r'href="([^"]+)">all of yours', page)
    listed = client.get(unescape(link)).content.decode()
    assert listed.count("far-behind") >= 3 and "is not a term" not in listed
    client.force_login(carol)
    assert "far-behind" not in client.get(reverse("queue:list")).content.decode()


def test_strangers_jobs_are_one_line_without_names(client, carol, alice, project, yard):
    for number in range(3):
        scenes.submit(alice, project, name=f"hidden-run-{number}", gpus_per_node=2)
    client.force_login(carol)
    page = client.get(reverse("queue:list"))
    text = page.content.decode()
    assert "hidden-run" not in text and "alice" not in text.lower()
    (line,) = page.context["lines"]
    assert (line.first, line.last, line.jobs, line.gpus) == (1, 4, 4, 7)


def test_operator_pauses_and_resumes(client, operator, yard):
    client.force_login(operator)
    page = client.post(reverse("queue:pause", args=["default"]), follow=True)
    assert "is paused" in page.content.decode()
    assert Queue.objects.get().is_paused
    client.post(reverse("queue:resume", args=["default"]))
    assert not Queue.objects.get().is_paused


def test_member_may_not_pause(client, alice, yard):
    client.force_login(alice)
    assert client.post(reverse("queue:pause", args=["default"])).status_code == 403
    assert not Queue.objects.get().is_paused
    assert client.get(reverse("queue:pause", args=["default"])).status_code == 405


def test_missing_pools(client, operator, yard):
    client.force_login(operator)
    assert client.post(reverse("queue:pause", args=["nowhere"])).status_code == 404
    page = client.get(reverse("queue:list"), {"pool": "<script>"})
    assert page.status_code == 200
    assert "there is no pool" in page.content.decode()


def test_without_any_pool(client, alice, operator):
    client.force_login(alice)
    assert "An operator opens pools" in client.get(reverse("queue:list")).content.decode()
    client.force_login(operator)
    assert "Create a pool" in client.get(reverse("queue:list")).content.decode()
