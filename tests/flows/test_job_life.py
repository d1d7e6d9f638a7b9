"""A job's whole life through the real doors: web server, broker, workers, two agents, processes."""

from __future__ import annotations

import os
import signal
import time
import xmlrpc.client
from decimal import Decimal

import psutil
import pytest

pytestmark = [pytest.mark.stack, pytest.mark.timeout(240)]

COUNT = """i=0
while [ $i -lt {n} ]; do i=$((i+1)); echo line $i; sleep {pause}; done
"""


def _get(stack, path, username="alice", **params):
    with stack.api(username) as api:
        reply = api.get(path, params=params)
        assert reply.status_code == 200, reply.text
        return reply.json()


def _wait_until(what, timeout_s=30.0):
    deadline = time.monotonic() + timeout_s
    while not (found := what()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)
    return found


def test_submit_run_log_metrics_success_cost(stack):
    job = stack.submit(script=COUNT.format(n=24, pause=0.2), gpus_per_node=2)
    done = stack.wait_for(job["id"])
    assert (done["state"], done["end"]["exit_code"]) == ("succeeded", 0)
    assert stack.log(job["id"]).splitlines() == [f"line {n}" for n in range(1, 25)]

    series = _get(stack, f"/jobs/{job['id']}/samples/")["items"]
    assert len(series) == 2
    assert all(one["is_simulated"] and len(one["at"]) >= 2 for one in series)

    cost = _get(stack, f"/jobs/{job['id']}/cost/")
    assert cost["is_final"]
    assert cost["gpu_seconds"] >= 8
    price = Decimal(cost["lines"][0]["unit_price"])
    assert Decimal(cost["cost"]).quantize(Decimal("0.000001")) == (
        cost["gpu_seconds"] * price / 3600
    ).quantize(Decimal("0.000001"))

    events = [e["to_state"] for e in _get(stack, f"/jobs/{job['id']}/events/")["items"]]
    assert [e for e in events if e] == ["queued", "starting", "running", "succeeded"]


def test_a_failing_program_fails_the_job_with_its_code(stack):
    job = stack.submit(script="echo before; exit 7")
    done = stack.wait_for(job["id"])
    assert (done["state"], done["end"]["exit_code"]) == ("failed", 7)
    assert "exit code 7" in done["end"]["sentence"]


def test_cancel_stops_the_program_and_everything_it_left_behind(stack):
    marker = f"trainyard-left-{os.getpid()}-{time.time_ns()}"
    left_behind = f"setsid sh -c 'exec -a {marker} sleep 600' &"
    script = f"{left_behind}\ntrap '' TERM\nexec -a {marker} sleep 600"
    job = stack.submit(
        command=["/bin/bash", "-c", script], stop={"signal": "SIGTERM", "grace": "1s"}
    )
    stack.wait_for(job["id"], "running")
    _wait_until(lambda: _named(marker))
    with stack.api() as api:
        assert api.post(f"/jobs/{job['id']}/cancel/").status_code == 200
    done = stack.wait_for(job["id"])
    assert done["state"] == "cancelled"
    assert "alice" in done["end"]["sentence"].lower()
    assert not _named(marker)


def _named(marker):
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or [""]
        if words[0] == marker:
            found.append(process)
    return found


def test_a_gang_on_two_nodes_starts_whole_and_meets(stack):
    from portal.embedded.places import ROOT

    ring = (ROOT / "deploy/samples/gang/ring.py").read_text(encoding="utf-8")
    job = stack.submit(script=ring, nodes=2, gpus_per_node=2, processes="gpu")
    done = stack.wait_for(job["id"])
    logs = [stack.log(job["id"], rank=rank) for rank in (0, 1)]
    assert done["state"] == "succeeded", logs
    ranks = _get(stack, f"/jobs/{job['id']}/attempts/")["items"][0]["ranks"]
    assert {rank["node"] for rank in ranks} == {"alpha", "beta"}
    assert "WORLD_SIZE=4" in logs[0].replace(" ", "")


