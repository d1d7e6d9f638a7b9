"""Jobs that come again by schedules: their due times (I34), and that they take turns (I35)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from scheduler.invariants.accepted import LOOKED_AT_WITHIN_S
from scheduler.invariants.rows import FOREVER, Row, Rows
from scheduler.spec.recurring.words import RunOutcome

# A start is dated by the begin of its cycle, which may have seen an end that is dated later.
_SETTLED_S = 5.0


def due_times_come_once(rows: Rows) -> Iterator[str]:
    """I34: a due time has come to one thing: a job of its schedule's owner, which no other time has
    come to, or to none, which says why."""
    jobs, schedules = rows.by_id("job"), rows.by_id("jobschedule")
    runs = rows.rows("jobschedulerun")
    times = Counter(_time(run) for run in runs)
    named = Counter(run["job_id"] for run in runs)
    for run in runs:
        name = f"schedule {run['schedule_id']}"
        job, schedule = jobs.get(run["job_id"]), schedules.get(run["schedule_id"])
        if times[_time(run)] > 1:
            yield f"{name} carried out one due time {times[_time(run)]} times"
        elif run["job_id"] is not None and named[run["job_id"]] > 1:
            yield f"job {run['job_id']} came of {named[run['job_id']]} due times"
        elif (run["outcome"] == RunOutcome.SUBMITTED) != (run["job_id"] is not None):
            yield f"{name}: a due time is {run['outcome']} and has {_job_words(run)}"
        elif run["job_id"] is None and not run["said"]:
            yield f"{name}: a due time is {run['outcome']} and says nothing"
        else:
            is_foreign = (
                job is not None
                and schedule is not None
                and not _is_of(job, schedule)
                and not _is_of_before(run, schedule)
            )
            yield f"{name} submitted job {run['job_id']} for somebody else" if is_foreign else ""


def _time(run: Row) -> tuple[Any, ...]:
    return run["schedule_id"], run["due_at"], run["by_hand"]


def _job_words(run: Row) -> str:
    return "no job" if run["job_id"] is None else f"job {run['job_id']}"


def _is_of(job: Row, schedule: Row) -> bool:
    theirs = ("owner_id", "project_id")
    return [job[one] for one in theirs] == [schedule[one] for one in theirs]


def _is_of_before(run: Row, schedule: Row) -> bool:
    """Whether it came in the name of who owned the schedule before."""
    since = schedule.get("owned_from")
    return since is not None and run["at"] <= since


def schedules_are_looked_at(
    rows: Rows, *, now: float, late_s: float = LOOKED_AT_WITHIN_S
) -> Iterator[str]:
    """The part of I34 about what is still to come: no time that was due is left lying."""
    for schedule in rows.rows("jobschedule"):
        due = schedule["next_due_at"]
        waits_s = 0.0 if due is None else rows.real(now) - rows.real(due)
        words = f"schedule {schedule['id']} is due for {waits_s:.0f} s and nobody looked at it"
        yield words if waits_s > late_s else ""


def paused_ones_rest(rows: Rows) -> Iterator[str]:
    """The part of I35 about pauses: one that is paused is not due, and nothing came of it since."""
    runs = rows.grouped("jobschedulerun", "schedule_id")
    for schedule in rows.rows("jobschedule"):
        since = schedule["paused_at"]
        if since is None:
            continue
        later = [one for one in runs.get(schedule["id"], ()) if _is_by_itself(one, since)]
        words = f"schedule {schedule['id']} is paused"
        if schedule["next_due_at"] is not None:
            yield f"{words} and due"
        else:
            yield f"{words} and came to {_job_words(later[0])} since" if later else ""


def _is_by_itself(run: Row, since: float) -> bool:
    return bool(run["at"] > since and not run["by_hand"])


def jobs_take_turns(rows: Rows) -> Iterator[str]:
    """I35: whatever happens while an earlier one goes on, skip, queue or replace: of the jobs of a
    schedule no two run at the same time. The tasks of an array are one."""
    attempts = rows.grouped("attempt", "job_id")
    sets = rows.grouped("job", "job_set_id")
    jobs = rows.by_id("job")
    for schedule, runs in rows.grouped("jobschedulerun", "schedule_id").items():
        spans = []
        for run in runs:
            job = jobs.get(run["job_id"])
            of_set = None if job is None else job["job_set_id"]
            mine = [job] if of_set is None else sets[of_set]
            tries = [one for each in mine if each for one in attempts.get(each["id"], ())]
            spans += [(one["assigned_at"], _end(one), run["job_id"]) for one in tries]
        yield from _together(f"schedule {schedule}", spans)


def _end(attempt: Row) -> float:
    ended: float | None = attempt["ended_at"]
    return FOREVER if ended is None else ended


def _together(name: str, spans: list[tuple[float, float, int]]) -> Iterator[str]:
    live: dict[int, float] = {}
    for begin, end, job in sorted(spans):
        live = {one: until for one, until in live.items() if until > begin + _SETTLED_S}
        others = [one for one in live if one != job]
        live[job] = max(end, live.get(job, 0.0))
        yield f"{name}: job {job} ran beside job {others[0]}" if others else ""
