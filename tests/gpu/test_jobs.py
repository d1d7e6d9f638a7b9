"""Jobs on real cards: what they see and use, what they leave, and who else is there."""

from __future__ import annotations

import os
import subprocess
import time
from typing import Any

import pytest

from scheduler.agent.gpus import NvmlGpus
from scheduler.states import DeviceHealth
from tests.gpu.conftest import NODE, ON_CARD
from tests.gpu.seeing import said, seen
from tests.servers import LiveStack

pytestmark = [pytest.mark.gpu, pytest.mark.stack, pytest.mark.timeout(240)]

PROGRAM = ON_CARD.read_text(encoding="utf-8")
PATIENCE_S = 60


def card(stack: LiveStack) -> dict[str, Any]:
    """The node's first card, as operators see it."""
    with stack.api("olga") as api:
        reply = api.get(f"/nodes/{NODE.name}/")
        assert reply.status_code == 200, reply.text
        first: dict[str, Any] = reply.json()["devices"][0]
        return first


def wait_for_health(stack: LiveStack, wanted: DeviceHealth) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_S
    while (now := card(stack))["health"] != wanted:
        assert time.monotonic() < deadline, now
        time.sleep(0.2)
    return now


def series(stack: LiveStack, job: int) -> dict[str, Any]:
    with stack.api() as api:
        reply = api.get(f"/jobs/{job}/samples/")
        assert reply.status_code == 200, reply.text
        (one,) = reply.json()["items"]
        found: dict[str, Any] = one
        return found


def run(stack: LiveStack, **fields: Any) -> dict[str, Any]:
    """The ended job, which has to have succeeded."""
    job = stack.submit(script=PROGRAM, **fields)["id"]
    done = stack.wait_for(job, timeout_s=PATIENCE_S)
    assert done["state"] == "succeeded", stack.log(job)
    return done


def test_the_node_shows_its_real_cards(gpu_stack: LiveStack, gpus: NvmlGpus) -> None:
    first, known = card(gpu_stack), gpus.inventory()[0]
    assert not first["is_simulated"] and first["health"] == DeviceHealth.HEALTHY
    assert (first["uuid"], first["model"]) == (known.uuid, known.model)
    assert first["memory_mib"] == known.memory_mib


def test_a_job_uses_its_card_and_its_charts_show_it(gpu_stack: LiveStack, gpus: NvmlGpus) -> None:
    job = run(gpu_stack, env={"MIB": "4096", "SECONDS": "8"})["id"]
    one = series(gpu_stack, job)
    assert seen(gpu_stack.log(job)) == [one["uuid"]] and one["uuid"] == gpus.inventory()[0].uuid
    assert not one["is_simulated"]
    assert max(one["memory_used_mib"]) >= 4096
    assert max(one["gpu_percent"]) > 50
    assert max(one["power_watts"]) > 20 and max(one["temperature_c"]) > 10


def test_a_job_without_cards_sees_none(gpu_stack: LiveStack) -> None:
    assert seen(gpu_stack.log(run(gpu_stack, gpus_per_node=0)["id"])) == []


def test_what_a_job_leaves_on_a_card_is_ended_with_it(gpu_stack: LiveStack) -> None:
    job = run(gpu_stack, env={"MIB": "3000", "SECONDS": "600", "LEAVES": "1"})["id"]
    assert said("holds", gpu_stack.log(job)) == ["3000"]
    after = run(gpu_stack, env={"MIB": "1000", "SECONDS": "3"})["id"]
    # The one left behind would be in these readings.
    assert max(series(gpu_stack, after)["memory_used_mib"]) < 3000
    assert card(gpu_stack)["health"] == DeviceHealth.HEALTHY


def test_a_strangers_program_takes_the_card_out_until_a_check_passes(
    gpu_stack: LiveStack, on_card: tuple[str, ...]
) -> None:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": card(gpu_stack)["uuid"]}
    environment |= {"MIB": "2048", "SECONDS": "240"}
    with subprocess.Popen(on_card, env=environment, stdout=subprocess.DEVNULL) as stranger:
        try:
            out = wait_for_health(gpu_stack, DeviceHealth.QUARANTINED)
            assert str(stranger.pid) in out["health_reason"], out
        finally:
            stranger.kill()
    with gpu_stack.api("olga") as api:
        reply = api.post(f"/nodes/{NODE.name}/gpus/{out['index']}/", json={"action": "check"})
        assert reply.status_code == 200, reply.text
    wait_for_health(gpu_stack, DeviceHealth.HEALTHY)
    run(gpu_stack)


def test_a_programs_own_fault_does_not_take_the_card_out(gpu_stack: LiveStack) -> None:
    job = gpu_stack.submit(script=PROGRAM, env={"FAULTS": "1"})["id"]
    done = gpu_stack.wait_for(job, timeout_s=PATIENCE_S)
    # 700: an illegal address; the driver tells Xid 31.
    assert done["state"] == "failed" and "CUDA error 700" in gpu_stack.log(job)
    run(gpu_stack, env={"MIB": "1000", "SECONDS": "3"})
    assert card(gpu_stack)["health"] == DeviceHealth.HEALTHY
