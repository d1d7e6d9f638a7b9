"""What nodes say of checkpoints, what is believed of it, and what the next attempt is offered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.services.nodes.identity import AttemptOfAnother
from scheduler.services.stopping import request_stop
from scheduler.states import AttemptState, EndReason, end_sentence, loss_sentence
from scheduler.wire.messages import Checkpoint
from tests import scenes
from tests.scenes import NOON, at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db

DIGEST = "ab" * 32


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=2, gpus=2)


def saved(step: int, taken_at: float = 0.0) -> Checkpoint:
    """A checkpoint of `step`, taken so many seconds after noon."""
    path = f"/node/checkpoints/7/step-{step}"
    return Checkpoint(path, step, 1000, DIGEST, NOON.timestamp() + taken_at)


def run(cluster, alice, project, *, now=0.0, node=1, **fields):
    job = submit(alice, project, **fields)
    return job, again(cluster, job, node=node, now=now)


def again(cluster, job, *, node=1, now=0.0):
    job.refresh_from_db()
    attempt = start(job, cluster.node(node), now=at(now))
    tell(cluster, attempt, now=now, node=node, started_at=at(now).timestamp())
    return attempt


def tell(cluster, attempt, *, now, node=1, sent_at=None, **fields):
    """The attempt's node says that it runs, with these fields."""
    report = replace(running(attempt), **fields)
    reply = sync(cluster.node(node), report, now=at(now), sent_at=sent_at or at(now).timestamp())
    attempt.refresh_from_db()
    return reply


def preempt(cluster, attempt, *, now, node=1, **fields):
    request_stop(attempt=attempt, reason=EndReason.PREEMPTED, now=at(now))
    report = ended(attempt, reason=EndReason.PREEMPTED, exit_code=0, **fields)
    reply = sync(cluster.node(node), report, now=at(now + 1))
    attempt.refresh_from_db()
    attempt.job.refresh_from_db()
    return reply


def events_of(job, kind):
    return [event.detail for event in job.events.filter(kind=kind).order_by("id")]


def test_the_last_confirmed_checkpoint_is_kept_and_told(cluster, alice, project):
    job, attempt = run(cluster, alice, project)
    tell(cluster, attempt, now=60, checkpoint=saved(100, 55))
    assert (attempt.checkpoint_step, attempt.checkpoint_at) == (100, at(55))
    assert attempt.checkpoint_path.endswith("step-100")
    assert (attempt.checkpoint_bytes, attempt.checkpoint_digest) == (1000, DIGEST)
    assert events_of(job, "checkpoint") == [{"attempt": 1, "step": 100, "bytes": 1000}]


def test_repeated_late_and_older_reports_change_nothing(cluster, alice, project):
    job, attempt = run(cluster, alice, project)
    tell(cluster, attempt, now=60, checkpoint=saved(100, 55))
    tell(cluster, attempt, now=200, checkpoint=saved(100, 199))
    tell(cluster, attempt, now=300, checkpoint=saved(40, 299))
    tell(cluster, attempt, now=301)
    assert (attempt.checkpoint_step, attempt.checkpoint_at) == (100, at(55))
    assert len(events_of(job, "checkpoint")) == 1


def test_a_repeated_report_writes_nothing(
    cluster, alice, project, django_capture_on_commit_callbacks
):
    _, attempt = run(cluster, alice, project)
    tell(cluster, attempt, now=60, checkpoint=saved(100, 55))
    with django_capture_on_commit_callbacks() as hints:
        tell(cluster, attempt, now=61, checkpoint=saved(100, 55))
    assert hints == []


