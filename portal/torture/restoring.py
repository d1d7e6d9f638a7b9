"""A database is put back to what it was a while ago, below agents that went on meanwhile (21)."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx
import psycopg

from portal.bench.apart import python
from portal.embedded.postgres import find_binaries
from portal.embedded.programs import BACKGROUND, BEAT, SCHEDULER, WEB
from portal.torture import aftermath
from portal.torture.program import draw_job, make_witness, read_witness
from portal.torture.yard import SECOND, Yard
from scheduler.invariants.rows import Row

_PATIENCE_S = 60.0
# Together no more than the quota of the smallest yard.
_JOBS = 2


def restore(yard: Yard, folder: Path) -> dict[str, Any]:
    """Back up while jobs run, let others begin, put the rows back, wait until all has ended.

    What the programs wrote down of it, in files of its own: `starts` by fence and rank, `clashes`
    and `left`, locks that were held where they must not be.
    """
    witness = make_witness(folder / "restored")
    dump = folder / "rows.dump"
    _begin(yard, witness, "known")
    _postgres("pg_dump", "-Fc", "-f", str(dump), "-d", yard.database)
    _begin(yard, witness, "unknown")
    servers = (BEAT, BACKGROUND, SECOND, SCHEDULER, WEB)
    for name in servers:
        yard.supervisor.stop_program(name)
    _put_back(yard.database, dump)
    # As `deploy/README.md` tells operators.
    python(dict(yard.environment()), "manage.py", "restored")
    for name in reversed(servers):
        yard.supervisor.start_program(name)
    yard.wait_ready()
    patience_s = 2 * yard.timers.lost_after_s + _PATIENCE_S
    overdue = aftermath.wait_for_the_end(yard.database, patience_s)
    held = aftermath.locks_still_held(witness / "locks")
    facts = read_witness(witness)
    return {
        "starts": [(fact["fence"], fact["rank"]) for fact in _told(facts, "start")],
        "clashes": [fact["what"] for fact in _told(facts, "clash")],
        "left": [*held, *(f"job {job}, {state} to the end," for job, state in overdue)],
    }


def _begin(yard: Yard, witness: Path, name: str) -> None:
    """Submit some jobs that last, and wait until one of them runs."""
    headers = {"Authorization": f"Bearer {yard.api_tokens['alice']}"}
    jobs: set[int] = set()
    with httpx.Client(base_url=f"{yard.address}/api/v1", headers=headers, timeout=60) as api:
        for number in range(_JOBS):
            dice, key = random.Random(f"{name}-{number}"), f"restore-{name}-{number}"
            sent = draw_job(dice, witness, key, longest_s=12.0, only=("lasting",))
            jobs.add(int(api.post("/jobs/", json=sent).raise_for_status().json()["id"]))
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        if any(fact["job"] in jobs for fact in _told(read_witness(witness), "start")):
            return
        time.sleep(0.2)
    raise TimeoutError(f"none of the {name} jobs began within {_PATIENCE_S:.0f} s")


def _put_back(database: str, dump: Path) -> None:
    server, _, name = database.rpartition("/")
    with psycopg.connect(f"{server}/postgres", autocommit=True) as line:
        line.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
        line.execute(f'CREATE DATABASE "{name}"')
    _postgres("pg_restore", "--exit-on-error", "-d", database, str(dump))


def _postgres(program: str, *words: str) -> None:
    subprocess.run([find_binaries() / program, *words], check=True, capture_output=True)


def _told(facts: list[Row], kind: str) -> list[Row]:
    return [fact for fact in facts if fact["kind"] == kind]
