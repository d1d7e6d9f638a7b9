"""Short histories that together make every legal move of jobs and attempts, by the real doors."""

from __future__ import annotations

from collections.abc import Callable

from django.db import transaction

from scheduler.models import Attempt, Job
from scheduler.services.attempts import abandon_placements, locked_live_attempt
from scheduler.services.changing.by_hand import hold_job, pause_job, release_job
from scheduler.services.jobs import cancel_job
from scheduler.states import AttemptState, EndReason, JobState
from tests.protocol.play import Cluster

Walk = Callable[[Cluster], None]


def _job(play: Cluster, number: int = 0) -> Job:
    return Job.objects.get(pk=list(play.accepted.values())[number])


def _all_talk(play: Cluster) -> None:
    for node in play.nodes:
        play.ship(node)
        play.talk(node)


def _submitted(
    play: Cluster, *, runs_s: float = 1e9, code: int = 0, retries: int = 0, nodes: int = 1
) -> Job:
    """One job, assigned to its nodes, whose programs will run for so long."""
    for node in play.nodes:
        play.talk(node)
        node.plans = [(runs_s, code)]
    play.submit(0, nodes, 2, retries, 0, "normal", 3600)
    play.cycle(0)
    return _job(play)


def _seen_starting(play: Cluster) -> None:
    _all_talk(play)
    _all_talk(play)


def _seen_running(play: Cluster) -> None:
    _all_talk(play)
    play.advance(3.0)
    _all_talk(play)


def _over(play: Cluster) -> None:
    """Time for ends and their reports."""
    for _ in range(5):
        play.advance(35.0)
        _all_talk(play)
    play.check(["I1", "I3", "I4", "I20"])


def _ends(play: Cluster, state: JobState, number: int = 0) -> None:
    job = _job(play, number)
    assert job.state == state, (job.state, job.end_reason)


def completes(play: Cluster) -> None:
    """Seen starting, running, and done."""
    _submitted(play, runs_s=20)
    _seen_starting(play)
    _seen_running(play)
    _over(play)
    _ends(play, JobState.SUCCEEDED)


def is_done_before_it_is_seen(play: Cluster) -> None:
    """From its assignment to its end within one call."""
    _submitted(play, runs_s=2)
    _all_talk(play)
    _over(play)
    _ends(play, JobState.SUCCEEDED)


def is_done_before_it_is_seen_to_run(play: Cluster) -> None:
    """Seen starting, then at its end."""
    _submitted(play, runs_s=2, code=1)
    _seen_starting(play)
    _over(play)
    _ends(play, JobState.FAILED)


def fails_and_is_tried_again(play: Cluster) -> None:
    """Once while it runs, once before that is seen."""
    job = _submitted(play, runs_s=20, code=1, retries=1)
    _seen_running(play)
    _over(play)
    assert job.events.filter(kind="retried", from_state="running").exists()
    _ends(play, JobState.QUEUED)


def fails_at_once_and_is_tried_again(play: Cluster) -> None:
    job = _submitted(play, runs_s=2, code=1, retries=1)
    _all_talk(play)
    _over(play)
    assert job.events.filter(kind="retried", from_state="starting").exists()


def fails_while_it_runs(play: Cluster) -> None:
    _submitted(play, runs_s=20, code=1)
    _seen_running(play)
    _over(play)
    _ends(play, JobState.FAILED)


def is_cancelled_as_it_is_assigned(play: Cluster) -> None:
    play.change(_submitted(play).pk, cancel_job)
    _over(play)
    _ends(play, JobState.CANCELLED)


def is_cancelled_as_it_starts(play: Cluster) -> None:
    job = _submitted(play)
    _seen_starting(play)
    play.change(job.pk, cancel_job)
    _over(play)
    _ends(play, JobState.CANCELLED)


def is_cancelled_as_it_runs(play: Cluster) -> None:
    job = _submitted(play)
    _seen_running(play)
    play.change(job.pk, cancel_job)
    _over(play)
    _ends(play, JobState.CANCELLED)


def is_cancelled_as_it_ends_well(play: Cluster) -> None:
    """What is done is done."""
    job = _submitted(play, runs_s=5)
    _seen_running(play)
    play.change(job.pk, cancel_job)
    _over(play)
    _ends(play, JobState.SUCCEEDED)


def is_paused_and_goes_on(play: Cluster) -> None:
    job = _submitted(play)
    _seen_running(play)
    play.change(job.pk, pause_job)
    _over(play)
    _ends(play, JobState.HELD)
    play.change(job.pk, release_job)
    _ends(play, JobState.QUEUED)


def is_cancelled_as_it_waits(play: Cluster) -> None:
    """In line, and held."""
    for key, act in enumerate((None, hold_job)):
        play.submit(key, 1, 1, 0, 0, "normal", 3600)
        if act is not None:
            play.change(_job(play, key).pk, act)
        play.change(_job(play, key).pk, cancel_job)
        _ends(play, JobState.CANCELLED, key)


def is_stopped_for_a_more_important_one(play: Cluster) -> None:
    """By the scheduler's own plan, after the time that everybody may run; it goes on later."""
    job = _submitted(play, nodes=3)
    _seen_running(play)
    play.submit(1, 1, 2, 0, 0, "urgent", 3600)
    for _ in range(8):
        play.advance(15.0)
        _all_talk(play)
        play.cycle(0)
    stopped = Attempt.objects.get(job=job, number=1)
    assert (stopped.end_reason, stopped.stopped_for) == (EndReason.PREEMPTED, _job(play, 1))
    _ends(play, JobState.QUEUED)
    _ends(play, JobState.RUNNING, 1)


def loses_its_peer(play: Cluster) -> None:
    """One rank fails, so the other is stopped."""
    _submitted(play, nodes=2)
    play.nodes[1].plans = [(20.0, 1)]
    _seen_running(play)
    _seen_running(play)
    _over(play)
    _ends(play, JobState.FAILED)


def loses_its_node_as_it_runs(play: Cluster) -> None:
    """Silent, then lost: tried again for free."""
    _submitted(play)
    _seen_running(play)
    play.nodes[0].reboot(play.now)
    play.advance(50.0)
    _over(play)
    _ends(play, JobState.QUEUED)


def loses_its_node_as_it_starts(play: Cluster) -> None:
    """The operator's way: what was there is given up."""
    job = _submitted(play)
    with transaction.atomic():
        attempt = locked_live_attempt(Attempt.objects.get(job=job).pk)
        assert attempt is not None and attempt.state == AttemptState.ASSIGNED
        ranks = attempt.placements.select_related("node")
        abandon_placements(attempt, ranks, EndReason.NODE_LOST, "it was lost", play.moment())
    _ends(play, JobState.QUEUED)


WALKS: tuple[Walk, ...] = (
    completes,
    is_done_before_it_is_seen,
    is_done_before_it_is_seen_to_run,
    fails_and_is_tried_again,
    fails_at_once_and_is_tried_again,
    fails_while_it_runs,
    is_cancelled_as_it_is_assigned,
    is_cancelled_as_it_starts,
    is_cancelled_as_it_runs,
    is_cancelled_as_it_ends_well,
    is_paused_and_goes_on,
    is_cancelled_as_it_waits,
    is_stopped_for_a_more_important_one,
    loses_its_peer,
    loses_its_node_as_it_runs,
    loses_its_node_as_it_starts,
)
