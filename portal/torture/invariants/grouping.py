"""Groups of which the newest job counts: I37, by rows and by what programs say."""

from __future__ import annotations

from collections.abc import Iterator

from portal.torture.history import Evidence
from scheduler.invariants import grouped
from scheduler.invariants.rows import CLOSE_S, FOREVER


def newest_counts(evidence: Evidence) -> Iterator[str]:
    """I37: no older job of a group that was never tried is left when a newer one has come, and who
    gives way does so for one of its own group; and the program of one that waits for those at work
    begins when theirs are over."""
    yield from grouped.newest_counts(evidence)
    yield from grouped.ends_are_for_ones_own(evidence)
    yield from _programs_follow(evidence)


def _programs_follow(evidence: Evidence) -> Iterator[str]:
    """Of the jobs of one group (`grouped`, in the order of their numbers) each that was not meant
    to run beside the others."""
    begun, last = _moments(evidence)
    jobs: dict[str, list[int]] = {}
    for job in evidence.rows("job"):
        jobs.setdefault(str(job.get("name")), []).append(job["id"])
    before: dict[str, list[int]] = {}
    told = [said for said in evidence.told("grouped") if said["key"] in jobs]
    for said in sorted(told, key=lambda one: jobs[one["key"]][0]):
        mine, older = jobs[said["key"]], before.setdefault(said["group"], [])
        first = min((begun.get(job, FOREVER) for job in mine), default=FOREVER)
        late = [job for job in older if last.get(job, 0.0) > first + CLOSE_S]
        if said["policy"] != "beside" and first < FOREVER:
            words = f"the program of job {mine[0]} ran beside that of job {late[:1]} of its group"
            yield words if late else ""
        older += mine


def _moments(evidence: Evidence) -> tuple[dict[int, float], dict[int, float]]:
    """By job when its first program began, and when one was last heard of."""
    begun, last = dict[int, float](), dict[int, float]()
    for kind in ("start", "exit"):
        for said in evidence.told(kind):
            job, at = said["job"], said["at"]
            last[job] = max(last.get(job, 0.0), at)
            if kind == "start":
                begun[job] = min(begun.get(job, FOREVER), at)
    return begun, last
