"""The GPU map and the timeline: everything drawn once, names only for those who may see them."""

from __future__ import annotations

import gzip
import re
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from scheduler.models import Allocation, Device, DeviceSample, Job, MaintenanceWindow, Node
from scheduler.selectors.machines.gpu_map import _read
from scheduler.states import DeviceHealth
from tests import scenes
from tests.pages.yard import build_yard

pytestmark = pytest.mark.django_db
MAP, LINE = "cluster_map", "cluster_timeline"


@pytest.fixture
def yard(root, alice, project):
    return build_yard(root, alice, project)


def squares(text: str) -> list[str]:
    rack = re.findall(r'<svg class="rack".*?</svg>', text, re.DOTALL)
    return re.findall(r'<rect class="sq (\w+)"', "".join(rack))


def test_every_gpu_is_drawn_once_and_counted_once(client, alice, yard):
    client.force_login(alice)
    page = client.get(reverse(MAP))
    drawn = squares(page.content.decode())
    totals = page.context["totals"]
    assert len(drawn) == Device.objects.filter(in_service=True).count() == totals["total"]
    kinds = ("held", "out", "drained", "booked", "free")
    assert sum(totals[kind] for kind in kinds) == totals["total"]
    assert drawn.count("u5") == totals["held"] > 0


def test_whose_job_it_is_stays_with_those_who_may_know(client, alice, carol, yard):
    Job.objects.filter(pk=yard.running.pk).update(name="zebra-run")
    for viewer, knows in ((alice, True), (carol, False)):
        client.force_login(viewer)
        for address in (reverse(MAP), f"{reverse(LINE)}?view=list", reverse(LINE)):
            assert ("zebra-run" in client.get(address).content.decode()) is knows, address
    assert "u2" in squares(client.get(reverse(MAP)).content.decode())


def test_measured_values_choose_the_shade_and_fill_the_table(client, alice, yard):
    DeviceSample.objects.all().delete()
    held = Allocation.objects.filter(released_at__isnull=True).select_related("device")
    device, now = held[0].device, timezone.now()
    for seconds, use in ((5, 60), (15, 80)):
        DeviceSample.objects.create(
            device=device, at=now - timedelta(seconds=seconds), gpu_percent=use,
            memory_used_mib=device.memory_mib // 2, power_watts=320, temperature_c=65,
        )  # fmt: skip
    client.force_login(alice)
    text = client.get(reverse(MAP), {"metric": "use"}).content.decode()
    assert squares(text).count("u3") == 1, "70 percent lies between 50 and 75"
    assert "70 %, 320 W, 65 °C" in text
    table = client.get(reverse(MAP), {"metric": "power", "view": "table"}).content.decode()
    assert "320 W" in table and not squares(table)


@pytest.mark.once
def test_the_map_reads_no_more_of_the_past_than_it_shows():
    """All that is kept of a day would be millions of rows, each at every look."""
    plan = _read(timezone.now()).explain()
    assert "scheduler_devicesample_at" in plan and "(at>?)" in plan, plan


def test_broken_drained_and_silent_look_different(client, alice, yard):
    node = Node.objects.get(name="n2")
    Device.objects.filter(node=node, index=0).update(health=DeviceHealth.QUARANTINED)
    client.force_login(alice)
    assert squares(client.get(reverse(MAP)).content.decode()).count("dnb") == 1
    Node.objects.filter(pk=node.pk).update(state="drained")
    drawn = squares(client.get(reverse(MAP)).content.decode())
    assert drawn.count("dr") >= 1 and drawn.count("dnb") == 1


def test_the_timeline_shows_past_running_planned_and_maintenance(client, alice, yard):
    now = timezone.now()
    yard.queued.wait_facts = {"start_p50_at": int(now.timestamp()) + 3600}
    yard.queued.save(update_fields=["wait_facts"])
    MaintenanceWindow.objects.create(
        pool=yard.cluster.pool, from_at=now + timedelta(hours=2), until_at=now + timedelta(hours=3),
        reason="new switches",
    )  # fmt: skip
    client.force_login(alice)
    page = client.get(reverse(LINE), {"view": "list"})
    kinds = {bar.kind for _, bar in page.context["lines"]}
    assert {"running", "planned", "maintenance"} <= kinds
    drawn = client.get(reverse(LINE)).content.decode()
    assert drawn.count("new switches") >= 2, "on both nodes"
    assert f'href="{reverse("jobs:detail", args=[yard.running.pk])}"' in drawn
    now_x = float(re.search(r'class="nowt" x="([0-9.]+)"', drawn)[1])
    hours = [float(x) for x in re.findall(r'class="tkt" x="([0-9.]+)" y="13">[^<]', drawn)]
    assert hours and all(abs(x - now_x) >= 60 for x in hours), "no words below those of now"
    teams = client.get(reverse(LINE), {"rows": "team", "span": "1h", "view": "list"})
    found = {(row.name, bar.kind): bar.gpus for row, bar in teams.context["lines"]}
    assert found[yard.running.project.team.slug, "running"] == 1
    assert (yard.running.project.team.slug, "planned") not in found, "begins after the hour"


@pytest.mark.parametrize(
    ("route", "query", "said"),
    [
        (MAP, {"metric": "mood"}, "metric: is one of"),
        (MAP, {"pool": "<b>x</b>"}, "there is no pool"),
        (LINE, {"span": "9y"}, "span: is one of"),
        (LINE, {"rows": "moons"}, "rows: is one of"),
        (LINE, {"at": "yesterday"}, "is no moment"),
        (LINE, {"at": "1970-01-01T00:00Z"}, "more than two years away"),
        (LINE, {"at": "0001-01-01T00:00Z"}, "more than two years away"),
        (LINE, {"colour": "red"}, "colour"),
    ],
)
def test_wrong_values_are_said_and_the_page_comes(client, alice, yard, route, query, said):
    client.force_login(alice)
    page = client.get(reverse(route), query)
    assert page.status_code == 200
    assert said in page.content.decode() and "<b>x</b>" not in page.content.decode()


@pytest.mark.parametrize(("route", "statements"), [(MAP, 11), (LINE, 12)])
def test_statements_do_not_grow_with_nodes(
    client,
    alice,
    project,
    yard,
    route,
    statements,
    django_assert_max_num_queries,
    django_assert_num_queries,
):
    client.force_login(alice)
    with django_assert_max_num_queries(statements) as few:  # 5 for who asks, may what, is told
        client.get(reverse(route))
    for number in range(5):
        scenes.add_node(yard.cluster, f"more-{number}", 2, timezone.now())
        scenes.submit(alice, project, name=f"more-{number}")
    with django_assert_num_queries(len(few)):
        client.get(reverse(route))


def test_four_thousand_gpus_stay_under_120_kilobytes(client, alice, yard):
    pool = yard.cluster.pool
    nodes = Node.objects.bulk_create(
        Node(pool=pool, name=f"rack{number // 8:02}-n{number % 8}", token_hash=f"x{number}")
        for number in range(512)
    )
    Device.objects.bulk_create(
        Device(node=node, uuid=f"GPU-{node.pk}-{index}", index=index, model="H100", memory_mib=1)
        for node in nodes
        for index in range(8)
    )
    client.force_login(alice)
    page = client.get(reverse(MAP))
    assert len(squares(page.content.decode())) == 4096 + 4
    assert len(gzip.compress(page.content)) < 120 * 1024
