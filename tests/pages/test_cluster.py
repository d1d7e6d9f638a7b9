"""The GPU map and the timeline: everything drawn once, names only for those who may see them."""

from __future__ import annotations

import gzip
import re
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from scheduler.models import Allocation, Booking, Device, DeviceSample, Job, MaintenanceWindow, Node
from scheduler.models.telemetry import UNKNOWN_USE
from scheduler.selectors.machines.gpu_map import _read
from scheduler.states import DeviceHealth
from tests import scenes
from tests.pages.yard import book_soon, build_yard

pytestmark = pytest.mark.django_db
MAP, LINE = "cluster_map", "cluster_timeline"


@pytest.fixture
def yard(root, alice, project):
    return build_yard(root, alice, project)


def squares(text: str) -> list[str]:
    rack = re.findall(r'<svg class="rack.*?</svg>', text, re.DOTALL)
    drawn = re.findall(r'<path class="sq (\w+)" d="([^"]*)"', "".join(rack))
    return [css for css, places in drawn for _ in range(places.count("M"))]


def elements(text: str) -> int:
    return len(re.findall(r"<[a-z]", text))


def test_every_gpu_is_drawn_once_and_counted_once(client, alice, yard):
    client.force_login(alice)
    page = client.get(reverse(MAP))
    drawn = squares(page.content.decode())
    totals = page.context["totals"]
    assert len(drawn) == Device.objects.filter(in_service=True).count() == totals["total"]
    kinds = ("held", "out", "drained", "booked", "free")
    assert sum(totals[kind] for kind in kinds) == totals["total"]
    assert drawn.count("u5") == totals["held"] > 0


def test_of_a_node_booked_in_part_only_that_is_booked(client, lead, alice, project, root):
    """By jobs inside it or idle, as its owner answers for it; the others are free."""
    cluster, now = scenes.build_cluster(root, nodes=1, gpus=4), timezone.now()
    soon = {"from_at": now + timedelta(hours=1), "until_at": now + timedelta(hours=2)}
    booking = book_soon(lead, project, cluster.pool, gpus_per_node=2, **soon)
    Booking.objects.update(from_at=now - timedelta(minutes=1))
    client.force_login(alice)
    totals, text = seen(client)
    assert (totals["booked"], totals["free"]) == (2, 2)
    assert "GPU 0–1: booked\nGPU 2–3: free" in text
    inside = scenes.submit(alice, project, booking=str(booking.pk), now=now)
    scenes.start(inside, cluster.node(1), now=now)
    totals, text = seen(client)
    assert (totals["held"], totals["booked"], totals["free"]) == (1, 1, 2)
    assert "GPU 1: booked\nGPU 2–3: free" in text


def seen(client):
    page = client.get(reverse(MAP))
    return page.context["totals"], page.content.decode()


def test_whose_job_it_is_stays_with_those_who_may_know(client, alice, carol, yard):
    Job.objects.filter(pk=yard.running.pk).update(name="zebra-run")
    for viewer, knows in ((alice, True), (carol, False)):
        client.force_login(viewer)
        for address in (reverse(MAP), f"{reverse(LINE)}?view=list", reverse(LINE)):
            assert ("zebra-run" in client.get(address).content.decode()) is knows, address
    assert "u2" in squares(client.get(reverse(MAP)).content.decode())


def test_the_table_by_team_names_those_who_may_be_known(client, alice, carol, yard):
    team, table = yard.running.project.team.slug, {"metric": "team", "view": "table"}
    for viewer, words in ((alice, team), (carol, "others")):
        client.force_login(viewer)
        text = client.get(reverse(MAP), table).content.decode()
        assert f'<td data-l="teams">{words}</td>' in text and '<td data-l="teams">–</td>' in text


def test_measured_values_choose_the_shade_and_fill_the_table(client, alice, yard):
    DeviceSample.objects.all().delete()
    held = Allocation.objects.filter(released_at__isnull=True).select_related("device")
    device, now = held[0].device, timezone.now()
    for seconds, use in ((1, 60), (2, 80)):
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
    DeviceSample.objects.update(gpu_percent=UNKNOWN_USE)
    text = client.get(reverse(MAP), {"metric": "use"}).content.decode()
    assert "use unknown, 320 W, 65 °C" in text and "<dd>–</dd>" in text
    DeviceSample.objects.update(gpu_percent=0)
    drawn = squares(client.get(reverse(MAP), {"metric": "use"}).content.decode())
    assert drawn.count("u0") == 1, "idle in a job looks neither free nor unknown"
    assert drawn.count("unread") == len(held) - 1 and drawn.count("free") > 0
    assert client.get(reverse(MAP), {"metric": "use", "view": "table"}).status_code == 200


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
        (MAP, {"view": "table", "after": "nowhere"}, "after: there is no node"),
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


