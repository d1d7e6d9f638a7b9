"""Parts of cards: slots that an operator cuts, from the request to the node and the bill."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import IntegrityError, transaction
from rest_framework.test import APIClient

from accounts.services import create_project, create_team, set_rate
from scheduler.engine.checks import check_snapshot
from scheduler.ledger.segments import Bucket
from scheduler.loop.cycle import Scheduler
from scheduler.loop.loading import load_snapshot
from scheduler.models import (
    Allocation,
    Device,
    DeviceSegment,
    Job,
    Placement,
    SchedulerLease,
    UsageLine,
)
from scheduler.services import books
from scheduler.services.errors import Conflict, Forbidden, Invalid
from scheduler.services.nodes.cutting import cut_card
from scheduler.services.nodes.devices.by_hand import act_on_device
from scheduler.services.sharing.guard import LimitReached, charge_starts, counts_now
from scheduler.services.sharing.limits import set_quota
from scheduler.spec import SpecInvalid
from scheduler.states import DeviceHealth, JobState, WaitReason, wait_sentence
from tests.factories import member
from tests.scenes import MODEL, NOON, at, build_cluster, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db
QUARTER = f"{MODEL} 1/4"


@pytest.fixture
def cluster(root):
    """Node `n1` with two GPUs, and a price for quarters."""
    made = build_cluster(root, nodes=1, gpus=2)
    SchedulerLease.objects.update(expires_at=NOON)
    set_rate(
        actor=root,
        device_model=QUARTER,
        price_per_gpu_hour=Decimal("1.00"),
        currency="EUR",
        valid_from=NOON - timedelta(days=1),
        restated_for="as if then",
    )
    return made


def card(cluster, index: int = 0) -> Device:
    return Device.objects.get(node=cluster.node(1), index=index, parent=None)


def cut(root, cluster, slots: int = 4, **more) -> list[Device]:
    cut_card(actor=root, device=card(cluster), slots=slots, now=NOON, **more)
    return list(Device.objects.filter(parent=card(cluster), in_service=True))


@pytest.fixture
def cycle(cluster):
    """One scheduler; how many jobs it starts in a cycle, so many seconds after noon."""
    scheduler = Scheduler(holder="test")
    return lambda seconds: scheduler.run_cycle(at(seconds)).started


def held_by(job: Job) -> list[str]:
    held = Allocation.objects.filter(placement__attempt__job=job, released_at=None)
    return sorted(held.values_list("device__uuid", flat=True))


def told(job: Job) -> str:
    job.refresh_from_db()
    assert job.state == JobState.QUEUED
    return wait_sentence(job.wait_reason, job.wait_facts)


def test_a_card_in_slots_is_offered_as_these(cluster, root):
    slots = cut(root, cluster)
    assert [(s.label, s.milli, s.model, s.memory_mib) for s in slots] == [
        (f"0.{number}", 250, QUARTER, 20480) for number in (1, 2, 3, 4)
    ]
    snapshot = load_snapshot(NOON).snapshot
    check_snapshot(snapshot)
    names = [snapshot.models[row] for row in snapshot.devices.model]
    assert sorted(names) == sorted([MODEL] + [QUARTER] * 4)


def test_small_jobs_share_one_card_and_whole_ones_get_none_of_it(
    cycle, cluster, root, alice, project
):
    cut(root, cluster)
    small = [submit(alice, project, gpu_milli="0.25") for _ in range(5)]
    whole = [submit(alice, project) for _ in range(2)]
    assert cycle(1) == 5
    assert sum(len(held_by(job)) for job in small) == 4
    assert len(held_by(whole[0])) == 1 and not held_by(whole[1])
    assert "GPU" in told(small[4])
    reply = sync(cluster.node(1))
    orders = {one.job_id: one for one in reply.assignments}
    one = orders[small[0].pk]
    assert one.device_uuids == (card(cluster).uuid,)
    assert (one.gpu_milli, one.gpu_memory_mib) == (250, 20480)
    assert (orders[whole[0].pk].gpu_milli, orders[whole[0].pk].gpu_memory_mib) == (1000, 0)


def test_the_smallest_part_that_is_large_enough_is_taken(cycle, cluster, root, alice, project):
    cut(root, cluster)
    set_rate(
        actor=root, device_model=f"{MODEL} 1/2", price_per_gpu_hour=Decimal(2), currency="EUR",
        valid_from=NOON - timedelta(days=1), restated_for="as if then",
)  # fmt: skip
    cut_card(actor=root, device=card(cluster, 1), slots=2, now=NOON)
    job = submit(alice, project, gpu_milli="0.2", gpu_model=MODEL)
    large = submit(alice, project, gpu_milli="0.4")
    assert cycle(1) == 2
    assert (held_by(job), held_by(large)) == (["GPU-SIM-n1-0/4.1"], ["GPU-SIM-n1-1/2.1"])


def test_a_part_nobody_cut_is_refused_and_isolation_is_kept(cycle, cluster, root, alice, project):
    with pytest.raises(SpecInvalid, match="no parts of cards"):
        submit(alice, project, gpu_milli="0.25")
    cut(root, cluster, isolation="mps")
    with pytest.raises(SpecInvalid, match="no parts of cards"):
        submit(alice, project, gpu_milli="0.5")
    mps = submit(alice, project, gpu_milli="0.25", isolation="mps")
    mig = submit(alice, project, gpu_milli="0.25", isolation="mig")
    assert cycle(1) == 1
    assert held_by(mps) and not held_by(mig)


def strangers(root, alice):
    """A project of another team, and somebody there."""
    team = create_team(actor=root, name="Other", slug="other")
    bob = member("bob2", team, by=root)
    return bob, create_project(actor=root, team=team, name="Else", slug="else")


def test_tenants_share_a_card_only_if_both_opted_in(cycle, cluster, root, alice, project):
    cut(root, cluster)
    bob, foreign = strangers(root, alice)
    closed = submit(alice, project, gpu_milli="0.25")
    assert cycle(1) == 1
    guest = submit(bob, foreign, gpu_milli="0.25", share_cards=True)
    again = submit(alice, project, gpu_milli="0.25", share_cards=True)
    assert cycle(3) == 1
    assert held_by(again) and not held_by(guest)
    assert "tenant" in told(guest) or "team" in told(guest)
    # The database says so too, whatever a plan may say.
    free = Device.objects.filter(slot__isnull=False, allocations__isnull=True)[0]
    Job.objects.filter(pk=guest.pk).update(state=JobState.QUEUED)
    here = Placement.objects.get(attempt__job=closed)
    attempt = here.attempt
    attempt.job_id = guest.pk
    attempt.pk, attempt.number = None, 1
    attempt.save()
    place = Placement.objects.create(attempt=attempt, node=here.node, rank=0, cpus=1, memory_mib=1)
    with pytest.raises(IntegrityError, match="tenants"), transaction.atomic():
        Allocation.objects.create(placement=place, device=free, acquired_at=NOON)
    Job.objects.filter(pk__in=(closed.pk, again.pk)).update(share_cards=True)
    Allocation.objects.create(placement=place, device=free, acquired_at=NOON)


def test_the_database_refuses_more_than_a_card(cycle, cluster, root, alice, project):
    slots = cut(root, cluster)
    with pytest.raises(IntegrityError, match="more than their card"), transaction.atomic():
        Device.objects.filter(pk=slots[0].pk).update(milli=251)
    job = submit(alice, project)
    assert cycle(1) == 1
    place = Placement.objects.get(attempt__job=job)
    with pytest.raises(IntegrityError, match="not in service"), transaction.atomic():
        Allocation.objects.create(placement=place, device=card(cluster), acquired_at=NOON)


def test_cutting_is_refused_where_it_would_hurt(cluster, root, alice, project):
    gpu = card(cluster)
    with pytest.raises(Forbidden):
        cut_card(actor=alice, device=gpu, slots=4)
    for slots, field in ((0, "slots"), (17, "slots"), (3, "slots")):
        with pytest.raises(Invalid) as refused:
            cut_card(actor=root, device=gpu, slots=slots, now=NOON)
        assert refused.value.field == field
    with pytest.raises(Invalid, match="MPS daemon"):
        cut_card(actor=root, device=gpu, slots=4, isolation="mig", now=NOON)
    start(submit(alice, project), cluster.node(1))
    with pytest.raises(Conflict, match="holds"):
        cut_card(actor=root, device=gpu, slots=4, now=NOON)


def test_every_second_lies_in_one_bucket_before_during_and_after(
    cycle, cluster, root, alice, project
):
    gpu = card(cluster)
    cut_card(actor=root, device=gpu, slots=4, now=at(10))
    job = submit(alice, project, gpu_milli="0.25")
    assert cycle(11) == 1
    cut_card_refused = pytest.raises(Conflict)
    with cut_card_refused:
        cut_card(actor=root, device=gpu, slots=1, now=at(12))
    Allocation.objects.filter(placement__attempt__job=job).update(released_at=at(15))
    cut_card(actor=root, device=gpu, slots=1, now=at(20))
    rows = DeviceSegment.objects.filter(device=gpu).order_by("start_s")
    begin = int(NOON.timestamp())
    assert [(r.bucket, r.start_s - begin) for r in rows] == [
        (Bucket.FREE, 0), (Bucket.OUT, 10), (Bucket.FREE, 20),
    ]  # fmt: skip
    slot = DeviceSegment.objects.filter(device__slot=0).order_by("start_s")
    assert [(r.bucket, r.flavour) for r in slot] == [
        (Bucket.FREE, QUARTER), (Bucket.OVERHEAD, QUARTER), (Bucket.OUT, QUARTER),
    ]  # fmt: skip
    assert load_snapshot(at(21)).snapshot.devices.id.tolist() == [gpu.pk, card(cluster, 1).pk]
    cut_card(actor=root, device=gpu, slots=4, now=at(30))
    assert Device.objects.filter(parent=gpu).count() == 4


def test_what_is_wrong_with_a_card_is_wrong_with_its_slots(cluster, root):
    cut(root, cluster)
    act_on_device(actor=root, device=card(cluster), action="quarantine", reason="hot")
    healths = set(Device.objects.filter(index=0).values_list("health", flat=True))
    assert healths == {DeviceHealth.QUARANTINED}
    assert load_snapshot(NOON).snapshot.devices.is_healthy.tolist() == [False] * 4 + [True]


def test_operators_cut_over_rest_and_everybody_sees_the_parts(cluster, root, alice):
    api = APIClient()
    api.force_authenticate(root)
    reply = api.post(
        "/api/v1/nodes/n1/gpus/0/", {"action": "cut", "slots": 4, "isolation": "mps"}, format="json"
    )
    assert reply.status_code == 200, reply.content
    parts = [(d["name"], d["milli"], d["isolation"]) for d in reply.json()["devices"]]
    assert parts == [(f"0.{n}", 250, "mps") for n in (1, 2, 3, 4)] + [("1", 1000, "")]
    api.force_authenticate(alice)
    assert api.post("/api/v1/nodes/n1/gpus/0/", {"action": "cut"}).status_code == 403


def test_the_page_of_a_node_cuts_and_shows_slots(client, cluster, root):
    client.force_login(root)
    client.post(
        "/cluster/nodes/n1/gpus/0/", {"action": "cut", "slots": "4", "isolation": "timeslice"}
    )
    page = client.get("/cluster/nodes/n1/").content.decode()
    assert "0.4</th>" in page and "timeslice" in page
    client.post(
        "/cluster/nodes/n1/gpus/0/", {"action": "cut", "slots": "1", "isolation": "timeslice"}
    )
    assert "0.4</th>" not in client.get("/cluster/nodes/n1/").content.decode()


def test_quotas_count_parts_as_what_they_are_of_a_card(cycle, cluster, root, alice, project):
    quota = set_quota(actor=root, owner=project, maximum=1)
    cut(root, cluster)
    small = [submit(alice, project, gpu_milli="0.25") for _ in range(4)]
    whole = submit(alice, project)
    assert cycle(1) == 4
    quota.refresh_from_db()
    assert (quota.held, quota.held_milli) == (4, 1000)
    assert "may hold 1" in told(whole) or whole.wait_reason == WaitReason.QUOTA_HARD
    attempt, free = small[0].attempts.get(), [card(cluster, 1).pk]
    with pytest.raises(LimitReached), transaction.atomic():
        charge_starts([attempt], {attempt.job_id: small[0]}, {attempt.job_id: free}, now=at(2))
    sync(cluster.node(1), ended(attempt), now=at(3))
    quota.refresh_from_db()
    assert (quota.held, quota.held_milli) == (3, 750)
    assert counts_now(quota) == {"held": 3, "held_milli": 750}
    assert not cycle(4)
    another = submit(alice, project, gpu_milli="0.2", now=at(4))
    assert cycle(5) == 1 and held_by(another)


def test_the_books_count_parts_of_a_guarantee_as_what_they_are_of_a_card(
    cycle, cluster, root, alice, project, team
):
    """Four quarters are the one card that is guaranteed; the whole one beside them is borrowed."""
    set_quota(actor=root, owner=team, guaranteed=1, now=NOON)
    cut(root, cluster)
    jobs = [submit(alice, project, gpu_milli="0.25") for _ in range(4)]
    jobs.append(submit(alice, project))
    assert cycle(1) == 5
    node = cluster.node(1)
    attempts = [job.attempts.get() for job in jobs]
    sync(node, *(running(attempt) for attempt in attempts), now=at(10))
    sync(node, *(ended(attempt) for attempt in attempts), now=at(3_610))
    books.close_period(actor=root, period="2026-11", now=at(12 * 86_400))
    lines = UsageLine.objects.filter(kind__startswith="run")
    found = sorted(lines.values_list("flavour", "kind", "gpu_seconds"))
    assert found == [(MODEL, "run-borrowed", 3_600), *[(QUARTER, "run-guaranteed", 3_600)] * 4]
