"""The devices of a node: the face (`face.py`), real ones (`nvml.py`), simulated ones."""

from __future__ import annotations

from pathlib import Path

from scheduler.agent.gpus.driver import make_files
from scheduler.agent.gpus.face import Fault, GpuProblem, Gpus, Holding
from scheduler.agent.gpus.nvml import NvmlGpus
from scheduler.agent.gpus.simulated import SimulatedGpus

__all__ = ["Fault", "GpuProblem", "Gpus", "Holding", "NvmlGpus", "SimulatedGpus", "open_gpus"]


def open_gpus(node_name: str, simulated: int, model: str, faults: Path | None = None) -> Gpus:
    """The node's devices: simulated where asked for, else what NVML finds; may raise GpuProblem.

    `faults`: the file that gives simulated devices their faults.
    """
    if simulated:
        return SimulatedGpus(node_name, simulated, model, faults)
    gpus = NvmlGpus()
    make_files()
    return gpus
