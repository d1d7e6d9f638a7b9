"""What the next attempt is offered to go on from, and which node comes first for that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.services.checkpoints.resuming import may_lead
from scheduler.services.rows.placed import PlacedOn
from scheduler.services.stopping import request_stop
from scheduler.states import EndReason
from tests import scenes
from tests.scenes import at, ended, running, start, submit, sync
from tests.services.test_checkpoints import again, events_of, preempt, run, saved, tell

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=2, gpus=2)


def test_the_next_attempt_on_the_same_node_is_offered_the_furthest(cluster, alice, project):
    job, first = run(cluster, alice, project)
    tell(cluster, first, now=60, checkpoint=saved(100, 55))
    preempt(cluster, first, now=90)
    second = start(job, cluster.node(1), now=at(100))
    (assignment,) = sync(cluster.node(1), now=at(101)).assignments
    assert assignment.resume == saved(100, 55)
    assert assignment.resume_from == saved(100).path
    tell(cluster, second, now=102, resumed_from=saved(100).path, resumed_step=100)
    assert (second.resume_from, second.resume_step) == (saved(100).path, 100)
    (told,) = events_of(job, "resumed")
    assert told["step"] == 100
    tell(cluster, second, now=103, resumed_from=saved(100).path, checkpoint=saved(100, 55))
    assert second.checkpoint_at is None, "the old checkpoint is not this attempt's own"
    assert len(events_of(job, "resumed")) == 1


def test_a_nodes_own_folder_is_not_offered_elsewhere_and_that_is_said(cluster, alice, project):
    job, first = run(cluster, alice, project)
    tell(cluster, first, now=60, checkpoint=saved(100, 55))
    preempt(cluster, first, now=90)
    second = start(job, cluster.node(2), now=at(100))
    (assignment,) = sync(cluster.node(2), now=at(101)).assignments
    assert (assignment.resume, assignment.resume_from) == (None, "")
    assert "step 100 lies on node n1" in second.resume_problem
    assert "n1" in events_of(job, "assigned")[-1]["starts_anew"]


def test_the_node_with_the_furthest_checkpoint_is_the_first_of_a_gang(alice, project, root):
    cluster = scenes.build_cluster(root, nodes=4, gpus=1)
    job = submit(alice, project, nodes="1..3")
    first = start(job, cluster.node(3), cluster.node(4))
    sync(cluster.node(3), running(first, master_port=29511), now=at(1))
    sync(cluster.node(4), running(first, 1), now=at(1))
    tell(cluster, first, node=3, now=60, checkpoint=saved(1200, 55))
    request_stop(attempt=first, reason=EndReason.RESIZED, now=at(70))
    for rank, node in enumerate((3, 4)):
        report = ended(first, rank, reason=EndReason.RESIZED, exit_code=0)
        sync(cluster.node(node), report, now=at(71))
    job.refresh_from_db()
    second = start(job, cluster.node(1), cluster.node(3), cluster.node(4), now=at(80))
    ranks = second.placements.order_by("rank")
    assert [placed.node.name for placed in ranks] == ["n3", "n1", "n4"]
    assert (second.resumes_id, second.resume_problem) == (first.pk, "")
    assert all(placed.node == placed.allocations.get().device.node for placed in ranks)
    (assignment,) = sync(cluster.node(3), now=at(81)).assignments
    assert (assignment.rank, assignment.resume.step) == (0, 1200)


def test_a_smaller_share_never_comes_first():
    whole = PlacedOn(node_id=1, rank=0, device_ids=(1, 2), cpus=2, memory_mib=2)
    other = replace(whole, node_id=2, rank=1)
    part = PlacedOn(node_id=3, rank=2, device_ids=(5,), cpus=1, memory_mib=1)
    assert [p.node_id for p in may_lead((whole, other, part))] == [1, 2]


def test_what_could_not_be_read_is_not_offered_for_ever(cluster, alice, project):
    job, first = run(cluster, alice, project)
    tell(cluster, first, now=60, checkpoint=saved(100, 55))
    preempt(cluster, first, now=90)
    second = again(cluster, job, now=100)
    tell(cluster, second, now=102, resume_problem="step-100: No such file")
    preempt(cluster, second, now=110)
    third = again(cluster, job, now=120)
    assert third.resumes_id == first.pk, "nothing else was saved since"
    gone = "step-100: No such file"
    tell(cluster, third, now=150, resume_problem=gone, checkpoint=saved(60, 149))
    preempt(cluster, third, now=160)
    fourth = start(job, cluster.node(1), now=at(170))
    assert (fourth.resumes_id, fourth.resumes.checkpoint_step) == (third.pk, 60)


def test_a_folder_that_the_job_named_is_offered_everywhere(cluster, alice, project):
    job, first = run(cluster, alice, project, checkpoint_dir="/shared/run")
    tell(cluster, first, now=60, checkpoint=saved(100, 55))
    preempt(cluster, first, now=90)
    second = again(cluster, job, node=2, now=100)
    (assignment,) = sync(cluster.node(2), now=at(101)).assignments
    assert assignment.resume is not None and assignment.resume.step == 100
    tell(cluster, second, node=2, now=102, resume_problem="step-100: No such file")
    assert second.resume_problem == "step-100: No such file"
    assert events_of(job, "starts_anew")[0]["detail"] == "step-100: No such file"


def test_back_on_the_first_node_the_furthest_checkpoint_counts_again(cluster, alice, project):
    job, first = run(cluster, alice, project)
    tell(cluster, first, now=60, checkpoint=saved(100, 55))
    preempt(cluster, first, now=90)
    second = again(cluster, job, node=2, now=100)
    tell(cluster, second, node=2, now=120, checkpoint=saved(20, 119))
    preempt(cluster, second, node=2, now=130)
    third = start(job, cluster.node(1), now=at(140))
    assert third.resumes_id == first.pk
