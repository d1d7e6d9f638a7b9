"""Jobs that have to be finished by a moment, through whole cycles."""

import pytest

from scheduler.loop.changing import change_job, read_change
from scheduler.loop.supposing.in_time import finish_of_waiting, tell_late_jobs
from scheduler.loop.supposing.quoting import quote_job
from scheduler.models import Job, JobEvent, Notification
from scheduler.services.errors import Conflict, Invalid
from scheduler.services.placing import start_attempts
from scheduler.spec import SpecInvalid, parse_spec
from scheduler.states import AttemptState, EndReason, JobState, Outlook, end_sentence, shown_state
from scheduler.triage.judge import ADVICE
from tests.scenes import TOKEN, at, ended, planned, running, submit, sync

pytestmark = pytest.mark.django_db

HOUR = 3600


def by(seconds):
    return at(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


def big(alice, project, **fields):
    """One that takes both nodes, or waits for them."""
    return submit(alice, project, nodes=2, gpus_per_node=2, **fields)


def told(person):
    rows = Notification.objects.filter(person=person, kind="job_late").order_by("pk")
    return list(rows.values_list("title", flat=True))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"finish_by": by(-1)}, "is over already; choose a later moment"),
        ({"finish_by": by(900 * 24 * HOUR)}, "more than two years ahead"),
        (
            {"finish_by": by(HOUR), "finish_by_policy": "cancel", "time_limit": "2h"},
            "choose a time limit of 1h at most, a later moment, or finish_by_policy: keep",
        ),
        (
            {
                "finish_by": by(2 * HOUR),
                "begin": by(HOUR),
                "finish_by_policy": "cancel",
                "time_limit": "2h",
            },
            "choose a time limit of 1h at most",
        ),
        ({"finish_by": by(30), "finish_by_policy": "cancel"}, "leaves no time for it"),
    ],
)
def test_a_moment_that_cannot_be_met_is_refused_at_the_submit(
    cluster, alice, project, fields, words
):
    with pytest.raises(SpecInvalid) as refused:
        submit(alice, project, **fields)
    assert [one.field for one in refused.value.problems] == ["finish_by"]
    assert words in refused.value.problems[0].message


def test_one_that_is_kept_starts_however_late_and_its_owner_is_told_once(
    scheduler, cluster, alice, project
):
    big(alice, project, time_limit="1h")
    scheduler.run_cycle(at(1))
    job = submit(alice, project, time_limit="2h", finish_by=by(HOUR))
    assert (job.finish_by, job.start_by, job.finish_policy) == (at(HOUR), None, "keep")
    scheduler.run_cycle(at(2))
    assert scheduler.run_cycle(at(HOUR + 1)).reaped
    scheduler.run_cycle(at(HOUR + 10))
    job.refresh_from_db()
    assert (job.state, job.told_late) == (JobState.QUEUED, True)
    assert told(alice) == ["train is late"]
    assert JobEvent.objects.filter(job=job, kind="finish_missed").count() == 1


def test_one_that_is_cancelled_when_late_ends_before_it_takes_a_gpu(
    scheduler, cluster, alice, project
):
    first = big(alice, project, time_limit="1h")
    scheduler.run_cycle(at(1))
    strict = {"finish_by": by(3 * HOUR), "finish_by_policy": "cancel", "time_limit": "2h"}
    job = submit(alice, project, **strict)
    after = submit(alice, project, depends_on=[f"afterany:{job.pk}"])
    assert job.start_by == at(HOUR)
    scheduler.run_cycle(at(HOUR))
    job.refresh_from_db()
    assert job.state == JobState.QUEUED
    scheduler.run_cycle(at(HOUR + 1))
    job.refresh_from_db()
    assert (job.state, job.end_reason) == (JobState.CANCELLED, EndReason.FINISH_BY_MISSED)
    assert job.end_facts == {"finish_by": "2026-11-20 15:00 UTC", "limit": "2h"}
    assert not job.attempts.exists()
    after.refresh_from_db()
    assert after.state == JobState.QUEUED
    # Its end tells of it; nothing else does.
    assert told(alice) == [] and first.attempts.exists()


