"""The cards of this host, and a stack whose one node is this host."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from portal.embedded.programs import LocalNode
from scheduler.agent.gpus import GpuProblem, NvmlGpus
from tests.servers import LiveStack, running_stack

ON_CARD = Path(__file__).with_name("on_card.py")
NODE = LocalNode("real", simulated_gpus=0)


@pytest.fixture(scope="session")
def gpus() -> NvmlGpus:
    try:
        found = NvmlGpus()
    except GpuProblem as problem:
        pytest.skip(f"no NVML device: {problem}")
    if not found.inventory():
        pytest.skip("no NVML device: the driver lists none")
    return found


@pytest.fixture(scope="session")
def on_card() -> tuple[str, ...]:
    """The command of the program that uses a card."""
    return (sys.executable, "-I", str(ON_CARD))


@pytest.fixture(scope="module")
def gpu_stack(gpus: NvmlGpus) -> Iterator[LiveStack]:
    with running_stack((NODE,)) as live:
        yield live
