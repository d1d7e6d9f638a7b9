"""What a job asks for beside numbers: from its row to the plan, and into rows again."""

from __future__ import annotations

from datetime import timedelta

import pytest

from accounts.models import AuditEvent
from scheduler.engine.checks import check_snapshot
from scheduler.engine.policy import Order, Policy
from scheduler.engine.snapshot import NONE
from scheduler.loop.loading import Kept, load_snapshot, wishes
from scheduler.loop.loading.wishes import models_by_now
from scheduler.models import Allocation, Device, Job, JobEvent, Node, Placement
from scheduler.services.errors import Invalid
from scheduler.services.sites.datasets import remove_dataset, set_copy, set_dataset
from scheduler.services.sites.licences import set_licence
from scheduler.services.sites.places import label_node, place_node
from scheduler.spec import SpecInvalid
from scheduler.states import EndReason, JobState, WaitReason, wait_sentence
from scheduler.wire.data import DataCopy, DataReport
from tests.scenes import MODEL, NOON, add_node, at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db
OTHER = "NVIDIA A100-SXM4-80GB"


def nodes_of(job: Job) -> list[str]:
    return [p.node.name for p in Placement.objects.filter(attempt__job=job).order_by("rank")]


def told(job: Job) -> str:
    job.refresh_from_db()
    assert job.state == JobState.QUEUED
    return wait_sentence(job.wait_reason, job.wait_facts)


def test_a_plain_job_is_read_without_its_wishes(cluster, alice, project):
    submit(alice, project)
    snapshot = load_snapshot(NOON).snapshot
    assert not Job.objects.get().is_shaped
    assert (snapshot.node_masks, snapshot.size_sets, snapshot.licences) == (None, (), ())
    assert snapshot.waiting.tenant.tolist() == [NONE]


def test_what_running_jobs_ask_for_is_read_where_they_may_be_moved(cluster, alice, project):
    policy = Policy(order=Order.SHORTEST, preempts=True)
    start(submit(alice, project, exclude_nodes=["n2"], scratch="1GiB"), cluster.node(1))
    loaded = load_snapshot(at(1), moves=policy.moves).to_decide(policy, now=at(1))
    assert loaded.snapshot.running is not None
    jobs = loaded.snapshot.running.jobs
    assert loaded.snapshot.node_masks[jobs.mask[0]].tolist() == [True, False]
    assert jobs.scratch_mib.tolist() == [1024]


def test_every_wish_reaches_the_engine(cluster, root, alice, project):
    place_node(actor=root, node=cluster.node(1), rack="r1", block="b1", now=NOON)
    set_licence(actor=root, name="sim", total=3)
    submit(
        alice,
        project,
        nodes="2..8",
        node_sizes=[2, 4, 8],
        gpu_memory="40GiB",
        gpu_models=[OTHER, MODEL],
        scratch="1GiB",
        licences={"sim": 2},
        constraints=["rack=r1", "node!=n9"],
        topology={"level": "block", "mode": "preferred"},
        exclusive=True,
    )
    snapshot = load_snapshot(NOON).snapshot
    check_snapshot(snapshot)
    waiting, nodes = snapshot.waiting, snapshot.nodes
    assert (nodes.rack.tolist(), nodes.block.tolist()) == ([0, NONE], [0, NONE])
    assert (waiting.nodes[0], waiting.nodes_min[0]) == (8, 2)
    assert snapshot.size_sets[waiting.sizes[0]] == (2, 4, 8)
    assert (waiting.gpu_memory_mib[0], waiting.scratch_mib[0]) == (40 * 1024, 1024)
    members = snapshot.model_sets[waiting.model[0] - len(snapshot.models)]
    assert [snapshot.models[row] for row in members] == [OTHER, MODEL]
    assert waiting.prefers[0] and waiting.is_exclusive[0]
    assert snapshot.licence_sets[waiting.licences[0]] == ((0, 2),)
    assert snapshot.node_masks is not None
    assert snapshot.node_masks[waiting.mask[0]].tolist() == [True, False]
    assert (waiting.topology[0], waiting.spread[0]) == (2, 1)
    assert snapshot.devices.memory_mib.tolist() == [81920] * 4


