"""Triage of real ends: what is stored, who pays, and that printing pays nobody's bill."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.core.files.storage import default_storage

from scheduler.loop.loading import load_snapshot
from scheduler.models import LogChunk, UsageEntry
from scheduler.selectors.logs import last_bytes
from scheduler.services.attempts import abandon_placements, locked_live_attempt
from scheduler.states import EndReason
from tests import scenes
from tests.scenes import at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db

XID = b"NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
PEER = b"step 1\nncclRemoteError: A call failed possibly due to a network error\n"


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=2, gpus=2)


def fail(cluster, job, log: bytes, *, now=60, reason=EndReason.EXIT_CODE, exit_code=1, **more):
    """One attempt on the first node that prints `log` and ends so."""
    attempt = start(job, cluster.node(1), now=at(now))
    sync(cluster.node(1), running(attempt), now=at(now + 1))
    if log:
        scenes.write_log(cluster.node(1), attempt, log)
    end = ended(attempt, reason=reason, exit_code=exit_code, log_size=len(log), **more)
    sync(cluster.node(1), end, now=at(now + 100))
    attempt.refresh_from_db()
    job.refresh_from_db()
    return attempt


def test_class_signature_and_evidence_are_kept_with_the_lines_number(cluster, alice, project):
    job = submit(alice, project)
    log = b"step 1\n\x1b[31mtorch.OutOfMemoryError: CUDA out of memory.\x1b[0m\n"
    attempt = fail(cluster, job, log)
    assert (attempt.failure, attempt.triage["signature"]) == ("user_resource", "cuda_out_of_memory")
    line = {"rank": 0, "line": 2, "text": "torch.OutOfMemoryError: CUDA out of memory."}
    assert attempt.triage["evidence"] == [line]
    assert job.end_facts["failure"] == "user_resource"


def test_printing_a_hardware_message_buys_no_free_attempt(cluster, alice, project):
    """The abuse case: the advice says GPU, the bill and the retries stay the user's."""
    job = submit(alice, project, retries=1)
    first = fail(cluster, job, XID)
    assert (first.failure, first.triage["is_confirmed"]) == ("infra_gpu", False)
    assert (first.triage["then"], job.end_facts["failure"]) == ("user", "user_code")
    assert (job.state, job.user_retries_used, job.free_retries_used) == ("queued", 1, 0)
    second = fail(cluster, job, XID, now=300)
    assert (job.state, second.triage["then"]) == ("failed", "")
    assert job.free_retries_used == 0
    assert not UsageEntry.objects.filter(job=job, kind="adjustment").exists()


def test_failures_the_node_reports_never_use_the_users_retries(cluster, alice, project):
    job = submit(alice, project, retries=1)
    for number in range(5):
        attempt = fail(
            cluster, job, b"", now=200 * number, reason=EndReason.DEVICE_FAILED, exit_code=None
        )
        assert (attempt.failure, attempt.triage["then"]) == ("infra_gpu", "free")
        assert (job.state, job.user_retries_used) == ("queued", 0)
    last = fail(cluster, job, b"", now=2000, reason=EndReason.DEVICE_FAILED, exit_code=None)
    assert (job.state, job.user_retries_used, job.free_retries_used) == ("failed", 0, 5)
    assert last.triage["then"] == ""
    assert sum(row.cost for row in UsageEntry.objects.filter(job=job)) == 0


@pytest.mark.parametrize(
    ("detail", "failure"),
    [
        ("the spool: [Errno 28] No space left on device", "infra_storage"),
        ("Xid 79, GPU has fallen off the bus", "infra_gpu"),
        ("the agent failed: ValueError()", "platform"),
    ],
)
def test_the_nodes_own_words_make_its_failure_precise(cluster, alice, project, detail, failure):
    job = submit(alice, project)
    attempt = fail(cluster, job, b"", reason=EndReason.START_FAILED, exit_code=None, detail=detail)
    assert (attempt.failure, attempt.triage["then"], job.user_retries_used) == (failure, "free", 0)


def lose_peer(cluster, alice, project, log: bytes):
    """Rank 0 prints `log` and ends with code 1; then rank 1's node is given up."""
    job = submit(alice, project, nodes=2, retries=1)
    attempt = start(job, cluster.node(1), cluster.node(2))
    sync(cluster.node(1), running(attempt, master_port=29511))
    sync(cluster.node(2), running(attempt, 1))
    scenes.write_log(cluster.node(1), attempt, log)
    bad = ended(attempt, reason=EndReason.EXIT_CODE, exit_code=1, log_size=len(log))
    sync(cluster.node(1), bad, now=at(60))
    live = locked_live_attempt(attempt.pk)
    assert live is not None
    given_up = live.placements.filter(rank=1)
    abandon_placements(live, given_up, EndReason.NODE_LOST, "silent", at(400))
    job.refresh_from_db()
    attempt.refresh_from_db()
    return job, attempt


