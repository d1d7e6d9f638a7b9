"""Groups of which the newest job counts: I37."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from scheduler.invariants.rows import Row, Rows
from scheduler.states import FINAL_JOB_STATES, EndReason, JobState

# By owner, project and name.
_Group = tuple[int, int, str]


@dataclass(slots=True)
class _Member:
    """A job, or an array as all its tasks that are known. Of its events: the first one of its
    submit and of a start (0: unknown, or none), the last of an end by job. `counts`: what runs
    again the failed tasks of an array ends nothing."""

    name: str
    first: int
    counts: bool
    jobs: list[Row] = field(default_factory=list)
    submitted: int = 0
    started: int = 0
    ended: dict[int, int] = field(default_factory=dict)
    is_tried: bool = False


def newest_counts(rows: Rows) -> Iterator[str]:
    """I37: of a group the newest counts: no job of it that was never tried, nor a task of such an
    array, is left once a newer one of the same owner and project is there, whatever the policy.

    Where events are known, the newer one was there before the older one began or ended otherwise.
    """
    for (_, _, group), members in _members(rows).items():
        for place, older in enumerate(members):
            newer = next((one for one in members[place + 1 :] if one.counts), None)
            words = _left(older, newer) if newer is not None else ""
            yield f"of group {group}, {older.name} {words}" if words else ""


def _left(older: _Member, newer: _Member) -> str:
    """Why the older one was left though the newer one had come; empty where it was not."""
    words = f"though {newer.name} is newer"
    if older.is_tried:
        is_late = 0 < newer.submitted < older.started
        return f"began {words}" if is_late else ""
    if any(job["state"] not in FINAL_JOB_STATES for job in older.jobs):
        return f"waits {words}"
    for job in older.jobs:
        was_there = 0 < newer.submitted < older.ended.get(job["id"], 0)
        if was_there and (job["end_reason"] != EndReason.SUPERSEDED or _newer(job) != newer.name):
            return f"was not ended for it {words}"
    return ""


def ends_are_for_ones_own(rows: Rows) -> Iterator[str]:
    """The part of I37 about those that have ended: who had to give way did so for a newer one of
    the same owner, project and group. That may be of another part (`newer`)."""
    others: dict[str, Row] = {}
    for job in (*rows.rows("newer"), *rows.rows("job")):
        others.setdefault(_name(job), job)
    for job in rows.rows("job"):
        if job.get("end_reason") != EndReason.SUPERSEDED:
            continue
        name = _newer(job)
        newer = others.get(name)
        words = f"job {job['id']} was ended for {name or 'nothing'}, which is"
        if not name:
            yield f"{words} no newer one"
        elif newer is not None and _group(newer) != _group(job):
            yield f"{words} not of its group"
        else:
            is_older = newer is not None and newer["id"] < job["id"]
            yield f"{words} older" if is_older else ""


def _members(rows: Rows) -> dict[_Group, list[_Member]]:
    """The members of each group, the oldest first."""
    tried = {attempt["job_id"] for attempt in rows.rows("attempt")}
    events = rows.grouped("jobevent", "job_id")
    sets = rows.by_id("jobset")
    found: dict[_Group, dict[str, _Member]] = {}
    for job in rows.rows("job"):
        if job.get("group_name") is None:
            continue
        mine, name = found.setdefault(_group(job), {}), _name(job)
        if name not in mine:
            job_set = sets.get(job["job_set_id"])
            counts = job_set is None or job_set["rerun_of_id"] is None
            mine[name] = _Member(name, job["id"], counts)
        mine[name].jobs.append(job)
        mine[name].is_tried |= job["id"] in tried
        for event in events.get(job["id"], ()):
            _note(mine[name], event)
    return {
        group: sorted(mine.values(), key=lambda member: member.first)
        for group, mine in found.items()
    }


def _note(member: _Member, event: Row) -> None:
    number, to = event["id"], event["to_state"]
    if event["kind"] == "submitted":
        member.submitted = min(member.submitted or number, number)
    elif to == JobState.STARTING:
        member.started = min(member.started or number, number)
    elif to in FINAL_JOB_STATES:
        member.ended[event["job_id"]] = number


def _group(job: Row) -> _Group:
    return job["owner_id"], job["project_id"], job["group_name"]


def _name(job: Row) -> str:
    return f"array {job['job_set_id']}" if job["job_set_id"] else f"job {job['id']}"


def _newer(job: Row) -> str:
    """As its end names it."""
    return str((job["end_facts"] or {}).get("newer", ""))
