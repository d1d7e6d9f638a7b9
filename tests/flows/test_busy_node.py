"""A node that calls a thousand times as fast as it can, and those beside it (B99)."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from portal.bench.load.fleet import enrol_agents
from scheduler.wire.codec import decode, encode
from scheduler.wire.messages import AGENT_VERSION, PROTOCOL, Refusal, SyncRequest

pytestmark = [pytest.mark.stack, pytest.mark.once, pytest.mark.timeout(240)]

CALLERS, CALLS = 8, 1000


def test_it_is_told_to_wait_and_nobody_else_waits(make_stack):
    stack = make_stack(TRAINYARD_NODE_CALLS_PER_MINUTE="120")
    (secret,) = enrol_agents(stack, 1)
    head = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
    told: Counter[int] = Counter()
    with stack.api("admin") as api:
        # It runs nothing.
        api.post("/nodes/sim-0/drain/").raise_for_status()

    def beat(_caller: int) -> None:
        with httpx.Client(base_url=stack.address, headers=head, timeout=60) as door:
            for _ in range(CALLS // CALLERS):
                message = SyncRequest(
                    PROTOCOL, AGENT_VERSION, "busy", "sim-0", 0, 0.0, sent_at=time.time()
                )
                reply = door.post("/api/agent/v1/sync", content=encode(message))
                told[reply.status_code] += 1
                if reply.status_code == 429:
                    assert decode(Refusal, reply.content).code == "too_many_calls"
                    assert int(reply.headers["Retry-After"]) >= 1

    with ThreadPoolExecutor(CALLERS) as callers:
        beats = [callers.submit(beat, number) for number in range(CALLERS)]
        done = stack.wait_for(stack.submit(script="echo beside")["id"])
        for each in beats:
            each.result()
    # A database that is busy is a 503, which agents try again.
    assert set(told) <= {200, 429, 503} and told[429] > 0 and told[200] >= 100, told
    assert done["state"] == "succeeded" and stack.log(done["id"]) == "beside"
    with stack.api("admin") as api:
        states = {name: api.get(f"/nodes/{name}/").json()["state"] for name in ("alpha", "beta")}
    assert states == {"alpha": "ready", "beta": "ready"}
