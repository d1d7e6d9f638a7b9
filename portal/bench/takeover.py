"""Two schedulers, the one at work killed: how long until the other starts jobs."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

from portal.bench.figures import add_database, client, machine, nodes_of, percentile, tell
from portal.bench.witness import (
    SCRIPT,
    make_witness_folder,
    read_starts,
    submit_one,
    verdict,
    wait_for_all,
)
from portal.embedded import programs
from portal.embedded.places import ROOT
from portal.embedded.programs import SCHEDULER
from portal.embedded.stack import Stack
from portal.embedded.temporary import temporary_stack

MOST = {"rounds": 1_000}
PATIENCE_S = 60.0
GPUS = 8
BACKLOG = 2 * GPUS


def add_arguments(parser: ArgumentParser) -> None:
    """Of `bench takeover`."""
    add_database(parser)
    parser.add_argument("--rounds", type=int, default=5, help="default %(default)s")


def run(options: dict[str, Any]) -> dict[str, Any]:
    """In each round: a backlog, `kill -9` of the scheduler at work, the next start of a job.

    takeover_s counts from the kill to the first instruction of a job that waited for it.
    """
    nodes = nodes_of(1, GPUS)
    stack_of = temporary_stack(tell=tell, nodes=nodes, database=options["database"])
    with stack_of as stack, client(stack) as api:
        folder = make_witness_folder(stack.places.state.parent)
        script = SCRIPT.format(folder=folder, seconds=0.5)
        stack.supervisor.stop_program(SCHEDULER)
        with contextlib.ExitStack() as running:
            at_work = running.enter_context(_scheduler(stack, 0))
            # Whoever starts a job has the lease, and keeps it until it dies.
            wait_for_all(api, [submit_one(api, 0, "true")])
            acknowledged: list[int] = []
            takeover_s: list[float] = []
            states: dict[int, str] = {}
            for number in range(1, options["rounds"] + 1):
                standby = running.enter_context(_scheduler(stack, number))
                jobs = [submit_one(api, each, script) for each in range(BACKLOG)]
                killed_at = time.time()
                at_work.kill()
                at_work.wait()
                # Some had been started before; this one cannot have been.
                jobs.append(submit_one(api, BACKLOG, script))
                acknowledged += jobs
                states |= wait_for_all(api, jobs)
                began = next(each.at_s for each in read_starts(folder) if each.job == jobs[-1])
                takeover_s.append(round(began - killed_at, 2))
                tell(f"round {number}: {takeover_s[-1]} s")
                at_work = standby
        starts = read_starts(folder)
    return {
        "bench": "takeover",
        "rounds": options["rounds"],
        "p50_s": percentile(takeover_s, 0.5),
        "max_s": max(takeover_s),
        "takeover_s": takeover_s,
        "acknowledged": len(acknowledged),
        **verdict(acknowledged, states, starts),
        "database": options["database"],
        **machine(),
    }


@contextlib.contextmanager
def _scheduler(stack: Stack, number: int) -> Iterator[subprocess.Popen[bytes]]:
    """A scheduler of this stack, as supervisord would run it, but it stays dead once killed."""
    servers = programs.servers(stack.address, reloads=False)
    command = next(each.command for each in servers if each.name == SCHEDULER)
    words = [word.replace("scheduler@", f"scheduler-{number}@") for word in command]
    said = stack.places.logs / f"scheduler-{number}.log"
    with said.open("wb") as output:
        process = subprocess.Popen(
            programs.leashed(tuple(words), os.getpid()),
            cwd=ROOT,
            env=stack.environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while " ready." not in said.read_text(encoding="utf-8", errors="replace"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise TimeoutError(f"scheduler {number} did not come up: {said.read_text()[-500:]}")
            time.sleep(0.1)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
