"""Attempts and their programs: I5 to I8, I16."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from portal.torture.history import Evidence
from scheduler.invariants.attempts import (
    DONE_WITHOUT_AN_EXIT,
    success_is_stored,
    what_is_over_holds_nothing,
)
from scheduler.invariants.rows import CLOSE_S, Row
from scheduler.states import FINAL_JOB_STATES

_PATIENCE_S = 90.0
# What nobody hears of is known once its node is lost or was heard again, and a moment later.
_UNREPORTED_S, _NEVER = 5.0, float("inf")


def programs_start_once(evidence: Evidence) -> Iterator[str]:
    """I5: each rank of a fence was started at most once, as the programs themselves say."""
    seen: set[tuple[int, int]] = set()
    known = {attempt["id"]: attempt["job_id"] for attempt in evidence.rows("attempt")}
    for start in evidence.told("start"):
        place = (start["fence"], start["rank"])
        words = ""
        if place in seen:
            words = f"rank {place[1]} of attempt {place[0]} was started twice"
        elif known.get(place[0]) != start["job"]:
            words = f"attempt {place[0]} of job {start['job']} ran and nobody ordered it"
        seen.add(place)
        yield words


def attempts_never_overlap(evidence: Evidence) -> Iterator[str]:
    """I6: of two attempts of a job, one's programs are over before the other's begin.

    A program's own lock tells without any clock; the written times tell of other ranks.
    """
    for clash in evidence.told("clash"):
        if clash["what"].startswith("job-"):
            yield f"job {clash['job']}: {clash['what']} was still held when it started again"
    ends: dict[int, float] = {}
    for end in evidence.told("exit"):
        ends[end["fence"]] = max(ends.get(end["fence"], 0.0), end["at"])
    starts: dict[int, dict[int, float]] = {}
    for start in evidence.told("start"):
        mine = starts.setdefault(start["job"], {})
        mine[start["fence"]] = min(mine.get(start["fence"], start["at"]), start["at"])
    for job, begins in starts.items():
        for earlier, later in pairwise(sorted(begins)):
            overlaps = ends.get(earlier, 0.0) > begins[later] + CLOSE_S
            yield f"job {job}: attempt {earlier} still ran in {later}" if overlaps else ""
        yield ""


def success_was_seen(evidence: Evidence) -> Iterator[str]:
    """I7: of a job that succeeded every rank wrote down its own exit with code 0; so is stored."""
    yield from success_is_stored(evidence)
    exits = {(end["fence"], end["rank"]): end["code"] for end in evidence.told("exit")}
    placements = evidence.grouped("placement", "attempt_id")
    for job, attempts in evidence.grouped("attempt", "job_id").items():
        last = attempts[-1]
        is_done = evidence.by_id("job")[job]["state"] == "succeeded"
        if not is_done or last["end_reason"] in DONE_WITHOUT_AN_EXIT:
            continue
        for placement in placements.get(last["id"], []):
            code = exits.get((last["id"], placement["rank"]))
            place = f"rank {placement['rank']} of attempt {last['id']}"
            yield "" if code == 0 else f"job {job} succeeded, but {place} ended with {code}"


def everything_ends(evidence: Evidence) -> Iterator[str]:
    """I8: long after the last fault nothing is still on its way; nor is what has ended itself."""
    for overdue in evidence.told("overdue"):
        yield f"job {overdue['job']} is {overdue['state']} long after it had to be over"
    ends = {(said["fence"], said["rank"]): said["at"] for said in evidence.told("exit")}
    placements = evidence.grouped("placement", "attempt_id")
    known_at = evidence.rules["ended_at"] - evidence.rules["lost_after_s"] - _UNREPORTED_S
    for attempt in evidence.rows("attempt"):
        pk, ranks = attempt["id"], placements.get(attempt["id"], [])
        exits = [ends.get((pk, each["rank"]), _NEVER) for each in ranks]
        is_late = attempt["state"] != "ended" and max(exits, default=_NEVER) < known_at
        yield f"attempt {pk} is {attempt['state']}, its programs ended long ago" if is_late else ""


def cancels_end_processes(evidence: Evidence) -> Iterator[str]:
    """I16: a cancel that was acknowledged ends the job and its programs in grace and 90 s; where a
    node was not heard any more, once that was given up."""
    # Only cancels count as looked at.
    yield from filter(None, what_is_over_holds_nothing(evidence))
    patience_s = evidence.rules.get("stop_within_s", _PATIENCE_S)
    jobs, attempts = evidence.by_id("job"), evidence.grouped("attempt", "job_id")
    ranks = evidence.grouped("placement", "attempt_id")
    exits: dict[int, float] = {}
    for said in evidence.told("exit"):
        exits[said["job"]] = max(exits.get(said["job"], 0.0), said["at"])
    for cancel in evidence.told("cancel"):
        job = jobs.get(cancel["job"])
        if cancel["status"] != 200 or job is None:
            continue
        mine = attempts.get(job["id"], [])
        assigned = {attempt["id"]: evidence.real(attempt["assigned_at"]) for attempt in mine}
        ended_at = evidence.real(job["ended_at"]) if job["ended_at"] else cancel["at"]
        # What the server believes to be over, its programs tell themselves.
        ended_at = max(ended_at, exits.get(job["id"], 0.0))
        later = [one for one in mine if evidence.real(one["ended_at"] or 0.0) > cancel["at"]]
        given_up = [r for one in later for r in ranks.get(one["id"], []) if _is_lost(r)]
        within_s = patience_s + (evidence.rules["lost_after_s"] if given_up else 0.0)
        words = _uncancelled(job, assigned, cancel["at"], ended_at, within_s)
        yield f"{words} ({_course(mine)})" if words else ""
    for left in evidence.told("left"):
        yield f"{left['what']} is still held by a process"


def _is_lost(rank: Row) -> bool:
    return bool(rank["end_reason"] == "node_lost")


def _course(attempts: list[Row]) -> str:
    """What became of them, for who looks for the reason."""
    said = []
    for attempt in attempts:
        ran = "ran" if attempt.get("started_at") else "never ran"
        said.append(f"attempt {attempt['id']} {ran}, {attempt['end_reason'] or attempt['state']}")
    return "; ".join(said) or "it was never assigned"


def _uncancelled(
    job: Row, assigned: Mapping[int, float], at: float, ended_at: float, patience_s: float
) -> str:
    if job["state"] not in FINAL_JOB_STATES:
        return f"job {job['id']} was cancelled and is {job['state']}"
    later = [pk for pk, then in assigned.items() if then > at + 1 and job["state"] == "cancelled"]
    if later:
        return f"job {job['id']} was cancelled and started again as attempt {later[0]}"
    took_s = ended_at - at
    return f"job {job['id']} took {took_s:.0f} s to be cancelled" if took_s > patience_s else ""