def test_of_wishes_that_are_kept_only_new_ones_are_taken_apart(
    cluster, alice, project, monkeypatch
):
    taken, tell = [], wishes._told
    monkeypatch.setattr(wishes, "_told", lambda row: taken.append(row[1]) or tell(row))
    kept = Kept()
    first = submit(alice, project, scratch="1GiB")
    load_snapshot(NOON, kept=kept)
    second = submit(alice, project, constraints=["node!=n9"])
    for _ in range(2):
        waiting = load_snapshot(NOON, kept=kept).snapshot.waiting
        assert waiting.scratch_mib.tolist() == [1024, 0] and waiting.mask.tolist() == [NONE, 0]
    Job.objects.filter(pk=first.pk).update(scratch_mib=7)
    assert load_snapshot(NOON, kept=kept).snapshot.waiting.scratch_mib.tolist() == [7, 0]
    assert taken == [first.pk, second.pk, first.pk]


def test_a_model_less_preferred_is_taken_after_a_while():
    names, hour = ["B200", "H100", "A100"], timedelta(hours=1)
    assert models_by_now(names, 3600, hour / 2) == ["B200"]
    assert models_by_now(names, 3600, hour) == ["B200", "H100"]
    assert models_by_now(names, 3600, 5 * hour) == names
    assert models_by_now(names, 0, timedelta(0)) == names


def test_a_job_falls_back_to_another_model_in_time(scheduler, cluster, alice, project):
    job = submit(alice, project, gpu_models=[OTHER, MODEL], fallback_after="5s")
    scheduler.run_cycle(at(1))
    assert OTHER in told(job)
    assert scheduler.run_cycle(at(6)).started == 1


def test_labels_and_excluded_nodes_are_kept(scheduler, cluster, root, alice, project):
    label_node(actor=root, node=cluster.node(2), labels={"network": "ib"}, now=NOON)
    fast = submit(alice, project, constraints=["network=ib"])
    slow = submit(alice, project, constraints=["network!=ib"])
    away = submit(alice, project, exclude_nodes=["n1"])
    nowhere = submit(alice, project, constraints=["network=eth"])
    scheduler.run_cycle(at(1))
    assert (nodes_of(fast), nodes_of(slow), nodes_of(away)) == (["n2"], ["n1"], ["n2"])
    assert "where network=eth" in told(nowhere)


@pytest.mark.parametrize(
    ("level", "places"),
    [
        ("rack", [("r1", "b"), ("r2", "b"), ("r2", "b")]),
        ("block", [("r1", "b1"), ("r2", "b2"), ("r3", "b2")]),
    ],
)
def test_one_rack_or_block_holds_a_gang_or_it_waits(
    scheduler, cluster, root, alice, project, level, places
):
    def put(name, place):
        node = Node.objects.get(name=name)
        place_node(actor=root, node=node, rack=place[0], block=place[1], now=NOON)

    put("n1", places[0])
    put("n2", places[1])
    apart = submit(alice, project, nodes=2, topology=level)
    scheduler.run_cycle(at(1))
    assert f"in one {level}" in told(apart)
    add_node(cluster, "n3", 2)
    put("n3", places[2])
    scheduler.run_cycle(at(3))
    assert nodes_of(apart) == ["n2", "n3"]


def test_licences_are_held_while_a_job_is_live(scheduler, cluster, root, alice, project):
    set_licence(actor=root, name="sim", total=1)
    first = submit(alice, project, licences={"sim": 1})
    second = submit(alice, project, licences={"sim": 1}, now=at(1))
    scheduler.run_cycle(at(2))
    second.refresh_from_db()
    assert second.wait_reason == WaitReason.LICENCE_WAIT
    scheduler.run_cycle(at(4))
    assert told(second) == "Waits for licence sim: needs 1, 0 of 1 are free."
    second.refresh_from_db()
    assert second.wait_facts["holders"] == [first.pk]
    attempt = first.attempts.get()
    sync(cluster.node(1), running(attempt), now=at(5))
    sync(cluster.node(1), ended(attempt), now=at(6))
    assert scheduler.run_cycle(at(7)).started == 1


def test_an_exclusive_job_has_its_node_to_itself(scheduler, cluster, alice, project):
    alone = submit(alice, project, exclusive=True)
    others = [submit(alice, project, now=at(1)) for _ in range(3)]
    scheduler.run_cycle(at(2))
    (node,) = nodes_of(alone)
    held = Allocation.objects.filter(placement__attempt__job=alone, released_at__isnull=True)
    assert held.count() == 2
    assert sorted(nodes_of(job) for job in others) == [[], *[[{"n1": "n2", "n2": "n1"}[node]]] * 2]


def test_scratch_is_counted_while_a_job_is_live(scheduler, cluster, alice, project):
    jobs = [submit(alice, project, scratch="60GiB") for _ in range(3)]
    scheduler.run_cycle(at(1))
    assert sorted(nodes_of(job) for job in jobs) == [[], ["n1"], ["n2"]]