def test_one_failing_rank_takes_the_gang_down(stack):
    script = 'if [ "$RANK" = 1 ]; then sleep 1; exit 9; fi; sleep 600'
    job = stack.submit(script=script, nodes=2, stop={"grace": "1s"})
    done = stack.wait_for(job["id"])
    assert (done["state"], done["end"]["exit_code"]) == ("failed", 9)


def test_a_full_pool_makes_the_next_job_wait_and_say_why(stack):
    holders = [stack.submit(script="sleep 600", gpus_per_node=8) for _ in range(2)]
    for holder in holders:
        stack.wait_for(holder["id"], "running")
    waiting = stack.submit(script="true", gpus_per_node=4)
    why = _wait_until(lambda: _reason(stack, waiting["id"]))
    assert why["reason"] == "capacity_busy"
    assert why["facts"]["free"] == 0
    assert "0 of 16 GPUs" in why["sentence"]
    with stack.api() as api:
        for holder in holders:
            api.post(f"/jobs/{holder['id']}/cancel/")
    assert stack.wait_for(waiting["id"])["state"] == "succeeded"


def _reason(stack, job_id):
    wait = _get(stack, f"/jobs/{job_id}/why/")["wait"]
    return wait if wait and wait["reason"] != "evaluating" else None


def test_strangers_see_nothing_of_it(stack):
    job = stack.submit(script="echo secret")
    stack.wait_for(job["id"])
    with stack.api("carol") as api:
        for part in ("", "log/", "events/", "cost/", "samples/", "why/", "attempts/"):
            foreign = api.get(f"/jobs/{job['id']}/{part}")
            missing = api.get(f"/jobs/999999/{part}")
            assert foreign.status_code == missing.status_code == 404, part
            drop = {"request_id"}
            assert {k: v for k, v in foreign.json().items() if k not in drop} == {
                k: v for k, v in missing.json().items() if k not in drop
            }


def test_an_agent_killed_while_a_job_runs_adopts_it(make_stack):
    stack = make_stack()
    script = "echo start $$\n" + COUNT.format(n=40, pause=0.25)
    job = stack.submit(script=script)
    stack.wait_for(job["id"], "running")
    ranks = _get(stack, f"/jobs/{job['id']}/attempts/")["items"][0]["ranks"]
    program = f"node-{ranks[0]['node']}"
    _wait_until(lambda: "line 2" in stack.log(job["id"]))
    before = stack.supervisor.pid_of(program)
    os.kill(before, signal.SIGKILL)
    _wait_until(lambda: stack.supervisor.pid_of(program) not in (0, before))
    done = stack.wait_for(job["id"])
    lines = stack.log(job["id"]).splitlines()
    assert done["state"] == "succeeded"
    assert len([line for line in lines if line.startswith("start ")]) == 1
    assert lines[1:] == [f"line {n}" for n in range(1, 41)]
    assert len(_get(stack, f"/jobs/{job['id']}/attempts/")["items"]) == 1


def test_jobs_are_submitted_scheduled_and_run_without_the_broker(make_stack):
    stack = make_stack()
    holders = [stack.submit(script="sleep 4", gpus_per_node=8) for _ in range(2)]
    queued = stack.submit(script="echo ran", gpus_per_node=8)
    for holder in holders:
        stack.wait_for(holder["id"], "running", "succeeded")
    os.kill(stack.supervisor.pid_of("broker"), signal.SIGKILL)
    _wait_until(lambda: _is_kept_down(stack, "broker"))
    late = stack.submit(script="echo late")
    assert stack.wait_for(queued["id"])["state"] == "succeeded"
    assert stack.wait_for(late["id"])["state"] == "succeeded"
    assert stack.log(late["id"]) == "late"
    stack.supervisor.start_program("broker")
    assert stack.wait_for(stack.submit(script="true")["id"])["state"] == "succeeded"


def _is_kept_down(stack, program):
    """A program just killed is between two states for a moment and cannot be stopped then."""
    try:
        stack.supervisor.stop_program(program)
    except xmlrpc.client.Fault:
        return False
    return True