def test_one_that_is_cancelled_when_late_runs_until_its_moment_at_most(
    scheduler, cluster, alice, project
):
    strict = {"finish_by": by(HOUR + 60), "finish_by_policy": "cancel", "time_limit": "1h"}
    job = submit(alice, project, **strict)
    scheduler.run_cycle(at(1))
    attempt = job.attempts.get()
    node = attempt.placements.get().node
    sync(node, running(attempt), now=at(100))
    sync(node, running(attempt), now=at(HOUR + 59))
    scheduler.run_cycle(at(HOUR + 59))
    attempt.refresh_from_db()
    assert attempt.state == AttemptState.RUNNING
    sync(node, running(attempt), now=at(HOUR + 61))
    scheduler.run_cycle(at(HOUR + 61))
    attempt.refresh_from_db()
    assert (attempt.state, attempt.stop_reason) == (
        AttemptState.STOPPING,
        EndReason.FINISH_BY_REACHED,
    )
    [desired] = sync(node, running(attempt), now=at(HOUR + 62)).assignments
    assert desired.stop.reason == EndReason.TIME_LIMIT
    sync(node, ended(attempt, reason=EndReason.TIME_LIMIT), now=at(HOUR + 63))
    job.refresh_from_db()
    assert (job.state, shown_state(job.state, job.end_reason)) == (JobState.FAILED, "timed out")
    said = end_sentence(job.end_reason, job.end_facts)
    assert said.startswith(
        "It had to be finished by 20 Nov 2026, 13:01 UTC, and was still running."
    )
    attempt.refresh_from_db()
    assert (attempt.failure, attempt.triage["signature"]) == ("timeout", "finish_by_reached")
    assert "later moment" in ADVICE[attempt.triage["signature"]]