def reference_nodes(pool) -> list[Node]:
    """512 nodes of eight GPUs, each with a reading of its own."""
    nodes = Node.objects.bulk_create(
        Node(pool=pool, name=f"rack{number // 8:02}-n{number % 8}", token_hash=f"x{number}")
        for number in range(512)
    )
    devices = Device.objects.bulk_create(
        Device(node=node, uuid=f"GPU-{node.pk}-{index}", index=index, model="H100", memory_mib=1)
        for node in nodes
        for index in range(8)
    )
    now = timezone.now()
    DeviceSample.objects.bulk_create(
        DeviceSample(
            device=device, at=now, gpu_percent=device.pk * 37 % 101, memory_used_mib=1,
            power_watts=device.pk * 100 % 799, temperature_c=30 + device.pk * 7 % 60,
        )
        for device in devices
    )  # fmt: skip
    return nodes


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"metric": "use"},
        # The most that is ever drawn: eight shades a node, a number on each.
        {"metric": "temperature", "numbers": "yes"},
        {"view": "table", "metric": "power"},
        {"view": "table", "after": "rack31-n7"},
    ],
)
def test_four_thousand_gpus_stay_under_120_kilobytes_and_8000_elements(client, root, yard, query):
    nodes = reference_nodes(yard.cluster.pool)
    Node.objects.filter(pk__in=[node.pk for node in nodes[::9]]).update(state="silent")
    Device.objects.filter(node__in=nodes, index=3).update(health=DeviceHealth.QUARANTINED)
    client.force_login(root)
    page = client.get(reverse(MAP), query)
    text = page.content.decode()
    if "view" not in query:
        assert len(squares(text)) == 4096 + 4
    assert len(gzip.compress(page.content)) < 120 * 1024
    assert elements(text) < 8000


def test_numbers_are_what_was_measured_each_in_its_square(client, alice, yard):
    node = Node.objects.create(pool=yard.cluster.pool, name="counted", token_hash="x")
    now = timezone.now()
    for index, celsius in enumerate((31, 85, None, 104)):
        device = Device.objects.create(
            node=node, uuid=f"GPU-{index}", index=index, model="H100", memory_mib=1
        )
        if celsius is not None:
            DeviceSample.objects.create(
                device=device, at=now, gpu_percent=5, memory_used_mib=1, power_watts=90,
                temperature_c=celsius,
            )  # fmt: skip
    client.force_login(alice)
    hot = {"metric": "temperature", "numbers": "yes"}
    text = client.get(reverse(MAP), hot).content.decode()
    its = re.search(r"<title>counted: .*?</a>", text, re.DOTALL)[0]
    assert re.findall(r'class="nm( hi)?".*?>([^<]*)<', its) == [
        ("", " 31             "), (" hi", "     85     104 "),
    ]  # fmt: skip
    assert "numbers=yes" not in client.get(reverse(MAP)).content.decode(), "nothing is measured"


def test_what_is_out_of_order_is_listed_with_its_reason_the_worst_first(client, alice, yard):
    Device.objects.filter(node__name="n2", index=1).update(
        health=DeviceHealth.QUARANTINED, health_reason="Xid 79, fell off the bus"
    )
    Node.objects.filter(name="n1").update(state="silent", state_reason="not heard for 2 min")
    client.force_login(alice)
    page = client.get(reverse(MAP))
    assert [(one.state, one.node, one.gpus, one.reason) for one in page.context["alarms"]] == [
        ("silent", "n1", "", "not heard for 2 min"),
        ("quarantined", "n2", "1", "Xid 79, fell off the bus"),
    ]
    (pool,) = page.context["fills"]
    assert (pool.held, pool.out, pool.free, pool.total) == (1, 2, 1, 4)
    assert "Xid 79, fell off the bus" in page.content.decode()


def test_operators_choose_nodes_to_drain_on_the_map_and_nobody_else(client, root, alice, yard):
    for viewer, may in ((root, True), (alice, False)):
        client.force_login(viewer)
        table = client.get(reverse(MAP), {"view": "table"}).content.decode()
        assert (f'action="{reverse("nodes:several")}"' in table) is may
        assert ('name="node" value="n1" form="several"' in table) is may
        assert ("Drain nodes" in client.get(reverse(MAP)).content.decode()) is may
