"""The process behind `bench loop`: it has a database of its own, fills it and runs cycles."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection
from django.utils import timezone

from accounts.models import User
from accounts.selectors import person_named
from portal.bench.figures import POOL, PROJECT, percentile, tell
from scheduler.loop.cycle import CycleOutcome, Scheduler
from scheduler.models import Node
from scheduler.selectors.cluster import get_visible_pool
from scheduler.services.bulk import MAX_JOBS, submit_jobs
from scheduler.services.nodes import authenticate_node, enrol_node, issue_node_token
from scheduler.services.sync import sync_node
from scheduler.spec import JobSpec, parse_spec
from scheduler.states import AttemptState, EndReason
from scheduler.wire.messages import (
    PROTOCOL,
    AttemptReport,
    DeviceFacts,
    EnrolRequest,
    HostFacts,
    SyncReply,
    SyncRequest,
)

GPUS = 8
WARM_UP = 3
HEARTBEAT_S = 10.0
PHASES = ("duration_ms", "load_ms", "plan_ms", "commit_ms")


def main() -> None:
    """Fill, run the first cycles, then cycles in which one job has ended and one has come."""
    sizes = json.loads(sys.argv[1])
    root, alice = _person("admin"), _person("alice")
    tell(f"enrolling {sizes['nodes']} nodes")
    nodes = [_enrol(root, number) for number in range(sizes["nodes"])]
    tell(f"submitting {sizes['nodes'] + sizes['pending']} jobs")
    _submit(alice, [_spec(GPUS, number) for number in range(sizes["nodes"])])
    _submit(alice, [_spec(2 ** (number % 4), number) for number in range(sizes["pending"])])
    scheduler = Scheduler(holder="bench")
    heartbeats = _Heartbeats(nodes)
    heartbeats.send()
    first = _first_cycles(scheduler, sizes["nodes"])
    tell(f"{sizes['cycles']} cycles, one job ends and one comes before each")
    outcomes, statements = [], []
    for turn in range(WARM_UP + sizes["cycles"]):
        heartbeats.send()
        _finish_all(nodes[turn % len(nodes)])
        _submit(alice, [_spec(GPUS, turn)])
        with _counting() as count:
            outcomes.append(scheduler.run_cycle(timezone.now()))
        statements.append(count())
    scheduler.release(timezone.now())
    print(json.dumps(_figures(first, outcomes[WARM_UP:], statements[WARM_UP:])))


def _figures(
    first: CycleOutcome, outcomes: list[CycleOutcome], statements: list[int]
) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for phase in PHASES:
        values = [getattr(outcome, phase) for outcome in outcomes]
        shown["cycle_ms" if phase == "duration_ms" else phase] = {
            "p50": percentile(values, 0.5),
            "p95": percentile(values, 0.95),
        }
    return {
        **shown,
        "first_cycle_ms": round(first.duration_ms, 1),
        "first_cycle_started": first.started,
        "statements": max(statements),
        "started_per_cycle": sum(o.started for o in outcomes) / len(outcomes),
        "reasons_per_cycle": sum(o.reasons for o in outcomes) / len(outcomes),
    }


def _person(username: str) -> User:
    found = person_named(username)
    assert found is not None
    return found


def _enrol(root: User, number: int) -> Node:
    name = f"n{number:05d}"
    _, secret = issue_node_token(actor=root, pool=get_visible_pool(root, POOL))
    reply = enrol_node(
        request=EnrolRequest(
            token=secret,
            name=name,
            protocol=PROTOCOL,
            agent_version="bench",
            boot_id="boot",
            host=HostFacts(cpus=64, memory_mib=512_000, scratch_mib=100_000, address="127.0.0.1"),
            devices=tuple(
                DeviceFacts(
                    uuid=f"GPU-SIM-{name}-{index}",
                    index=index,
                    model="NVIDIA H100 80GB HBM3",
                    memory_mib=81_920,
                    simulated=True,
                )
                for index in range(GPUS)
            ),
        )
    )
    node = authenticate_node(reply.node_token)
    assert node is not None
    return node


def _spec(gpus: int, number: int) -> JobSpec:
    return parse_spec(
        {
            "name": f"bench-{number}",
            "project": PROJECT,
            "command": ["/bin/true"],
            "gpus_per_node": gpus,
            "memory": "1GiB",
            "time_limit": f"{1 + number % 24}h",
        }
    )


def _submit(alice: User, specs: list[JobSpec]) -> None:
    for first in range(0, len(specs), MAX_JOBS):
        submit_jobs(actor=alice, specs=specs[first : first + MAX_JOBS])


def _first_cycles(scheduler: Scheduler, nodes: int) -> CycleOutcome:
    """The first cycle alone fills the cluster; what it leaves over, the next ones do."""
    first = scheduler.run_cycle(timezone.now())
    tell(f"first cycle: {first.started} started in {first.duration_ms:.0f} ms")
    started = first.started
    while started < nodes:
        outcome = scheduler.run_cycle(timezone.now())
        if not outcome.started:
            break
        started += outcome.started
    return first


def call_of(node: Node, *reports: AttemptReport) -> SyncReply:
    """What a node is answered that reports this, without a network between."""
    reply = sync_node(
        node=node,
        request=SyncRequest(
            protocol=PROTOCOL,
            agent_version="bench",
            agent_id="bench",
            boot_id="boot",
            seen_revision=0,
            hold_s=0,
            sent_at=time.time(),
            reports=reports,
        ),
    )
    assert reply is not None
    return reply


class _Heartbeats:
    """Every node is heard again in time, as its held call would see to."""

    def __init__(self, nodes: list[Node]) -> None:
        self._nodes = nodes
        self._sent_at = 0.0

    def send(self) -> None:
        if time.monotonic() - self._sent_at > HEARTBEAT_S:
            for node in self._nodes:
                call_of(node)
            self._sent_at = time.monotonic()


def _finish_all(node: Node) -> None:
    """What runs on the node ends well."""
    ended = [
        AttemptReport(
            fence=assignment.fence,
            rank=assignment.rank,
            state=AttemptState.ENDED,
            started_at=time.time(),
            exit_code=0,
            end_reason=EndReason.COMPLETED,
        )
        for assignment in call_of(node).assignments
    ]
    call_of(node, *ended)


@contextmanager
def _counting() -> Iterator[Callable[[], int]]:
    """How many statements the block sends to the database."""
    seen = 0

    def count(execute: Any, *words: Any) -> Any:
        nonlocal seen
        seen += 1
        return execute(*words)

    with connection.execute_wrapper(count):
        yield lambda: seen