def test_a_stale_fence_and_a_strange_node_are_not_believed(cluster, alice, project):
    _, first = run(cluster, alice, project)
    with pytest.raises(AttemptOfAnother):
        sync(cluster.node(2), replace(running(first), checkpoint=saved(5, 1)), now=at(5))
    first.refresh_from_db()
    assert first.checkpoint_at is None
    reply = preempt(cluster, first, now=10)
    assert reply.forget == (first.pk,)
    second = again(cluster, first.job, now=20)
    tell(cluster, first, now=30, checkpoint=saved(900, 29))
    second.refresh_from_db()
    assert first.checkpoint_at is None and second.checkpoint_at is None


def test_rank_0_alone_speaks_for_a_gang(cluster, alice, project):
    job = submit(alice, project, nodes=2)
    attempt = start(job, cluster.node(1), cluster.node(2))
    sync(cluster.node(1), running(attempt, master_port=29511))
    sync(cluster.node(2), replace(running(attempt, 1), checkpoint=saved(50)), now=at(5))
    attempt.refresh_from_db()
    assert attempt.checkpoint_at is None


@pytest.mark.parametrize(
    "changes",
    [
        {"step": -1},
        {"bytes": -1},
        {"digest": "x"},
        {"digest": "AB" * 32},
        {"path": ""},
        {"path": "x" * 2000},
    ],
)
def test_an_impossible_checkpoint_is_dropped(cluster, alice, project, changes):
    _, attempt = run(cluster, alice, project)
    tell(cluster, attempt, now=60, checkpoint=replace(saved(1, 1), **changes))
    assert attempt.checkpoint_at is None


@pytest.mark.parametrize(
    ("taken_at", "ahead_s", "kept"),
    [
        (3600 + 50, 3600, 50),  # a node an hour ahead
        (-3600 + 50, -3600, 50),  # an hour behind
        (10**7, 0, 60),  # from the future
        (-(10**7), 0, 0),  # from before the attempt
        (1e18, 0, 0),  # no time at all
    ],
)
def test_the_nodes_clock_decides_nothing(cluster, alice, project, taken_at, ahead_s, kept):
    _, attempt = run(cluster, alice, project)
    sent_at = at(60).timestamp() + ahead_s
    tell(cluster, attempt, now=60, sent_at=sent_at, checkpoint=saved(1, taken_at))
    assert attempt.checkpoint_at == at(kept)


def test_a_problem_is_kept_until_a_good_one_comes(cluster, alice, project):
    _, attempt = run(cluster, alice, project)
    tell(cluster, attempt, now=60, checkpoint_problem="x" * 999)
    assert attempt.checkpoint_problem == "x" * 255
    tell(cluster, attempt, now=70, checkpoint=saved(1, 69))
    assert (attempt.checkpoint_problem, attempt.checkpoint_step) == ("", 1)


def test_lost_work_counts_from_the_last_checkpoint(cluster, alice, project):
    job, attempt = run(cluster, alice, project, gpus_per_node=2)
    tell(cluster, attempt, now=600, checkpoint=saved(1200, 600))
    preempt(cluster, attempt, now=789)
    facts = attempt.end_facts
    assert (facts["lost_s"], facts["lost_gpu_s"], facts["checkpoint_step"]) == (190, 380, 1200)
    job.refresh_from_db()
    sentence = end_sentence(job.end_reason, job.end_facts)
    assert sentence.endswith("Lost 3 min 10 s of work; it resumes from step 1200.")


@pytest.mark.parametrize(
    ("folder", "lost_s", "says"),
    [
        ("", 600, "Lost 10 min of work; its last checkpoint, step 1200, lies on node n1, so"),
        ("/shared/run", 190, "Lost 3 min 10 s of work; it resumes from step 1200."),
    ],
)
def test_what_lies_on_a_failed_node_is_lost_unless_it_is_shared(
    cluster, alice, project, folder, lost_s, says
):
    job, attempt = run(cluster, alice, project, **({"checkpoint_dir": folder} if folder else {}))
    tell(cluster, attempt, now=410, checkpoint=saved(1200, 410))
    report = ended(attempt, reason=EndReason.NODE_LOST, detail="was not reached")
    sync(cluster.node(1), report, now=at(600))
    job.refresh_from_db()
    assert job.end_facts["lost_s"] == lost_s
    assert says in end_sentence(job.end_reason, job.end_facts)


