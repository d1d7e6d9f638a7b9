"""Nodes: everybody sees the machines, operators act on them."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.urls import reverse

from scheduler.models import Device, Node, NodeToken, Pool
from scheduler.states import DeviceHealth, NodeState, Trouble
from tests.pages.yard import build_yard

pytestmark = pytest.mark.django_db

ROOT = Path(__file__).resolve().parents[2]
ACTIONS = ("drain", "quarantine", "resume", "retire", "renew_token")


@pytest.fixture
def yard(root, alice, project):
    return build_yard(root, alice, project)


def test_owner_sees_whose_job_is_where(client, alice, yard):
    client.force_login(alice)
    text = client.get(reverse("nodes:list")).content.decode()
    assert reverse("jobs:detail", args=[yard.running.pk]) in text
    assert "simulated GPUs" in text
    detail = client.get(reverse("nodes:detail", args=["n1"])).content.decode()
    assert "GPU-SIM-n1-0" in detail and "simulated" in detail
    assert f"#{yard.running.pk}" in detail


def test_simulated_gpus_are_told_of_whatever_page_they_stand_on(client, alice, yard, monkeypatch):
    monkeypatch.setattr("portal.pages.nodes.PAGE_SIZE", 1)
    client.force_login(alice)
    last = Node.objects.order_by("name").last()
    for part in ({}, {"after": last.name}):
        assert "some GPUs are simulated" in client.get(reverse("nodes:list"), part).content.decode()


def test_stranger_sees_the_machine_but_not_the_job(client, carol, yard):
    client.force_login(carol)
    for url in (reverse("nodes:list"), reverse("nodes:detail", args=["n1"])):
        text = client.get(url).content.decode()
        assert "another team" in text
        assert reverse("jobs:detail", args=[yard.running.pk]) not in text
        assert ">running</bdi>" not in text


@pytest.mark.parametrize("part", ["head", "live"])
def test_parts_are_fragments(client, alice, yard, part):
    client.force_login(alice)
    page = client.get(reverse("nodes:detail", args=["n1"]), {"part": part})
    assert page.status_code == 200 and "<html" not in page.content.decode()


def test_new_readings_come_as_points(client, alice, yard):
    client.force_login(alice)
    body = client.get(reverse("nodes:series", args=["n1"])).json()
    points = body["points"]["gpu_percent"]["GPU-SIM-n1-0"]
    assert len(points["x"]) == len(points["y"]) == 20
    again = client.get(reverse("nodes:series", args=["n1"]), {"since": body["latest"]}).json()
    assert again["points"]["gpu_percent"] == {}
    wrong = client.get(reverse("nodes:series", args=["n1"]), {"since": "yesterday"})
    assert wrong.status_code == 400
    job = client.get(reverse("jobs:series", args=[yard.running.pk])).json()
    assert len(job["points"]["power_watts"]["GPU-SIM-n1-0"]["y"]) == 20
    assert job["done"] is False


def test_operators_read_what_to_do_about_what_is_out_of_order(client, operator, alice, yard):
    out = {"health": DeviceHealth.QUARANTINED, "health_reason": "Xid 79"}
    Device.objects.filter(uuid="GPU-SIM-n1-0").update(trouble=Trouble.XID, **out)
    out = {"state": NodeState.QUARANTINED, "state_reason": "the disk is full"}
    Node.objects.filter(name="n1").update(trouble=Trouble.DISK_FULL, **out)
    for viewer, may in ((operator, True), (alice, False)):
        client.force_login(viewer)
        text = client.get(reverse("nodes:detail", args=["n1"])).content.decode()
        assert ("nvidia-smi --gpu-reset -i 0" in text and "Free space" in text) is may


def test_operator_drains_with_a_reason_and_resumes(client, operator, yard):
    client.force_login(operator)
    client.post(reverse("nodes:drain", args=["n1"]), {"reason": "new <b>firmware</b>"})
    assert Node.objects.get(name="n1").state == NodeState.DRAINING
    text = client.get(reverse("nodes:detail", args=["n1"])).content.decode()
    assert "new &lt;b&gt;firmware" in text
    client.post(reverse("nodes:resume", args=["n1"]))
    assert Node.objects.get(name="n1").state == NodeState.READY


def test_who_resumes_a_node_whose_disk_is_full_is_told(client, operator, yard):
    client.force_login(operator)
    full = {"kind": "disk_full", "detail": "3 MiB are left"}
    Node.objects.filter(name="n1").update(state=NodeState.DRAINED, own_trouble=full)
    page = client.post(reverse("nodes:resume", args=["n1"]), follow=True).content.decode()
    assert "returns by itself once this is over: the disk is full (3 MiB are left)." in page
    assert Node.objects.get(name="n1").state == NodeState.QUARANTINED


def test_operator_drains_and_stops_what_runs_there(client, operator, yard):
    client.force_login(operator)
    form = {"reason": "fans", "stop_jobs": "on"}
    page = client.post(reverse("nodes:drain", args=["n1"]), form, follow=True)
    assert "its jobs save, stop and queue again" in page.content.decode()
    yard.running.refresh_from_db()
    assert yard.running.state == "stopping"


def test_operator_quarantines_with_a_reason_and_returns(client, operator, yard):
    client.force_login(operator)
    before = client.get(reverse("nodes:detail", args=["n1"])).content.decode()
    assert "the 1 job there goes on to the end" in before
    url = reverse("nodes:quarantine", args=["n1"])
    page = client.post(url, {"reason": "a <b>rattling</b> fan"}, follow=True)
    text = page.content.decode()
    assert "An operator took it out of service" in text and "a &lt;b&gt;rattling" in text
    assert "Return to service" in text and "quarantine-menu" not in text
    # As the map of GPUs draws it: out of order, not drained on purpose.
    assert "n1 GPU 1: not available" in text
    yard.running.refresh_from_db()
    assert yard.running.state == "running"
    client.post(reverse("nodes:resume", args=["n1"]))
    assert Node.objects.get(name="n1").state == NodeState.READY


def test_a_quarantine_without_reason_asks_for_it(client, operator, yard):
    client.force_login(operator)
    page = client.post(reverse("nodes:quarantine", args=["n1"]), {"reason": " "}, follow=True)
    assert "Say why" in page.content.decode()
    assert Node.objects.get(name="n1").state == NodeState.READY


def test_an_operator_renews_a_nodes_token(client, operator, alice, yard):
    client.force_login(operator)
    assert (
        "Renew the token of n1" in client.get(reverse("nodes:detail", args=["n1"])).content.decode()
    )
    page = client.post(reverse("nodes:renew_token", args=["n1"]), follow=True).content.decode()
    assert "Node n1 is offered a new token." in page
    assert "A new token waits for its agent" in page and "a new one waits for the agent" in page
    assert Node.objects.get(name="n1").next_token_hash
    client.force_login(alice)
    shown = client.get(reverse("nodes:detail", args=["n1"])).content.decode()
    assert "Renew the token" not in shown and "waits for the agent" not in shown


def test_a_drain_without_reason_asks_for_it(client, operator, yard):
    client.force_login(operator)
    page = client.post(reverse("nodes:drain", args=["n1"]), {"reason": "  "})
    assert page.status_code == 422
    assert "reason" in page.context["form"].errors
    assert Node.objects.get(name="n1").state == NodeState.READY


def test_retire_is_refused_while_work_is_on_it(client, operator, yard):
    client.force_login(operator)
    page = client.post(reverse("nodes:retire", args=["n1"]), follow=True)
    assert "Jobs still run on this node" in page.content.decode()
    gone = client.post(reverse("nodes:retire", args=["n2"]), follow=True)
    assert "is retired" in gone.content.decode()
    assert client.get(reverse("nodes:detail", args=["n2"])).status_code == 404


@pytest.mark.parametrize("action", ACTIONS)
def test_members_may_not_act(client, alice, yard, action):
    client.force_login(alice)
    url = reverse(f"nodes:{action}", args=["n1"])
    assert client.post(url, {"reason": "x"}).status_code == 403
    assert client.get(url).status_code == 405
    assert Node.objects.get(name="n1").state == NodeState.READY
    missing = reverse(f"nodes:{action}", args=["n9"])
    assert client.post(missing, {"reason": "x"}).status_code == 404


def test_enrol_shows_a_token_once(client, operator, yard):
    client.force_login(operator)
    url = reverse("nodes:enrol")
    before = NodeToken.objects.count()
    page = client.post(url, {"pool": "default", "minutes": "15"})
    line = page.context["line"]
    assert line.startswith("TRAINYARD_ENROL_TOKEN=tyn_") and line in page.content.decode()
    book = (ROOT / "deploy" / "README.md").read_text()
    assert line.partition(" ")[2].partition(" http")[0] in book
    assert "no-store" in page.headers["Cache-Control"]
    assert NodeToken.objects.count() == before + 1
    assert "tyn_" not in client.get(url).content.decode()


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"pool": "nowhere", "minutes": "15"}, "pool"),
        ({"pool": "default", "minutes": "0"}, "minutes"),
        ({"pool": "default", "minutes": "99999999999"}, "minutes"),
        ({"pool": "default", "minutes": "1.5"}, "minutes"),
    ],
)
def test_enrol_names_what_is_wrong(client, operator, yard, data, field):
    client.force_login(operator)
    before = NodeToken.objects.count()
    page = client.post(reverse("nodes:enrol"), data)
    assert page.status_code == 200 and field in page.context["form"].errors
    assert NodeToken.objects.count() == before


def test_operator_opens_a_pool(client, operator, yard):
    client.force_login(operator)
    url = reverse("nodes:enrol")
    client.post(url, {"new_pool": "1", "pool-name": "h100", "pool-description": "big ones"})
    assert Pool.objects.filter(name="h100").exists()
    for name in ("h100", "Bad Name", "", "api"):
        page = client.post(url, {"new_pool": "1", "pool-name": name})
        assert "name" in page.context["pool_form"].errors, name
    assert Pool.objects.count() == 2


def test_enrolment_is_for_operators(client, alice, yard):
    client.force_login(alice)
    assert client.get(reverse("nodes:enrol")).status_code == 403
    data = {"new_pool": "1", "pool-name": "mine"}
    assert client.post(reverse("nodes:enrol"), data).status_code == 403
    assert not Pool.objects.filter(name="mine").exists()


def test_an_operator_notes_where_a_node_stands(client, operator, yard):
    client.force_login(operator)
    told = {"rack": "r1", "block": "b1", "labels": "network=ib, disk=nvme"}
    page = client.post(reverse("nodes:place", args=["n1"]), told, follow=True)
    text = page.content.decode()
    assert "place and labels are noted" in text and "rack r1, block b1" in text
    node = Node.objects.get(name="n1")
    assert node.labels == {"network": "ib", "disk": "nvme"}
    assert 'value="disk=nvme, network=ib"' in text


@pytest.mark.parametrize("labels", ["network", "Network=ib", "rack=r2"])
def test_labels_that_make_no_sense_are_refused_with_the_remedy(client, operator, yard, labels):
    client.force_login(operator)
    told = {"rack": "r7", "block": "b2", "labels": labels}
    page = client.post(reverse("nodes:place", args=["n1"]), told)
    form, text = page.context["form"], page.content.decode()
    assert page.status_code == 422 and "Not saved." in text
    assert set(form.errors) == {"labels"}
    assert "network=ib" in form.errors["labels"][0] or "another label" in form.errors["labels"][0]
    assert 'value="r7"' in text and 'value="b2"' in text and f'value="{labels}"' in text
    node = Node.objects.get(name="n1")
    assert (node.labels, node.rack, node.block) == ({}, "", "")


def test_a_rack_that_is_none_is_marked_and_the_labels_stay_typed(client, operator, yard):
    client.force_login(operator)
    told = {"rack": "row 7", "block": "", "labels": "network=ib"}
    page = client.post(reverse("nodes:place", args=["n1"]), told)
    assert page.status_code == 422 and set(page.context["form"].errors) == {"rack"}
    assert (
        'value="row 7"' in page.content.decode() and 'value="network=ib"' in page.content.decode()
    )
    assert Node.objects.get(name="n1").labels == {}


def test_where_a_node_stands_is_for_operators(client, alice, yard):
    client.force_login(alice)
    for labels in ("network=ib", "network"):
        assert (
            client.post(reverse("nodes:place", args=["n1"]), {"labels": labels}).status_code == 403
        )


def test_nodes_come_by_page(client, alice, yard, monkeypatch):
    Node.objects.create(pool=yard.cluster.pool, name="n0", state=NodeState.READY)
    monkeypatch.setattr("portal.pages.nodes.PAGE_SIZE", 1)
    client.force_login(alice)
    names, after = [], ""
    for _ in range(Node.objects.count()):
        page = client.get(reverse("nodes:list"), {"after": after} if after else {})
        names += [row.view.node.name for row in page.context["rows"]]
        after = page.context["following"]
    assert (names, after) == (sorted(Node.objects.values_list("name", flat=True)), "")
    beyond = client.get(reverse("nodes:list"), {"after": "zzz"}).content.decode()
    assert "No node comes after zzz." in beyond
