"""MIG instances that a node reports are devices: asked for, given and gone again."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from accounts.services import set_rate
from scheduler.ledger.segments import Bucket
from scheduler.loop.cycle import Scheduler
from scheduler.loop.loading import load_snapshot
from scheduler.models import Allocation, Device, DeviceSegment, SchedulerLease
from scheduler.services.errors import Conflict, Invalid
from scheduler.services.nodes.cutting import cut_card
from scheduler.services.nodes.inventory import store_devices
from scheduler.services.submitting.quotes import preview_job
from scheduler.spec import SpecInvalid, parse_spec
from scheduler.wire.messages import DeviceFacts
from tests.scenes import MODEL, NOON, at, build_cluster, submit, sync

pytestmark = pytest.mark.django_db
SMALL = f"{MODEL} MIG 1g.10gb"


def facts(uuid, index, model=MODEL, parent="", milli=1000, memory_mib=81920):
    return DeviceFacts(uuid, index, model, memory_mib, simulated=True, parent=parent, milli=milli)


CARDS = (facts("GPU-SIM-n1-0", 0), facts("GPU-SIM-n1-1", 1))
PARTS = tuple(facts(f"MIG-{n}", 0, SMALL, "GPU-SIM-n1-0", 142, 9984) for n in range(2))


@pytest.fixture
def cluster(root):
    """Node `n1`: its first GPU is in two instances."""
    made = build_cluster(root, nodes=1, gpus=2)
    SchedulerLease.objects.update(expires_at=NOON)
    store_devices(made.node(1), (*CARDS, *PARTS), now=NOON)
    set_rate(
        actor=root, device_model=SMALL, price_per_gpu_hour=Decimal("0.70"), currency="EUR",
        valid_from=NOON - timedelta(days=1), restated_for="as if then",
)  # fmt: skip
    return made


def test_jobs_get_instances_by_profile_model_or_part(cluster, alice, project):
    by_profile = submit(alice, project, gpu_model="1g.10gb")
    by_part = submit(alice, project, gpu_milli="0.1", isolation="mig")
    any_gpu = submit(alice, project)
    too_many = submit(alice, project, gpu_model=SMALL)
    assert Scheduler(holder="test").run_cycle(at(1)).started == 3
    held = dict(Allocation.objects.values_list("placement__attempt__job", "device__uuid"))
    assert {held[by_profile.pk], held[by_part.pk]} == {"MIG-0", "MIG-1"}
    assert held[any_gpu.pk] == "GPU-SIM-n1-1" and too_many.pk not in held
    orders = {one.job_id: one for one in sync(cluster.node(1)).assignments}
    one = orders[by_profile.pk]
    assert one.device_uuids == (held[by_profile.pk],) and one.gpu_milli == 1000


def test_a_quote_names_the_price_of_the_instance(cluster, alice, project):
    document = {"name": "x", "project": project.path, "script": "true", "time_limit": "1h"}
    quote = preview_job(actor=alice, spec=parse_spec({**document, "gpu_model": "1g.10gb"}))
    assert (quote.unit_price, quote.worst_case_cost) == (Decimal("0.70"), Decimal("0.70"))
    with pytest.raises(SpecInvalid, match="no 2g"):
        submit(alice, project, gpu_model="2g.20gb")


def test_instances_that_are_no_more_leave_no_gap_in_the_books(cluster, root):
    card = Device.objects.get(uuid="GPU-SIM-n1-0")
    assert not card.in_service
    with pytest.raises(Conflict, match="MIG"):
        cut_card(actor=root, device=card, slots=2, now=NOON)
    large = facts("MIG-9", 0, f"{MODEL} MIG 7g.80gb", "GPU-SIM-n1-0", 1000)
    store_devices(cluster.node(1), (*CARDS, large), now=at(60))
    store_devices(cluster.node(1), CARDS, now=at(90))
    begin = int(NOON.timestamp())

    def stream(uuid):
        rows = DeviceSegment.objects.filter(device__uuid=uuid).order_by("start_s")
        return [(row.bucket, row.start_s - begin) for row in rows]

    assert stream("MIG-0") == [(Bucket.FREE, 0), (Bucket.OUT, 60)]
    assert stream("MIG-9") == [(Bucket.FREE, 60), (Bucket.OUT, 90)]
    assert stream("GPU-SIM-n1-0")[-1] == (Bucket.FREE, 90)
    assert len(load_snapshot(at(91)).snapshot.devices.id) == 2


def test_an_instance_without_its_card_is_refused(cluster):
    with pytest.raises(Invalid, match="missing"):
        store_devices(cluster.node(1), (CARDS[1], PARTS[0]), now=NOON)