def test_a_rank_that_died_with_its_peers_node_is_not_to_blame(cluster, alice, project):
    job, attempt = lose_peer(cluster, alice, project, PEER)
    assert (attempt.failure, attempt.end_reason) == ("infra_node", "node_lost")
    assert (job.state, job.free_retries_used, job.user_retries_used) == ("queued", 1, 0)
    assert sum(row.cost for row in UsageEntry.objects.filter(job=job)) == 0
    assert job.end_facts["node"] == "n2"


def test_the_lost_node_is_avoided_and_not_the_one_that_was_stopped_over_it(cluster, alice, project):
    """The survivor repeats the reason it was told to stop for; that accuses nobody."""
    attempt = start(submit(alice, project, nodes=2), cluster.node(1), cluster.node(2))
    sync(cluster.node(1), running(attempt, master_port=29511))
    sync(cluster.node(2), running(attempt, 1))
    lost = ended(attempt, reason=EndReason.NODE_LOST, exit_code=None)
    sync(cluster.node(1), replace(lost, detail="the supervisor was lost"), now=at(60))
    sync(cluster.node(2), ended(attempt, 1, reason=EndReason.NODE_LOST, exit_code=1), now=at(61))
    attempt.refresh_from_db()
    assert (attempt.end_reason, attempt.end_facts["node"]) == ("node_lost", "n1")
    assert attempt.placements.get(rank=1).detail == "stopped because of rank 0 on node n1"
    snapshot = load_snapshot(at(70)).snapshot
    assert snapshot.nodes.id[snapshot.waiting.avoid_node[0]] == cluster.node(1).pk


@pytest.mark.parametrize(("left_at", "signature"), [(50, "peer_finished_early"), (70, "peer_lost")])
def test_a_rank_that_ended_well_before_its_peers_needed_it_is_told_of(
    cluster, alice, project, left_at, signature
):
    attempt = start(submit(alice, project, nodes=2), cluster.node(1), cluster.node(2))
    sync(cluster.node(1), running(attempt, master_port=29511))
    sync(cluster.node(2), running(attempt, 1))
    log = b"RuntimeError: [pair.cc:598] Connection closed by peer\n"
    scenes.write_log(cluster.node(1), attempt, log)
    bad = ended(attempt, reason=EndReason.EXIT_CODE, exit_code=1, log_size=len(log))
    well = ended(attempt, 1)
    said = [(60, 1, bad), (left_at, 2, well)]
    for second, node, report in sorted(said, key=lambda one: one[0]):
        sync(cluster.node(node), report, now=at(second))
    attempt.refresh_from_db()
    assert attempt.triage["signature"] == signature


def test_a_rank_that_failed_by_itself_stays_to_blame_when_a_node_is_lost_later(
    cluster, alice, project
):
    job, attempt = lose_peer(cluster, alice, project, b"KeyError: 'a'\n")
    assert (attempt.failure, attempt.end_reason) == ("user_code", "exit_code")
    assert (job.free_retries_used, job.user_retries_used) == (0, 1)


def test_an_attempt_ends_even_when_its_log_cannot_be_read(cluster, alice, project):
    job = submit(alice, project)
    attempt = start(job, cluster.node(1))
    sync(cluster.node(1), running(attempt))
    scenes.write_log(cluster.node(1), attempt, XID)
    default_storage.delete(LogChunk.objects.get().path)
    end = ended(attempt, reason=EndReason.EXIT_CODE, exit_code=1, log_size=len(XID))
    sync(cluster.node(1), end, now=at(60))
    attempt.refresh_from_db()
    job.refresh_from_db()
    assert (job.state, attempt.failure) == ("failed", "unknown")


@pytest.mark.parametrize("limit", [1, 4, 5, 9, 14, 15, 100])
def test_the_last_bytes_know_their_line(cluster, alice, project, limit):
    log = b"one\ntwo\nthree\nfour"
    attempt = start(submit(alice, project), cluster.node(1))
    scenes.write_log(cluster.node(1), attempt, b"one\nt", b"wo\nthr", b"ee\nfour")
    raw, first_line, is_cut = last_bytes(attempt.placements.get(), limit)
    assert raw == log[-limit:]
    assert first_line == log[: max(0, len(log) - limit)].count(b"\n") + 1
    begins_line = limit >= len(log) or log[len(log) - limit - 1 : len(log) - limit] == b"\n"
    assert is_cut or begins_line


def test_a_set_up_that_fails_is_tried_again_as_often_as_the_user_asked(cluster, alice, project):
    """A server of code that was away for a moment; who asked for no retry waits for none."""
    why = {"reason": EndReason.SETUP_FAILED, "exit_code": None, "detail": "git: no route to host"}
    job = submit(alice, project, retries=1)
    first = fail(cluster, job, b"", **why)
    assert (first.triage["then"], job.state, job.user_retries_used) == ("user", "queued", 1)
    assert fail(cluster, job, b"", now=300, **why).triage["then"] == ""
    assert job.state == "failed"
    once = submit(alice, project)
    assert fail(cluster, once, b"", now=600, **why).triage["then"] == ""
