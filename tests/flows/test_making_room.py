"""An urgent job stops a normal one, with real agents and processes."""

from __future__ import annotations

import time

import pytest

from portal.embedded.programs import LocalNode

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

ONE_NODE = (LocalNode("alpha", 2, cpus=4, memory_mib=4096),)
# It says so when it is asked to stop, and then ends.
WORK = """trap 'echo asked to stop; exit 0' TERM
echo attempt $TRAINYARD_ATTEMPT
i=0; while [ $i -lt 6000 ]; do i=$((i+1)); sleep 0.1; done
"""


def test_an_urgent_job_gets_the_gpus_and_the_victim_comes_back(make_stack):
    stack = make_stack(ONE_NODE, TRAINYARD_PREEMPT="true", TRAINYARD_MIN_RUN_S="0")
    old = stack.submit(script=WORK, gpus_per_node=2, name="old", stop={"grace": "20s"})
    stack.wait_for(old["id"], "running")
    urgent = stack.submit(script="echo hello", gpus_per_node=2, name="urgent", tier="urgent")
    done = stack.wait_for(urgent["id"], timeout_s=120)
    assert done["state"] == "succeeded"
    again = stack.wait_for(old["id"], "running", timeout_s=120)
    assert again["queued_at"] == old["queued_at"]
    with stack.api() as api:
        first, second = sorted(
            api.get(f"/jobs/{old['id']}/attempts/").json()["items"], key=lambda a: a["number"]
        )
        told = [event["kind"] for event in api.get(f"/jobs/{urgent['id']}/events/").json()["items"]]
    assert f"room for job {urgent['id']};" in first["end_sentence"]
    assert (first["end_reason"], second["state"]) == ("preempted", "running")
    assert "room_ordered" in told and told.index("room_ordered") < told.index("assigned")
    assert "asked to stop" in _log_of(stack, old["id"], 1)
    with stack.api() as api:
        assert api.post(f"/jobs/{old['id']}/cancel/").status_code == 200
    assert stack.wait_for(old["id"])["state"] == "cancelled"


def _log_of(stack, job_id: int, attempt: int) -> str:
    deadline = time.monotonic() + 30
    with stack.api() as api:
        while True:
            reply = api.get(f"/jobs/{job_id}/log/", params={"attempt": attempt})
            if reply.status_code == 200 and "asked" in reply.text:
                return reply.text
            assert time.monotonic() < deadline, reply.text
            time.sleep(0.2)
