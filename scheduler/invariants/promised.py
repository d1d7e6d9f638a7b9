"""What people asked for beforehand and what a rule may do: tries (I29), moments (I30), waits for
other jobs (I31), GPUs that do little (I32)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from scheduler.invariants.rows import Row, Rows
from scheduler.states import (
    END_RULES,
    FINAL_JOB_STATES,
    MAX_FREE_RETRIES,
    DependencyKind,
    EndReason,
    IdleOutcome,
    JobState,
)

# A start is dated by the begin of its cycle, which may have seen an end that is dated later.
_SETTLED_S = 5.0
# Two programs of the server write these moments, each by what it last read of its clock.
_CLOSE_S = 1.0
# A stop is its grace, the kill and whatever keeps a process from dying, seen some time later.
_STOPPED_WITHIN_S = 690.0
# Where a job was given another moment or limit while it waited, earlier starts went by the old one.
_MOVED = frozenset({"finish_by_changed", "limit_changed"})
# A node that was not heard then held the time limit itself, and its end is dated when it was given
# up or came back.
_UNSEEN = (EndReason.NODE_LOST, EndReason.TIME_LIMIT)
_ACTED = {EndReason.IDLE_PAUSED: IdleOutcome.PAUSED, EndReason.IDLE_STOPPED: IdleOutcome.STOPPED}


def tries_are_allowed(rows: Rows) -> Iterator[str]:
    """I29: each attempt after the first was somebody's to give: the platform's, of the job's number
    or of one of its rules, none beyond its most; and it began after the wait that was asked for.

    Failures of nodes, GPUs and the platform spend neither the number nor a rule.
    """
    jobs, events = rows.by_id("job"), rows.grouped("jobevent", "job_id")
    for pk, attempts in rows.grouped("attempt", "job_id").items():
        paid = Counter(_payer(attempt) for attempt in attempts)
        yield next(_overspent(jobs[pk], attempts, paid), "")
        for earlier, later in pairwise(attempts):
            words = _not_to_be(earlier) or _too_soon(earlier, later, events.get(pk, ()))
            yield f"job {pk}: attempt {later['id']} began {words}" if words else ""


def _payer(attempt: Row) -> str:
    return str((attempt.get("triage") or {}).get("then", ""))


def _rule(attempt: Row) -> dict[str, Any]:
    return (attempt.get("end_facts") or {}).get("rule") or {}


def _overspent(job: Row, attempts: Sequence[Row], paid: Counter[str]) -> Iterator[str]:
    name = f"job {job['id']}"
    for attempt in attempts:
        is_free = bool(attempt["end_reason"]) and END_RULES[attempt["end_reason"]].retry_free
        if is_free and _payer(attempt) in ("user", "rule"):
            yield f"{name}: {attempt['end_reason']} of attempt {attempt['id']} spent a retry of its"
    if paid["user"] > job["retries"]:
        most = job["retries"]
        yield f"{name} was tried again {paid['user']} times by its number, which is {most}"
    if paid["user"] != job["user_retries_used"]:
        said = job["user_retries_used"]
        yield f"{name} has used {said} retries of its number and was given {paid['user']}"
    if job["free_retries_used"] > MAX_FREE_RETRIES:
        yield f"{name} was tried again {job['free_retries_used']} times for free"
    by_rule = Counter(_rule(one).get("number") for one in attempts if _payer(one) == "rule")
    rules = job["retry_rules"] or []
    for number, count in by_rule.items():
        most = rules[number - 1].get("max", 0) if number and number <= len(rules) else 0
        if count > most:
            yield f"{name} was tried again {count} times by rule {number}, which says {most}"


def _not_to_be(earlier: Row) -> str:
    """Why none was to follow, in the words after "began"; empty where one was."""
    facts = earlier.get("end_facts") or {}
    if earlier["end_reason"] == EndReason.COMPLETED or not facts.get("goes_on", True):
        return f"after {earlier['end_reason']}, which ends a job"
    does = _rule(earlier).get("does", "retry")
    return "" if does == "retry" else f"though rule {_rule(earlier)['number']} ended the job"


def _too_soon(earlier: Row, later: Row, events: Sequence[Row]) -> str:
    """The same where a wait was not held; a person may cut it short."""
    wait_s = (earlier.get("end_facts") or {}).get("pause_s", 0)
    if not wait_s or earlier["ended_at"] is None:
        return ""
    waited_s = later["assigned_at"] - earlier["ended_at"]
    since = next((e["id"] for e in events if e["attempt_id"] == earlier["id"] and e["to_state"]), 0)
    by_hand = any(e["id"] > since and e.get("actor_id") is not None for e in events)
    is_soon = waited_s < wait_s - _CLOSE_S and not by_hand
    return f"{waited_s:.0f} s after the one before, not {wait_s}" if is_soon else ""


def moments_are_kept(rows: Rows) -> Iterator[str]:
    """The part of I30 about rows: who is cancelled when late is not started once its time limit
    fits no more before its moment, and does not run beyond it for longer than a stop takes."""
    events, attempts = rows.grouped("jobevent", "job_id"), rows.grouped("attempt", "job_id")
    for job in rows.rows("job"):
        if job["start_by"] is None:
            continue
        was_moved = any(event["kind"] in _MOVED for event in events.get(job["id"], ()))
        for attempt in attempts.get(job["id"], []):
            late_s = 0.0 if was_moved else attempt["assigned_at"] - job["start_by"]
            words = f"began {late_s:.0f} s after it could be done by then"
            if late_s <= _CLOSE_S:
                words = _beyond(rows, job, attempt)
            yield f"job {job['id']}: attempt {attempt['id']} {words}" if words else ""


def _beyond(rows: Rows, job: Row, attempt: Row) -> str:
    if attempt["ended_at"] is None or attempt["end_reason"] in _UNSEEN:
        return ""
    # Where clocks were put forward over the moment, it came with that.
    over_s = rows.real(attempt["ended_at"]) - rows.real(job["finish_by"]) - attempt["stop_grace_s"]
    return f"ran for {over_s:.0f} s beyond its moment" if over_s > _STOPPED_WITHIN_S else ""


def waits_are_over(rows: Rows) -> Iterator[str]:
    """I31: an attempt begins once what its job waits for has come, task for task as well."""
    first: dict[int, Row] = {}
    for attempt in rows.rows("attempt"):
        first.setdefault(attempt["job_id"], attempt)
    # Jobs that were awaited may be of another part.
    others = {**rows.by_id("job"), **rows.by_id("awaited")}
    for wait in rows.rows("dependency"):
        begun, on = first.get(wait["job_id"]), others.get(wait["on_id"])
        if begun is None or on is None:
            continue
        came = _came_at(wait["kind"], on)
        is_early = came is None or begun["assigned_at"] < came - _SETTLED_S
        words = f"job {wait['job_id']} began before {wait['kind']} of job {on['id']} had come"
        yield words if is_early else ""


def _came_at(kind: str, on: Row) -> float | None:
    """When this end of a job came; None: it did not."""
    is_over = on["state"] in FINAL_JOB_STATES
    succeeded = on["state"] == JobState.SUCCEEDED
    if kind == DependencyKind.AFTER:
        came: float | None = on["started_at"] or on["ended_at"]
        return came
    has_come = {
        DependencyKind.AFTEROK: succeeded,
        DependencyKind.AFTERNOTOK: is_over and not succeeded,
        DependencyKind.AFTERANY: is_over,
    }
    ended: float | None = on["ended_at"]
    return ended if has_come.get(DependencyKind(kind), is_over) else None


def idle_stops_are_told_before(rows: Rows) -> Iterator[str]:
    """I32: who is paused or stopped because its GPUs do little was warned, had the whole notice,
    and was not kept by its people then."""
    warnings = rows.grouped("idlewarning", "attempt_id")
    for attempt in rows.rows("attempt"):
        if attempt["end_reason"] not in _ACTED:
            continue
        outcome = _ACTED[EndReason(attempt["end_reason"])]
        mine = warnings.get(attempt["id"], [])
        by = next((one for one in mine if one["outcome"] == outcome), None)
        words = "was not warned" if by is None else _unfair(by, mine)
        yield f"attempt {attempt['id']}: {attempt['end_reason']}, and it {words}" if words else ""


def _unfair(by: Row, mine: Sequence[Row]) -> str:
    if by["act_at"] is None or by["closed_at"] < by["act_at"] - _CLOSE_S:
        return "had not had its notice"
    kept = any((one["kept_until"] or 0.0) > by["closed_at"] + _CLOSE_S for one in mine)
    return "was to be kept" if kept else ""