def test_a_start_that_was_planned_in_time_and_comes_late_is_dropped(cluster, alice, project):
    """A long cycle, or more than the thousand that are looked at with each second."""
    strict = {"finish_by": by(HOUR), "finish_by_policy": "cancel", "time_limit": "30m"}
    job, other = submit(alice, project, **strict), submit(alice, project)
    starts = [planned(job, cluster.node(1)), planned(other, cluster.node(2))]
    assert start_attempts(starts, lease_token=TOKEN, now=at(HOUR // 2 + 1)) == [other.pk]
    job.refresh_from_db()
    assert job.state == JobState.QUEUED and not job.attempts.exists()
    assert start_attempts(starts[:1], lease_token=TOKEN, now=at(HOUR // 2)) == [job.pk]


def test_late_tasks_of_an_array_are_told_of_once(scheduler, cluster, alice, project):
    big(alice, project, time_limit="5h")
    scheduler.run_cycle(at(1))
    strict = {"finish_by": by(2 * HOUR), "finish_by_policy": "cancel", "time_limit": "1h"}
    first = submit(alice, project, array="0-4", **strict)
    scheduler.run_cycle(at(HOUR + 1))
    tasks = Job.objects.filter(job_set=first.job_set)
    assert set(tasks.values_list("end_reason", flat=True)) == {"finish_by_missed"}
    assert told(alice) == ["train: a task is late"]


def asked(actor, **fields):
    document = {"name": "train", "project": "vision/digits", "script": "echo hi", **fields}
    return quote_job(actor=actor, spec=parse_spec(document), now=at(2))


def test_a_quote_says_whether_it_is_done_in_time_and_what_was_found_to_help(
    scheduler, cluster, alice, project
):
    big(alice, project, time_limit="2h")
    scheduler.run_cycle(at(1))
    assert asked(alice, time_limit="1h").finish is None
    quote = asked(alice, time_limit="1h", finish_by=by(4 * HOUR))
    assert (quote.finish.outlook, quote.remedies) == (Outlook.LIKELY, ())
    assert quote.finish.sentence.startswith("It is likely to be finished by 20 Nov 2026, 16:00 UTC")
    late = asked(alice, time_limit="2h", finish_by=by(3 * HOUR))
    assert (late.finish.outlook, late.finish.slack_s) == (Outlook.UNLIKELY, -HOUR - 300)
    assert late.finish.sentence.startswith("It is expected to end 1 h")
    assert [one.fix for one in late.remedies] == ["limit:3300"]
    assert all(one.end_p50_at <= at(3 * HOUR) for one in late.remedies)
    never = asked(alice, time_limit="30m", finish_by=by(HOUR))
    assert never.finish.outlook is Outlook.IMPOSSIBLE
    strict = asked(alice, time_limit="1h", finish_by=by(9000), finish_by_policy="cancel")
    assert strict.finish.outlook is Outlook.UNLIKELY
    assert "is cancelled if it does not start sooner" in strict.finish.sentence
    held = asked(alice, time_limit="1h", finish_by=by(3 * HOUR), hold=True)
    assert held.finish.outlook is Outlook.UNKNOWN


def test_who_is_expected_to_be_late_is_told_once(scheduler, cluster, alice, project):
    big(alice, project, time_limit="2h")
    scheduler.run_cycle(at(1))
    late = submit(alice, project, time_limit="2h", finish_by=by(3 * HOUR))
    in_time = submit(alice, project, time_limit="30m", finish_by=by(5 * HOUR))
    tasks = submit(alice, project, array="0-2", time_limit="3h", finish_by=by(4 * HOUR))
    assert tell_late_jobs(now=at(1)) == 0
    scheduler.run_cycle(at(2))
    assert tell_late_jobs(now=at(3)) == 2
    assert tell_late_jobs(now=at(63)) == 0
    for job in (late, in_time, tasks):
        job.refresh_from_db()
    assert (late.told_late, in_time.told_late) == (False, None)
    assert told(alice) == [
        "train is expected to be late",
        "train: a task is expected to be late",
    ]
    assert finish_of_waiting(late, now=at(3)).slack_s < 0
    assert finish_of_waiting(in_time, now=at(3)).outlook is Outlook.LIKELY


def test_a_waiting_job_is_given_another_moment_or_none(scheduler, cluster, alice, bob, project):
    big(alice, project, time_limit="5h")
    scheduler.run_cycle(at(1))
    job = submit(alice, project, time_limit="2h")
    change = read_change(finish_by="+4h", finish_by_policy="cancel", now=at(2))
    job = change_job(actor=alice, job=job, change=change, now=at(2))
    assert (job.finish_by, job.start_by) == (at(2 + 4 * HOUR), at(2 + 2 * HOUR))
    assert job.spec["finish_by_policy"] == "cancel"
    with pytest.raises(Invalid, match="choose a time limit of 3h59m at most") as refused:
        change_job(actor=alice, job=job, change=read_change("5h"), now=at(10))
    assert refused.value.field == "time_limit"
    job = change_job(actor=alice, job=job, change=read_change("3h"), now=at(10))
    assert job.start_by == at(2 + HOUR)
    both = read_change("1h", finish_by="+2h", now=at(10))
    job = change_job(actor=alice, job=job, change=both, now=at(10))
    assert (job.start_by, job.time_limit_s) == (at(10 + HOUR), HOUR)
    both = read_change("3h", finish_by=by(2 + 4 * HOUR))
    job = change_job(actor=alice, job=job, change=both, now=at(10))
    assert job.start_by == at(2 + HOUR)
    kept = read_change(finish_by_policy="keep", now=at(11))
    job = change_job(actor=alice, job=job, change=kept, now=at(11))
    assert (job.finish_by, job.start_by) == (at(2 + 4 * HOUR), None)
    with pytest.raises(Invalid, match="finish_by: is over already"):
        change_job(actor=alice, job=job, change=read_change(finish_by=by(5)), now=at(20))
    none = read_change(finish_by="none", now=at(12))
    job = change_job(actor=alice, job=job, change=none, now=at(12))
    assert (job.finish_by, job.finish_policy, job.spec["finish_by"]) == (None, None, None)
    details = JobEvent.objects.filter(job=job, kind="finish_by_changed").order_by("pk")
    assert [one.detail["is"] for one in details] == [
        "2026-11-20 16:00 UTC, cancelled when late",
        "2026-11-20 14:00 UTC, cancelled when late",
        "2026-11-20 16:00 UTC, cancelled when late",
        "2026-11-20 16:00 UTC, kept when late",
        "no moment",
    ]
    with pytest.raises(Invalid, match="give that too"):
        change_job(actor=alice, job=job, change=read_change(finish_by_policy="cancel"), now=at(13))


def test_a_running_job_gets_a_later_moment_never_a_sooner_one(scheduler, cluster, alice, project):
    strict = {"finish_by": by(3 * HOUR), "finish_by_policy": "cancel", "time_limit": "1h"}
    job = submit(alice, project, **strict)
    scheduler.run_cycle(at(1))
    attempt = job.attempts.get()
    sync(attempt.placements.get().node, running(attempt), now=at(2))
    job.refresh_from_db()
    with pytest.raises(Conflict, match="keeps the time it was given"):
        change_job(actor=alice, job=job, change=read_change(finish_by=by(2 * HOUR)), now=at(3))
    with pytest.raises(Invalid, match="choose a time limit of 2h59m at most"):
        change_job(actor=alice, job=job, change=read_change("4h"), now=at(3))
    job = change_job(actor=alice, job=job, change=read_change(finish_by=by(5 * HOUR)), now=at(3))
    assert job.finish_by == at(5 * HOUR)
    job = change_job(actor=alice, job=job, change=read_change(finish_by="none"), now=at(4))
    assert job.finish_by is None
