"""What jobs say of themselves, outside the product: who started, and how often."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

import httpx

from portal.bench.figures import spec

PATIENCE_S = 600.0
# The witness is a file of each job's own, outside the product; whoever runs the job again may
# be another user and appends to the same file.
SCRIPT = """umask 0
echo "$TRAINYARD_JOB_ID $TRAINYARD_ATTEMPT $(date +%s%N)" >> {folder}/$TRAINYARD_JOB_ID
sleep {seconds}
"""


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a job as the job itself wrote it down; `at_s` is the epoch."""

    job: int
    attempt: int
    at_s: float


def verdict(
    acknowledged: Collection[int], states: dict[int, str], starts: Iterable[Start]
) -> dict[str, int]:
    """How many jobs were lost, started twice, or started without having been acknowledged."""
    times: dict[int, int] = {}
    for start in starts:
        times[start.job] = times.get(start.job, 0) + 1
    ran = {job for job in times if states.get(job) == "succeeded"}
    return {
        "lost": len(set(acknowledged) - ran) + len(acknowledged) - len(set(acknowledged)),
        "doubled": sum(1 for count in times.values() if count > 1),
        "unasked": len(times.keys() - set(acknowledged)),
    }


def read_starts(folder: Path) -> list[Start]:
    """All starts that the jobs wrote down, in no order."""
    starts = []
    for path in folder.iterdir():
        for line in path.read_text(encoding="ascii").splitlines():
            job, attempt, at_ns = line.split()
            starts.append(Start(int(job), int(attempt), int(at_ns) / 1e9))
    return starts


def make_witness_folder(parent: Path) -> Path:
    """Open to the users that jobs run as. Not sticky: there no user may append to another's."""
    folder = parent / "witness"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


def submit_one(api: httpx.Client, number: int, script: str) -> int:
    """Submit one job; returns its number once it is acknowledged."""
    reply = api.post("/jobs/", json=spec(f"bench-{number}", script=script))
    return int(reply.raise_for_status().json()["id"])


def wait_for_all(api: httpx.Client, jobs: Iterable[int]) -> dict[int, str]:
    """The final state of each job; `unknown` when the portal does not have it."""
    deadline = time.monotonic() + PATIENCE_S
    states = {}
    for job in jobs:
        while True:
            reply = api.get(f"/jobs/{job}/", params={"wait": 20})
            if reply.status_code == httpx.codes.NOT_FOUND:
                states[job] = "unknown"
                break
            shown = reply.raise_for_status().json()
            states[job] = shown["state"]
            if shown["is_final"]:
                break
            if time.monotonic() > deadline:
                raise TimeoutError(f"job {job} is still {shown['state']}: {shown['wait']}")
    return states
