"""Several nodes run a job and one of them is at fault: it is named, and the next try avoids it."""

from __future__ import annotations

import pytest

from scheduler.conf import load_conf
from scheduler.loop.loading import load_snapshot
from scheduler.models import Device
from scheduler.services import reaping
from scheduler.services.jobs import cancel_job
from scheduler.states import EndReason, JobState
from scheduler.wire.messages import TroubleReport
from tests import scenes
from tests.scenes import NOON, at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db
BECAUSE = "stopped because of rank {} on node {}"


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=2)


@pytest.fixture
def gang(cluster, alice, project):
    """An attempt that runs on both nodes."""
    attempt = start(submit(alice, project, nodes=2), *cluster.nodes)
    sync(cluster.node(1), running(attempt, master_port=29500))
    sync(cluster.node(2), running(attempt, 1))
    return attempt


def lose_card(node, attempt, now):
    node.refresh_from_db()
    card = Device.objects.get(node=node, index=0)
    report = TroubleReport("xid", card.uuid, "Xid 79", NOON.timestamp(), attempt.pk)
    sync(node, now=now, troubles=(report,))


def check_blame(attempt, node, reason):
    """The job waits again, and its next try avoids that node."""
    attempt.refresh_from_db()
    attempt.job.refresh_from_db()
    assert (attempt.end_reason, attempt.end_facts["node"]) == (reason, node.name)
    assert attempt.job.state == JobState.QUEUED
    snapshot = load_snapshot(at(9000)).snapshot
    (row,) = snapshot.waiting.avoid_node.tolist()
    assert row >= 0 and snapshot.nodes.id[row] == node.pk


@pytest.mark.parametrize("word", [EndReason.DEVICE_FAILED, EndReason.EXIT_CODE])
def test_of_a_broken_card_that_is_the_node_which_has_it(cluster, gang, word):
    lose_card(cluster.node(2), gang, at(5))
    # The healthy rank obeys at once, the other hangs in its driver.
    sync(cluster.node(1), ended(gang, reason=EndReason.DEVICE_FAILED, exit_code=143), now=at(10))
    sync(cluster.node(2), ended(gang, 1, reason=word, exit_code=137), now=at(40))
    check_blame(gang, cluster.node(2), EndReason.DEVICE_FAILED)
    first, second = gang.placements.order_by("rank")
    assert (first.end_reason, first.detail) == (EndReason.EXIT_CODE, BECAUSE.format(1, "n2"))
    if word == EndReason.DEVICE_FAILED:
        assert second.detail.startswith("GPU 0: ") and "Xid 79" in second.detail
    assert gang.triage["signature"] == "device_failed"


def test_a_cancel_meanwhile_changes_nothing_of_that(cluster, gang, alice):
    lose_card(cluster.node(2), gang, at(5))
    gang.job.refresh_from_db()
    cancel_job(actor=alice, job=gang.job, now=at(6))
    sync(cluster.node(1), ended(gang, reason=EndReason.DEVICE_FAILED, exit_code=143), now=at(10))
    sync(cluster.node(2), ended(gang, 1, reason=EndReason.DEVICE_FAILED, exit_code=9), now=at(40))
    gang.refresh_from_db()
    assert (gang.end_reason, gang.end_facts["node"]) == (EndReason.DEVICE_FAILED, "n2")


@pytest.mark.parametrize("slow", [1, 2])
def test_of_a_start_that_takes_too_long_it_is_who_did_not_answer(cluster, alice, project, slow):
    attempt = start(submit(alice, project, nodes=2), *cluster.nodes)
    if slow == 2:
        sync(cluster.node(1), running(attempt, master_port=29500), now=at(1))
    late = load_conf().start_deadline_s + 1
    for node in cluster.nodes:
        sync(node, now=at(late - 2))
    assert reaping.revoke_unaccepted(now=at(late)) == 1
    word = {"reason": EndReason.START_TIMEOUT, "exit_code": None}
    other = 3 - slow
    sync(cluster.node(other), ended(attempt, other - 1, **word), now=at(late + 1))
    sync(cluster.node(slow), ended(attempt, slow - 1, **word), now=at(late + 2))
    check_blame(attempt, cluster.node(slow), EndReason.START_TIMEOUT)


@pytest.mark.parametrize("detail", ["", "stopped before the program was started"])
def test_of_a_rank_that_cannot_start_it_is_that_one(cluster, alice, project, detail):
    attempt = start(submit(alice, project, nodes=2), *cluster.nodes)
    failed = ended(attempt, reason=EndReason.START_FAILED, exit_code=None, detail="no port")
    sync(cluster.node(1), failed, now=at(1))
    told = ended(attempt, 1, reason=EndReason.START_FAILED, exit_code=None, detail=detail)
    sync(cluster.node(2), told, now=at(2))
    check_blame(attempt, cluster.node(1), EndReason.START_FAILED)
    assert attempt.placements.get(rank=1).detail == BECAUSE.format(0, "n1")
