"""The metrics of a job: its GPUs, their nodes, what happened meanwhile, and parts of the time."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from scheduler.models import HostSample
from scheduler.models.history import JobEvent
from tests.pages.yard import build_yard

pytestmark = pytest.mark.django_db
HOST = {"cpu_percent": 25, "memory_used_mib": 4096, "scratch_free_mib": 512_000}


@pytest.fixture
def yard(root, alice, project):
    made = build_yard(root, alice, project)
    now = timezone.now()
    for node in made.cluster.nodes:
        for number in range(10):
            at = now - timedelta(seconds=20 * number)
            HostSample.objects.create(node=node, at=at, **HOST)
    return made


def _page(client, yard, **asked):
    page = client.get(reverse("jobs:metrics", args=[yard.running.pk]), asked)
    assert page.status_code == 200
    return page


def test_its_nodes_stand_beside_its_gpus_and_no_others_do(client, alice, yard):
    client.force_login(alice)
    page = _page(client, yard)
    cpu, memory, scratch = page.context["host_charts"]
    (row,) = cpu.rows
    assert row.name == f"rank 0 · {yard.cluster.node(1).name}" and row.mean == 25
    assert memory.rows[0].last == 4 and scratch.rows[0].last == 500
    assert "Of whole nodes" in page.content.decode()
    assert page.context["charts"][0].rows[0].readings == 20


def test_what_happened_stands_in_the_charts_and_below_them(client, alice, yard):
    for step in (100, 200):
        JobEvent.objects.create(
            job=yard.running,
            attempt=yard.attempt,
            kind="checkpoint",
            at=timezone.now() - timedelta(minutes=3),
            detail={"attempt": 1, "step": step},
        )
    client.force_login(alice)
    page = _page(client, yard)
    layout = page.context["charts"][0].figure["layout"]
    assert len(layout["shapes"]) == 4
    # Two checkpoints at once have one word, which nobody could read twice.
    assert [one["text"] for one in layout["annotations"]] == ["placed", "running", "checkpoint"]
    text = page.content.decode()
    assert "Checkpoint, step 200" in text and "4 marks" in text


def test_a_start_right_after_its_placement_is_named_with_it(client, alice, yard):
    kept = type(yard.attempt).objects.filter(pk=yard.attempt.pk)
    kept.update(assigned_at=kept.get().started_at - timedelta(milliseconds=500))
    client.force_login(alice)
    layout = _page(client, yard).context["charts"][0].figure["layout"]
    assert [one["text"] for one in layout["annotations"]] == ["placed, running"]


def test_an_end_by_preemption_is_marked_as_one(client, alice, root, yard):
    type(yard.attempt).objects.filter(pk=yard.attempt.pk).update(
        stopping_at=timezone.now() - timedelta(minutes=1), stop_reason="preempted"
    )
    client.force_login(alice)
    page = _page(client, yard)
    words = [one["text"] for one in page.context["charts"][0].figure["layout"]["annotations"]]
    assert words[-1] == "preempted" and "asked to make room" in page.content.decode()


def test_a_part_of_the_time_is_in_the_address(client, alice, yard):
    client.force_login(alice)
    now = timezone.now()
    begin, end = now - timedelta(seconds=30), now - timedelta(seconds=10)
    page = _page(client, yard, **{"from": begin.isoformat(), "to": end.isoformat()})
    (row,) = page.context["charts"][0].rows
    assert 8 <= row.readings <= 11
    assert len(page.context["host_charts"][0].rows) == 1
    text = page.content.decode()
    assert 'data-done="true"' in text and "All of the attempt" in text
    # A part without an end goes on.
    assert (
        'data-done="false"' in _page(client, yard, **{"from": begin.isoformat()}).content.decode()
    )
    before = _page(client, yard, to="2020-01-01T00:00")
    assert before.context["charts"][0].rows == () and before.context["host_charts"] == []


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"from": "yesterday"}, "from: &#x27;yesterday&#x27; is no moment"),
        ({"to": "<b>"}, "to: &#x27;&lt;b&gt;&#x27; is no moment"),
        ({"from": "0001-01-01T00:00+14:00"}, "is no moment"),
        ({"from": "9999-12-31T23:59-12:00"}, "is no moment"),
        ({"from": "2026-11-20T14:00Z", "to": "2026-11-20T13:00Z"}, "is not after the begin"),
        ({"attempt": "7"}, "there is no attempt 7"),
        ({"until": "x"}, "Not known here"),
    ],
)
def test_wrong_ends_are_named_and_all_is_shown(client, alice, yard, asked, said):
    client.force_login(alice)
    page = _page(client, yard, **asked)
    assert said in page.content.decode()
    assert page.context["charts"][0].rows[0].readings == 20


def test_strangers_see_nothing_of_it(client, carol, finance, yard):
    address = reverse("jobs:metrics", args=[yard.running.pk])
    for who, status in ((carol, 404), (finance, 403)):
        client.force_login(who)
        assert client.get(address, {"from": "2026-11-20T14:00"}).status_code == status


def test_the_form_shows_what_the_address_says(client, alice, yard):
    client.force_login(alice)
    page = _page(client, yard, **{"from": "2020-01-01T00:00"}).content.decode()
    assert re.search(r'name="from" value="\d{4}-\d\d-\d\dT\d\d:\d\d"', page)


def test_new_readings_of_its_nodes_come_as_points(client, alice, carol, yard):
    client.force_login(alice)
    page = _page(client, yard)
    text = page.content.decode()
    assert "?attempt=1&amp;of=nodes" in text and "renewed every 15 seconds" in text
    address = reverse("jobs:series", args=[yard.running.pk])
    asked = {"attempt": "1", "of": "nodes"}
    node = yard.cluster.node(1)
    cpu = client.get(address, asked).json()["points"]["host_cpu_percent"]
    assert list(cpu) == [f"host-{node.pk}"] and len(cpu[f"host-{node.pk}"]["y"]) == 10
    newest = page.context["hosts_since"]
    HostSample.objects.create(node=node, at=newest + timedelta(milliseconds=20), **HOST)
    fresh = client.get(address, {**asked, "since": newest.isoformat()}).json()
    assert fresh["points"]["host_memory_mib"][f"host-{node.pk}"]["y"] == [4.0]
    assert fresh["latest"] > newest.isoformat()
    assert client.get(address, {**asked, "attempt": "9"}).json()["points"]["host_cpu_percent"] == {}
    client.force_login(carol)
    assert client.get(address, asked).status_code == 404


def test_where_no_node_has_told_anything_yet_its_charts_wait(client, alice, yard):
    HostSample.objects.all().delete()
    client.force_login(alice)
    assert len(_page(client, yard).context["host_charts"]) == 3
