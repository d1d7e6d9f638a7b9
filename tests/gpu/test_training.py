"""Training on a real card, stopped and resumed: the losses of a run in one go."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import time

import pytest

from tests.servers import LiveStack
from tests.torch import SAMPLE, losses

pytestmark = [pytest.mark.gpu, pytest.mark.stack, pytest.mark.timeout(420)]

STEPS = 60
SETTINGS = {"STEPS": str(STEPS), "SAVE_EVERY": "1000"}
ALONE = {
    "RANK": "0",
    "WORLD_SIZE": "1",
    "LOCAL_RANK": "0",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29513",
    "STEP_S": "0",
}


@functools.cache
def python_with_cuda() -> str:
    """An interpreter of this host that trains on its cards."""
    asked = "import torch, sys; sys.exit(not torch.cuda.is_available())"
    folders = [*os.environ["PATH"].split(":"), "/usr/bin"]
    found = [f"{folder}/python3" for folder in folders if os.access(f"{folder}/python3", os.X_OK)]
    for python in dict.fromkeys([sys.executable, *found]):
        done = subprocess.run([python, "-c", asked], capture_output=True, check=False, timeout=300)
        if done.returncode == 0:
            return python
    pytest.skip("no Python on the PATH has a PyTorch that sees a card")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[int, float]:
    """The same program on the same card, without Trainyard."""
    done = subprocess.run(
        [python_with_cuda(), str(SAMPLE)],
        cwd=tmp_path_factory.mktemp("alone"),
        env={
            "PATH": os.environ["PATH"],
            **SETTINGS,
            **ALONE,
            "MASTER_PORT": "29513",
            "STEP_S": "0",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "on cuda:0 with nccl" in done.stdout
    found = losses(done.stdout)
    assert len(found) == STEPS
    return found


def _log(stack: LiveStack, job: int, attempt: int) -> str:
    """Nothing as long as the attempt has not begun."""
    with stack.api() as api:
        reply = api.get(f"/jobs/{job}/log/", params={"attempt": attempt})
    return "\n".join(reply.json()["lines"]) if reply.status_code == 200 else ""


def _wait_for_steps(stack: LiveStack, job: int, attempt: int, steps: int) -> None:
    deadline = time.monotonic() + 120
    while len(losses(_log(stack, job, attempt))) < steps:
        assert time.monotonic() < deadline, _log(stack, job, attempt)
        time.sleep(0.2)


def test_paused_and_resumed_torchrun_has_the_losses_of_one_go(
    gpu_stack: LiveStack, uninterrupted: dict[int, float]
) -> None:
    # The text goes along: the job's own user may not read this checkout.
    run = f"cat > train.py <<'END'\n{SAMPLE.read_text(encoding='utf-8')}\nEND\n"
    run += f"exec {python_with_cuda()} -m torch.distributed.run train.py\n"
    job = gpu_stack.submit(
        script=f"#!/bin/sh\n{run}",
        env={**SETTINGS, "STEP_S": "0.2"},
        stop={"grace": "30s"},
        memory="8GiB",
    )["id"]
    gpu_stack.wait_for(job, "running")
    _wait_for_steps(gpu_stack, job, 1, 8)
    with gpu_stack.api() as api:
        assert api.post(f"/jobs/{job}/pause/").status_code == 200
        gpu_stack.wait_for(job, "held")
        assert api.post(f"/jobs/{job}/resume/").status_code == 200
        done = gpu_stack.wait_for(job)
        assert done["state"] == "succeeded", _log(gpu_stack, job, 2)
        first, second = api.get(f"/jobs/{job}/attempts/").json()["items"]
    assert first["end_reason"] == "paused_by_user"
    assert second["resume_step"] == first["checkpoint"]["step"] >= 8
    parts = [losses(_log(gpu_stack, job, number)) for number in (1, 2)]
    assert not parts[0].keys() & parts[1].keys()
    found = parts[0] | parts[1]
    assert found.keys() == uninterrupted.keys()
    worst = max(abs(found[step] - loss) for step, loss in uninterrupted.items())
    print(f"the losses differ by {worst:g} at most")
    assert worst <= 1e-6, worst
