"""Fault 16: what hostile programs could do to their node and to others on it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from portal.torture.history import Evidence
from scheduler.invariants.rows import Row

HOSTILE, CANCELLED = 16, 18
_RENEWED_WITHIN_S = 20.0


def attempts_of(evidence: Evidence, fault: Row) -> list[Row]:
    """Those of the job that this fault is or was done to, as rows."""
    if fault["number"] == HOSTILE:
        jobs = [job["id"] for job in evidence.rows("job") if job["name"] == fault["target"]]
    else:
        jobs = [int(fault["target"])]
    attempts = evidence.grouped("attempt", "job_id")
    return [attempt for job in jobs for attempt in attempts.get(job, [])]


def hostile_programs_harm_nobody(evidence: Evidence) -> Iterator[str]:
    """F16: they reach nothing of the agent, and their neighbours are heard as always.

    A node's silence counts while such a program ran anywhere, and no other fault was at work.
    """
    for said in evidence.told("trespass"):
        yield f"the program of attempt {said['fence']} reached {said['what']}"
    yield from ("" for said in evidence.told("start") if _is_hostile(evidence, said))
    for node, asked, answered in gaps_beside(evidence):
        late = answered - asked > _RENEWED_WITHIN_S
        words = f"node {node} was not heard for {answered - asked:.0f} s beside a hostile program"
        yield words if late else ""


def _is_hostile(evidence: Evidence, said: Row) -> bool:
    names = {job["id"]: job["name"] for job in evidence.rows("job")}
    return names.get(said["job"], "") in _hostile_names(evidence)


def _hostile_names(evidence: Evidence) -> set[str]:
    return {fault["target"] for fault in evidence.told("fault") if fault["number"] == HOSTILE}


def gaps_beside(evidence: Evidence) -> Iterator[tuple[str, float, float]]:
    """Node and two moments between which it was not answered, while a hostile program ran."""
    faults = [f for f in evidence.told("fault") if f["number"] not in (HOSTILE, CANCELLED)]
    disturbed = [(fault["at"], fault["until"]) for fault in faults if fault.get("until")]
    ran = [
        (evidence.real(attempt["assigned_at"]), evidence.real(attempt["ended_at"]))
        for fault in evidence.told("fault")
        if fault["number"] == HOSTILE
        for attempt in attempts_of(evidence, fault)
        if attempt["ended_at"] is not None
    ]
    for said in evidence.told("heard"):
        answers = sorted(answered for _, answered in said["times"])
        for one, next_one in pairwise(answers):
            if _meets(ran, one, next_one) and not _meets(disturbed, one, next_one):
                yield said["node"], one, next_one


def _meets(spans: list[tuple[float, float]], begin: float, end: float) -> bool:
    return any(start < end and begin < stop for start, stop in spans)
