"""A running job gives a node to an urgent one and gets it back, with real agents and processes."""

from __future__ import annotations

import time

import pytest

from portal.embedded.programs import LocalNode

pytestmark = [pytest.mark.stack, pytest.mark.once, pytest.mark.timeout(600)]

TWO_NODES = tuple(LocalNode(name, 1, cpus=2, memory_mib=2048) for name in ("alpha", "beta"))
# It saves nothing and ends when it is asked to; it would run for an hour.
WORK = """trap 'exit 0' TERM
i=0; while [ $i -lt 36000 ]; do i=$((i+1)); sleep 0.1; done
"""


def test_it_goes_on_with_one_node_and_with_both_again(make_stack):
    stack = make_stack(TWO_NODES, TRAINYARD_MIN_RUN_S="0", TRAINYARD_REST_S="0")
    elastic = stack.submit(
        script=WORK, nodes="1..2", gpus_per_node=1, name="elastic", time_limit="4h"
    )
    stack.wait_for(elastic["id"], "running")
    assert placed(stack, elastic, 1) == 2
    urgent = stack.submit(script="sleep 1", gpus_per_node=1, name="urgent", tier="urgent")
    assert stack.wait_for(urgent["id"], timeout_s=120)["state"] == "succeeded"
    wait_for_third(stack, elastic)
    assert [placed(stack, elastic, number) for number in (1, 2, 3)] == [2, 1, 2]
    first, second, _ = attempts_of(stack, elastic)
    assert (first["end_reason"], second["end_reason"]) == ("resized", "resized")
    assert f"1 instead of 2 nodes, to make room for job {urgent['id']}." in first["end_sentence"]
    assert "2 instead of 1 nodes, as nobody waits for the others." in second["end_sentence"]
    with stack.api() as api:
        job = api.get(f"/jobs/{elastic['id']}/").json()
        assert job["queued_at"] == elastic["queued_at"]
        assert api.post(f"/jobs/{elastic['id']}/cancel/").status_code == 200
    assert stack.wait_for(elastic["id"])["state"] == "cancelled"


def wait_for_third(stack, job) -> None:
    """Until its third attempt runs."""
    deadline = time.monotonic() + 120
    while (attempts := attempts_of(stack, job))[-1]["number"] < 3:
        assert time.monotonic() < deadline, attempts
        time.sleep(0.2)
    stack.wait_for(job["id"], "running", timeout_s=120)


def attempts_of(stack, job):
    with stack.api() as api:
        items = api.get(f"/jobs/{job['id']}/attempts/").json()["items"]
    return sorted(items, key=lambda attempt: attempt["number"])


def placed(stack, job, number: int) -> int:
    """On how many nodes an attempt ran or runs."""
    return len(attempts_of(stack, job)[number - 1]["ranks"])