def test_what_the_first_rank_saved_is_not_lost_with_another_node(cluster, alice, project):
    job = submit(alice, project, nodes=2)
    attempt = start(job, cluster.node(1), cluster.node(2))
    for rank in (0, 1):
        report = running(attempt, rank, master_port=29511)
        sync(cluster.node(rank + 1), replace(report, started_at=NOON.timestamp()), now=at(1))
    tell(cluster, attempt, now=60, checkpoint=saved(100, 60))
    sync(cluster.node(2), ended(attempt, 1, reason=EndReason.NODE_LOST), now=at(90))
    sync(cluster.node(1), ended(attempt, reason=EndReason.EXIT_CODE, exit_code=1), now=at(91))
    job.refresh_from_db()
    assert (job.end_reason, job.end_facts["rank"]) == (EndReason.NODE_LOST, 1)
    assert "it resumes from step 100" in end_sentence(job.end_reason, job.end_facts)


def test_sentences_spell_times_as_people_do():
    assert loss_sentence({"lost": "0s", "goes_on": True}) == "No work was lost; it starts anew."
    late = end_sentence(EndReason.TIME_LIMIT, {"limit": "1h30m"})
    assert late.startswith("The time limit of 1 h 30 min was reached.")
    assert "more memory than the 2GiB" in end_sentence(EndReason.OUT_OF_MEMORY, {"limit": "2GiB"})


def test_without_a_checkpoint_all_since_the_start_is_lost(cluster, alice, project):
    _, attempt = run(cluster, alice, project, now=100)
    preempt(cluster, attempt, now=159)
    assert (attempt.end_facts["lost_s"], attempt.end_facts["lost_gpu_s"]) == (60, 60)
    assert end_sentence("preempted", attempt.end_facts).endswith("it starts anew.")


def test_what_never_ran_lost_nothing(cluster, alice, project):
    job = submit(alice, project)
    attempt = start(job, cluster.node(1))
    preempt(cluster, attempt, now=5)
    assert "lost_s" not in attempt.end_facts


def test_success_has_lost_nothing(cluster, alice, project):
    _, attempt = run(cluster, alice, project)
    sync(cluster.node(1), ended(attempt), now=at(50))
    attempt.refresh_from_db()
    assert "lost" not in attempt.end_facts


def test_the_end_waits_for_the_last_checkpoint_but_holds_no_device(cluster, alice, project):
    job, attempt = run(cluster, alice, project)
    preempt(cluster, attempt, now=60, checkpoint_pending=True)
    assert attempt.state == AttemptState.STOPPING and attempt.released_at == at(61)
    reply = sync(
        cluster.node(1),
        ended(attempt, reason=EndReason.PREEMPTED, checkpoint=saved(7, 60)),
        now=at(65),
    )
    attempt.refresh_from_db()
    job.refresh_from_db()
    assert (attempt.state, attempt.checkpoint_step, job.state) == ("ended", 7, "queued")
    assert attempt.end_facts["lost_s"] == 1
    assert reply.forget == (attempt.pk,)


def test_a_checkpoint_that_is_never_read_does_not_hold_the_job_for_ever(
    cluster, alice, project, settings
):
    from scheduler.services.logs import finish_undrained

    job, attempt = run(cluster, alice, project)
    preempt(cluster, attempt, now=60, checkpoint_pending=True)
    assert finish_undrained(now=at(61 + settings.TRAINYARD["log_drain_s"] + 1)) == 0
    assert finish_undrained(now=at(61 + 601)) == 1
    job.refresh_from_db()
    assert job.state == "queued"
    kinds = set(job.events.values_list("kind", flat=True))
    assert "checkpoint_unread" in kinds and "log_incomplete" not in kinds
