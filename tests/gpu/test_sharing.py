"""Slots of a real card: jobs that take turns on it, and jobs whose share MPS enforces."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from scheduler.agent.gpus import NvmlGpus
from scheduler.states import DeviceHealth
from tests.gpu.conftest import NODE, ON_CARD
from tests.gpu.seeing import said, seen
from tests.servers import LiveStack

pytestmark = [pytest.mark.gpu, pytest.mark.stack, pytest.mark.timeout(240)]

PROGRAM = ON_CARD.read_text(encoding="utf-8")
# Where the daemon and its clients meet by default.
PIPES = Path("/tmp/nvidia-mps")


def post_signed_in(stack: LiveStack, who: str, path: str, **body: str) -> dict[str, Any]:
    """What people do, not programs: prices."""
    with closing(stack.browser(who)) as person:
        token = {"X-CSRFToken": person.cookies["csrftoken"]}
        reply = person.post(f"/api/v1{path}", json=body, headers=token)
        assert reply.is_success, reply.text
        found: dict[str, Any] = reply.json()
        return found


@pytest.fixture(scope="module")
def priced(gpu_stack: LiveStack, gpus: NvmlGpus) -> None:
    """Half a card has a price of its own, without which nobody may offer it."""
    model = f"{gpus.inventory()[0].model} 1/2"
    rate = post_signed_in(
        gpu_stack, "admin", "/rates/", device_model=model, price_per_gpu_hour="1.80", currency="EUR"
    )
    post_signed_in(gpu_stack, "frida", f"/rates/{rate['id']}/approve/")


@contextmanager
def cut(stack: LiveStack, isolation: str) -> Iterator[None]:
    """The first card in two slots, whole again afterwards."""
    with stack.api("olga") as api:
        address = f"/nodes/{NODE.name}/gpus/0/"
        reply = api.post(address, json={"action": "cut", "slots": 2, "isolation": isolation})
        assert reply.status_code == 200, reply.text
        assert [one["milli"] for one in reply.json()["devices"]].count(500) == 2
        try:
            yield
        finally:
            whole = api.post(address, json={"action": "cut", "slots": 1})
            assert whole.status_code == 200, whole.text


def start(stack: LiveStack, **env: str) -> int:
    job: int = stack.submit(script=PROGRAM, gpu_milli="0.5", env=env)["id"]
    return job


def wait_for_line(stack: LiveStack, job: int, word: str) -> None:
    deadline = time.monotonic() + 60
    stack.wait_for(job, "running", "failed")
    while word not in stack.log(job):
        assert time.monotonic() < deadline, stack.log(job)
        time.sleep(0.2)


def check_both_at_once(stack: LiveStack, gpus: NvmlGpus) -> None:
    """Two jobs hold memory of the one card at the same time; it is well afterwards."""
    jobs = [start(stack, MIB="2048", SECONDS="12") for _ in range(2)]
    for job in jobs:
        wait_for_line(stack, job, "holds")
    with stack.api() as api:
        assert {api.get(f"/jobs/{job}/").json()["state"] for job in jobs} == {"running"}
    for job in jobs:
        assert stack.wait_for(job)["state"] == "succeeded", stack.log(job)
        assert seen(stack.log(job)) == [gpus.inventory()[0].uuid]
    # A look or two later: nothing of theirs is held against the card.
    time.sleep(6)
    with stack.api("olga") as api:
        devices = api.get(f"/nodes/{NODE.name}/").json()["devices"]
    assert {one["health"] for one in devices} == {DeviceHealth.HEALTHY}, devices


def test_two_jobs_take_turns_on_one_card(
    gpu_stack: LiveStack, gpus: NvmlGpus, priced: None
) -> None:
    with cut(gpu_stack, "timeslice"):
        check_both_at_once(gpu_stack, gpus)


@pytest.fixture
def mps(gpus: NvmlGpus) -> Iterator[None]:
    """The daemon, one server for all users: each attempt is a user of its own."""
    control = shutil.which("nvidia-cuda-mps-control")
    if control is None:
        pytest.skip("needs nvidia-cuda-mps-control, which comes with the driver")
    if PIPES.exists():
        pytest.skip(f"an MPS daemon has been at work here: {PIPES} exists")
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": gpus.inventory()[0].uuid}
    subprocess.run([control, "-d", "-multiuser-server"], env=environment, check=True, timeout=60)
    try:
        yield
    finally:
        subprocess.run([control], input="quit\n", text=True, check=False, timeout=60)
        shutil.rmtree(PIPES, ignore_errors=True)


def test_mps_lets_two_users_at_a_card_and_holds_them_to_their_memory(
    gpu_stack: LiveStack, gpus: NvmlGpus, priced: None, mps: None
) -> None:
    with cut(gpu_stack, "mps"):
        check_both_at_once(gpu_stack, gpus)
        greedy = start(gpu_stack, MIB=str(gpus.inventory()[0].memory_mib * 2 // 3), SECONDS="1")
        assert gpu_stack.wait_for(greedy)["state"] == "failed"
        # 2: out of memory, though two thirds of the card are free.
        assert "cuMemAlloc_v2 answers with CUDA error 2" in gpu_stack.log(greedy)
        assert said("sees", gpu_stack.log(greedy))