def test_an_elastic_job_starts_smaller_and_its_history_says_so(scheduler, cluster, alice, project):
    start(submit(alice, project, gpus_per_node=2), cluster.node(2))
    job = submit(alice, project, nodes="1..2", gpus_per_node=2)
    scheduler.run_cycle(at(1))
    assert nodes_of(job) == ["n1"]
    event = JobEvent.objects.get(job=job, kind="assigned")
    assert (event.detail["nodes"], event.detail["wanted_nodes"]) == (1, 2)
    reply = sync(cluster.node(1), now=at(2))
    (assignment,) = [one for one in reply.assignments if one.job_id == job.pk]
    assert len(assignment.addresses) == 1


def test_gpu_memory_decides_between_cards(scheduler, cluster, alice, project):
    Device.objects.filter(node=cluster.node(1)).update(memory_mib=40_960)
    job = submit(alice, project, gpu_memory="64GiB")
    scheduler.run_cycle(at(1))
    assert nodes_of(job) == ["n2"]


def test_a_node_that_broke_a_job_lately_comes_last(scheduler, cluster, alice, project):
    broken = start(submit(alice, project), cluster.node(1))
    sync(cluster.node(1), ended(broken, reason=EndReason.START_FAILED, exit_code=None), now=at(1))
    Job.objects.update(state=JobState.CANCELLED)
    assert load_snapshot(at(2)).snapshot.nodes.failures.tolist() == [1, 0]
    job = submit(alice, project, now=at(3))
    scheduler.run_cycle(at(4))
    assert nodes_of(job) == ["n2"]
    assert load_snapshot(at(90_000)).snapshot.nodes.failures.tolist() == [0, 0]


def test_a_job_goes_where_its_data_is_and_says_so(scheduler, cluster, root, alice, project):
    far, near = cluster.node(1), cluster.node(2)
    laion = set_dataset(actor=root, name="laion", size="4GiB")
    for name, size in (("Bad Name", "1GiB"), ("mnist", "0"), ("mnist", "lots")):
        with pytest.raises(Invalid):
            set_dataset(actor=root, name=name, size=size)
    with pytest.raises(SpecInvalid, match="no data set mnist; known are: laion"):
        submit(alice, project, datasets=["laion", "mnist"])
    set_copy(actor=root, dataset=laion, node=near, held="9GiB", now=NOON)
    set_copy(actor=root, dataset=laion, node=near, held="3GiB", now=NOON)
    job = submit(alice, project, datasets=["laion"])
    assert scheduler.run_cycle(NOON).started == 1
    (event,) = JobEvent.objects.filter(job=job, kind="assigned")
    assert event.detail["because"] == (
        f"{near.name} lacks 1GiB of laion: chosen before {far.name}, which lacks 4GiB"
    )
    set_copy(actor=root, dataset=laion, node=near, held="0", now=NOON)
    assert not laion.copies.exists()
    remove_dataset(actor=root, dataset=laion)
    assert load_snapshot(NOON, also=[job]).snapshot.missing_mib.tolist() == [[0, 0]]
    told = AuditEvent.objects.filter(action__startswith="dataset.").values_list("action", flat=True)
    assert sorted(told) == ["dataset.copy"] * 3 + ["dataset.remove", "dataset.set"]


def test_what_a_node_says_lies_on_it_counts_beside_what_operators_tell(
    scheduler, cluster, root, alice, project, client
):
    far, near = cluster.node(1), cluster.node(2)
    laion = set_dataset(actor=root, name="laion", size="4GiB")
    set_copy(actor=root, dataset=laion, node=far, held="1GiB", now=NOON)
    odd = DataCopy("Bad Name", 7), DataCopy("mnist", -1), DataCopy("other", 5)
    said = DataReport((DataCopy("laion", 3072), *odd), "left out x")
    sync(near, data=said)
    sync(near)
    assert Node.objects.get(pk=near.pk).data == {
        "sets": [["laion", 3072], ["other", 5]],
        "problem": "left out x; 2 were refused by the server",
    }
    client.force_login(alice)
    page = client.get(f"/cluster/nodes/{near.name}/").content.decode()
    assert "laion</span> 3 GiB" in page and "2 were refused by the server" in page
    job = submit(alice, project, datasets=["laion"])
    assert scheduler.run_cycle(NOON).started == 1
    (event,) = JobEvent.objects.filter(job=job, kind="assigned")
    assert event.detail["because"].startswith(f"{near.name} lacks 1GiB of laion")
    sync(near, data=DataReport())
    assert load_snapshot(NOON, also=[job]).snapshot.missing_mib.tolist() == [[3072, 4096]]
