"""What people handed in: it is there, once (I14, I15), and is looked at (I26). As rows tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from scheduler.invariants.rows import Rows
from scheduler.states import BY_SCHEDULER, JobState, WaitReason

# Cycles come within seconds of a change; this is long enough for two whatever the machine does.
LOOKED_AT_WITHIN_S = 600.0


def accepted_once(rows: Rows) -> Iterator[str]:
    """The part of I14 about jobs: each was handed in by one act, which came first."""
    told = rows.grouped("jobevent", "job_id")
    for job in rows.rows("job"):
        kinds = [event["kind"] for event in told.get(job["id"], [])]
        right = kinds[:1] == ["submitted"] and kinds.count("submitted") == 1
        yield "" if right else f"job {job['id']} is there and was not handed in once"


def sets_are_whole(rows: Rows) -> Iterator[str]:
    """The part of I14 about arrays: one task for each index that was accepted."""
    for found in rows.rows("jobset"):
        right = found["size"] == found["tasks"] == found["indexes"]
        words = f"set {found['id']} has {found['tasks']} of {found['size']} tasks"
        yield "" if right else f"{words}, with {found['indexes']} indexes"


def one_key_one_job(rows: Rows) -> Iterator[str]:
    """The part of I15 about rows: a job has one key at most, and it is its owner's."""
    owners = {job["id"]: job["owner_id"] for job in rows.rows("job")}
    counts = Counter(row["job_id"] for row in rows.rows("submitkey"))
    for row in rows.rows("submitkey"):
        job = row["job_id"]
        words = f"job {job} answers to {counts[job]} keys" if counts[job] > 1 else ""
        foreign = owners.get(job) != row["user_id"]
        yield f"job {job} answers to the key of somebody else" if foreign else words


def keys_are_one(rows: Rows) -> Iterator[str]:
    """The part of I15 about keys: no person's key is there twice. Asked of keys with counts."""
    for row in rows.rows("keycount"):
        words = f"a key of person {row['user_id']} answers with {row['jobs']} jobs"
        yield words if row["jobs"] > 1 else ""


def what_waits_was_looked_at(rows: Rows, *, now: float) -> Iterator[str]:
    """The part of I26 about rows: who is in line has been looked at by a cycle, and starts where
    nothing stands in the way.

    Asked of jobs in line that wait for the scheduler alone; `moved_at` is their last move.
    """
    for job in rows.rows("job"):
        is_left = job["state"] == JobState.QUEUED and job["wait_reason"] in BY_SCHEDULER
        waits_s = now - (job["moved_at"] or now)
        is_seen = job["wait_reason"] == WaitReason.START_DROPPED
        could = "could start it" if is_seen else "looked at it"
        words = f"job {job['id']} is in line for {waits_s:.0f} s and no cycle {could}"
        yield words if is_left and waits_s > LOOKED_AT_WITHIN_S else ""
