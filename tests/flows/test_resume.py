"""A real training loop, stopped and resumed through the real doors, loses nothing it had saved."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time

import pytest

from portal.embedded.places import ROOT
from portal.embedded.programs import LocalNode

pytestmark = [pytest.mark.stack, pytest.mark.once, pytest.mark.timeout(240)]

SAMPLE = ROOT / "deploy/samples/resume/train.py"
STEPS = 120
_LOSS = re.compile(r"^step (\d+) loss (\S+)$", re.MULTILINE)


def losses(text):
    return {int(step): float(loss) for step, loss in _LOSS.findall(text)}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """The losses of the same program run in one go, without Trainyard."""
    done = subprocess.run(
        [sys.executable, str(SAMPLE)],
        cwd=tmp_path_factory.mktemp("alone"),
        env={"PATH": os.environ["PATH"], "STEPS": str(STEPS), "STEP_S": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = losses(done.stdout)
    assert len(found) == STEPS
    return found


def _submit(stack, **fields):
    return stack.submit(
        script=SAMPLE.read_text(encoding="utf-8"),
        env={"STEPS": str(STEPS), "STEP_S": "0.1", "SAVE_EVERY": "1000"},
        stop={"grace": "20s"},
        **fields,
    )["id"]


def _get(stack, path, **params):
    with stack.api() as api:
        reply = api.get(path, params=params)
        assert reply.status_code == 200, reply.text
        return reply.json()


def _act(stack, job, action):
    with stack.api() as api:
        reply = api.post(f"/jobs/{job}/{action}/")
        assert reply.status_code == 200, reply.text


def _log(stack, job, attempt):
    """Nothing as long as the attempt has not begun."""
    with stack.api() as api:
        reply = api.get(f"/jobs/{job}/log/", params={"attempt": attempt})
    assert reply.status_code in (200, 404), reply.text
    return "\n".join(reply.json()["lines"]) if reply.status_code == 200 else ""


def _wait_for_step(stack, job, attempt, steps):
    deadline = time.monotonic() + 60
    while len(losses(_log(stack, job, attempt))) < steps:
        assert time.monotonic() < deadline, "the program makes no steps"
        time.sleep(0.1)


def _attempts(stack, job):
    return _get(stack, f"/jobs/{job}/attempts/")["items"]


def _all_losses(stack, job, count):
    """Step by step over all attempts; no step may have been computed twice."""
    found = {}
    for number in range(1, count + 1):
        of_attempt = losses(_log(stack, job, number))
        assert not found.keys() & of_attempt.keys()
        found |= of_attempt
    return found


def _preempt(stack, job):
    """A job of a higher tier wants the only GPU: the scheduler's own plan stops who has it."""
    urgent = stack.submit(script="sleep 1", tier="urgent", name="urgent")["id"]
    assert stack.wait_for(urgent)["state"] == "succeeded"
    told = [one["detail"] for one in _events(stack, job) if one["kind"] == "stop_requested"]
    assert [(one["reason"], one["beneficiary"]) for one in told] == [("preempted", urgent)]
    (ordered,) = (one for one in _events(stack, urgent) if one["kind"] == "room_ordered")
    assert ordered["detail"]["victims"] == [job]


def _events(stack, job):
    return _get(stack, f"/jobs/{job}/events/")["items"]


def test_preempted_and_paused_it_has_the_losses_of_an_uninterrupted_run(make_stack, uninterrupted):
    stack = make_stack(
        nodes=(LocalNode("alpha", 1, cpus=4, memory_mib=8192),),
        TRAINYARD_MIN_RUN_S="0",
        TRAINYARD_REST_S="0",
    )
    job = _submit(stack)
    stack.wait_for(job, "running")
    _wait_for_step(stack, job, 1, 10)
    _preempt(stack, job)
    _wait_for_step(stack, job, 2, 10)
    _act(stack, job, "pause")
    held = stack.wait_for(job, "held")
    assert held["shown_state"] == "paused"
    assert "it resumes from step" in held["wait"]["sentence"]
    assert _get(stack, "/pools/")["items"][0]["free"] == 1
    _act(stack, job, "resume")
    done = stack.wait_for(job)

    first, second, third = _attempts(stack, job)
    assert done["state"] == "succeeded"
    assert (first["end_reason"], second["end_reason"]) == ("preempted", "paused_by_user")
    for attempt, after in ((first, second), (second, third)):
        # It saved when it was asked to stop, so only the moments of its last step are lost.
        assert attempt["lost_s"] <= 2
        assert after["resume_step"] == attempt["checkpoint"]["step"] > 0
        assert after["resume_problem"] == ""
    assert done["queued_at"] == held["queued_at"]
    assert done["checkpoint"]["step"] == STEPS

    found = _all_losses(stack, job, 3)
    assert found.keys() == uninterrupted.keys()
    worst = max(abs(found[step] - loss) for step, loss in uninterrupted.items())
    assert worst <= 1e-6, worst


def test_without_a_shared_folder_another_node_starts_anew_and_says_so(make_stack):
    two = tuple(LocalNode(name, 1, cpus=4, memory_mib=8192) for name in ("alpha", "beta"))
    stack = make_stack(nodes=two)
    job = _submit(stack)
    stack.wait_for(job, "running")
    _wait_for_step(stack, job, 1, 5)
    (first,) = _attempts(stack, job)
    _act(stack, job, "pause")
    stack.wait_for(job, "held")
    with stack.api("admin") as api:
        assert api.post(f"/nodes/{first['ranks'][0]['node']}/drain/").status_code == 200
    _act(stack, job, "resume")
    stack.wait_for(job, "running")
    _wait_for_step(stack, job, 2, 1)
    second = _attempts(stack, job)[1]
    assert second["ranks"][0]["node"] != first["ranks"][0]["node"]
    assert second["resume_step"] is None
    assert "lies on node" in second["resume_problem"]
    assert _log(stack, job, 2).startswith("a fresh start")
    _act(stack, job, "cancel")
    assert stack.wait_for(job)["state"] == "cancelled"
