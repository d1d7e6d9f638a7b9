"""What people asked for beforehand, with what programs say themselves: I30 to I32."""

from __future__ import annotations

from collections.abc import Iterator

from portal.torture.history import Evidence
from portal.torture.program import STOP_GRACE_S
from scheduler.invariants import promised
from scheduler.invariants.rows import Row

_PATIENCE_S = 90.0


def moments_are_kept(evidence: Evidence) -> Iterator[str]:
    """I30: who is cancelled when late does not start too late, and its program is over with its
    moment. Where clocks were put forward the moment may come while its node is not heard."""
    yield from promised.moments_are_kept(evidence)
    patience_s = evidence.rules.get("stop_within_s", _PATIENCE_S) + STOP_GRACE_S
    if evidence.rules.get("steps"):
        patience_s += evidence.rules["lost_after_s"]
    jobs = evidence.by_id("job")
    for said in evidence.told("exit"):
        job = jobs.get(said["job"])
        if job is None or job["start_by"] is None:
            continue
        over_s = said["at"] - evidence.real(job["finish_by"])
        words = f"the program of attempt {said['fence']} ran for {over_s:.0f} s beyond its moment"
        yield words if over_s > patience_s else ""


def waits_are_over(evidence: Evidence) -> Iterator[str]:
    """I31: nobody begins before what it waits for has come, by the rows and by the programs' own
    word; and a task waits for the task of its own index."""
    yield from promised.waits_are_over(evidence)
    jobs = {**evidence.by_id("job"), **evidence.by_id("awaited")}
    begun: dict[int, float] = {}
    for said in evidence.told("start"):
        begun[said["job"]] = min(begun.get(said["job"], said["at"]), said["at"])
    done: dict[int, float] = {}
    for said in evidence.told("exit"):
        if said["code"] == 0:
            done[said["job"]] = min(done.get(said["job"], said["at"]), said["at"])
    waits = evidence.grouped("dependency", "job_id")
    for wait in evidence.rows("dependency"):
        at = begun.get(wait["job_id"])
        if at is not None and wait["kind"] == "afterok":
            early = done.get(wait["on_id"], float("inf")) > at
            words = f"job {wait['job_id']} ran before the program of job {wait['on_id']} was done"
            yield words if early else ""
    for said in evidence.told("joined"):
        for job in jobs.values():
            if job.get("name") == said["key"]:
                partners = [jobs[wait["on_id"]] for wait in waits.get(job["id"], ())]
                yield "" if _is_own(job, partners, said["before"]) else _joined_wrong(job)


def _is_own(job: Row, partners: list[Row], before: str) -> bool:
    found = [(one.get("name"), one.get("array_index")) for one in partners]
    return found == [(before, job["array_index"])]


def _joined_wrong(job: Row) -> str:
    return f"task {job['array_index']} (job {job['id']}) does not wait for the task of its index"


def idle_stops_are_told_before(evidence: Evidence) -> Iterator[str]:
    """I32: no pause or stop for idle GPUs without its warning and notice; and each warning was told
    to somebody. Of an array one notice stands for an hour of them."""
    yield from promised.idle_stops_are_told_before(evidence)
    told = {row["key"] for row in evidence.rows("notification")}
    attempts, jobs = evidence.by_id("attempt"), evidence.by_id("job")
    for warning in evidence.rows("idlewarning"):
        job = jobs[attempts[warning["attempt_id"]]["job_id"]]
        heard = job["job_set_id"] is not None or f"idle:job:{job['id']}:{warning['id']}" in told
        yield "" if heard else f"warning {warning['id']} of job {job['id']} was told to nobody"
