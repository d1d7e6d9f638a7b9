"""What has to happen at last: I21 and I26."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from portal.torture.history import Evidence
from portal.torture.invariants.pools import pools_named
from scheduler.invariants.money import account_lines
from scheduler.invariants.rows import FOREVER, Row
from scheduler.invariants.sent import outbox_is_worked_off
from scheduler.states import FINAL_JOB_STATES

# A mail or a call to a webhook that failed is made again; this long after its time it had to be.
_LATE_S = 120.0
# Two cycles, on a machine where everything takes long.
_STARTS_WITHIN_S = 60.0


def outbox_delivers(evidence: Evidence) -> Iterator[str]:
    """I21: each mail, and each call to a webhook, is made at least once or given up after tries.

    What is called sent was taken by its receiver, and no two rows tell the same one of the same
    thing: its key is what receivers know a repeated one by.
    """
    yield from _calls_arrive(evidence)
    until = evidence.rules.get("ended_at", 0.0)
    yield from outbox_is_worked_off(evidence, now=until, late_s=_LATE_S)
    arrived = Counter(evidence.rules.get("arrived", ()))
    sent = Counter(m["subject"] for m in evidence.rows("outboundmail") if m["sent_at"] is not None)
    if "arrived" in evidence.rules:
        for subject, count in sent.items():
            missing = count - arrived[subject]
            words = f"{missing} mails '{subject}' are called sent and were not"
            yield words if missing > 0 else ""


def _calls_arrive(evidence: Evidence) -> Iterator[str]:
    """Each call is signed, a number always tells the same, and what is called sent was taken."""
    told: dict[int, str] = {}
    taken: set[int] = set()
    for call in evidence.told("call"):
        number = call["delivery"]
        same = told.setdefault(number, call["digest"]) == call["digest"]
        words = "" if same else f"call {number} told one thing and then another"
        yield words if call["signed"] else f"call {number} came without a right signature"
        taken |= {number} if call["status"] == 200 else set()
    ours = {said["webhook"] for said in evidence.told("hook")}
    for row in evidence.rows("delivery"):
        if row.get("webhook_id") in ours and row["sent_at"] is not None:
            arrived = row["id"] in taken
            yield "" if arrived else f"call {row['id']} is called sent and did not arrive"


def work_goes_on(evidence: Evidence) -> Iterator[str]:
    """I26: jobs that could run have run: none waits once the faults are over.

    And while nothing runs and no fault is at work, a job that fits waits for two cycles at most.
    """
    for job in evidence.rows("job"):
        waits = job["state"] not in FINAL_JOB_STATES
        yield f"job {job['id']} is {job['state']} at the end" if waits else ""
    yield from _stalls(evidence)


def _stalls(evidence: Evidence) -> Iterator[str]:
    patience_s = evidence.rules.get("starts_within_s", _STARTS_WITHIN_S)
    waits = list(_waits(evidence))
    for since, until in _idle(evidence):
        for job, began, ended in waits:
            span_s = min(until, ended) - max(since, began)
            stalled = span_s > patience_s and _fits(job, evidence)
            words = f"job {job['id']} fits, waited for {span_s:.0f} s and nothing ran"
            yield words if stalled else ""


def _waits(evidence: Evidence) -> Iterator[tuple[Row, float, float]]:
    """Each time a job was in line, by its events; one of a booking waits for that."""
    for pk, events in evidence.grouped("jobevent", "job_id").items():
        job = evidence.by_id("job").get(pk)
        if job is None or job["booked_in_id"] is not None or "nodes" not in job:
            continue
        moves = [one for one in events if one["to_state"]]
        ends = [one["at"] for one in moves[1:]] + [FOREVER]
        for move, end in zip(moves, ends, strict=True):
            if move["to_state"] == "queued":
                yield job, evidence.real(move["at"]), evidence.real(end)


def _idle(evidence: Evidence) -> Iterator[tuple[float, float]]:
    """When no device was held, no fault was at work and no node changed its state."""
    busy: list[tuple[float, float]] = []
    for held in evidence.rows("allocation"):
        busy.append((evidence.real(held["acquired_at"]), _end(evidence, held["released_at"])))
    busy += [(one["at"], one.get("until") or one["at"]) for one in evidence.told("fault")]
    # A fault is over once all are back where they were, which the nodes' own moves tell.
    for event in evidence.rows("nodeevent"):
        at = evidence.real(event["at"])
        busy.append((at, at))
    busy.append((evidence.rules.get("ended_at", 0.0), FOREVER))
    latest = 0.0
    for since, until in sorted(busy):
        if latest and since > latest:
            yield latest, since
        latest = max(latest, until)


def _end(evidence: Evidence, moment: float | None) -> float:
    return FOREVER if moment is None else evidence.real(moment)


def _fits(job: Row, evidence: Evidence) -> bool:
    """Whether it fits into each pool that it was ever in or might choose: into which of them it
    waited then, nobody wrote down."""
    return all(_fits_into(pool, job, evidence) for pool in pools_named(evidence, job))


def _fits_into(pool: Any, job: Row, evidence: Evidence) -> bool:
    """Whether the pool's nodes that take work at the end have enough devices for it, and no quota
    is smaller: what is in service then was there while nothing changed."""
    wanted = job["nodes"] * job["gpus_per_node"]
    accounts, line = evidence.by_id("account"), account_lines(evidence)[job["project_id"]]
    models = {"", *(device["model"] for device in evidence.rows("device"))}
    for quota in evidence.rows("quota"):
        is_meant = accounts[quota["account_id"]]["key"] in line
        is_meant = is_meant and quota["pool_id"] in (None, pool)
        is_meant = is_meant and quota["gpu_model"] in models
        if is_meant and quota["maximum"] is not None and quota["maximum"] < wanted:
            return False
    mine = [node for node in evidence.rows("node") if node["pool_id"] == pool]
    ready = {node["id"] for node in mine if node["state"] == "ready"}
    whole: Counter[Any] = Counter()
    for device in evidence.rows("device"):
        if device.get("node_id") in ready and device["health"] == "healthy":
            whole[device["node_id"]] += 1
    enough = [node for node, count in whole.items() if count >= job["gpus_per_node"]]
    return len(enough) >= job["nodes"]
