"""The environment every rank gets: torchrun's names, our own, the user's between them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from scheduler.agent.config import Options
from scheduler.agent.runtime.notices import NOTICE_FILE
from scheduler.agent.setup.folders import report_socket
from scheduler.wire.messages import Assignment

_LOOPBACK = "127.0.0.1"
_WHOLE_MILLI = 1000
# The kernel takes no longer names of sockets.
_LONGEST_SOCKET = 107
_SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


@dataclass(frozen=True, slots=True)
class Places:
    """Folders of one attempt, as absolute paths; `resume_from` is empty at a first start."""

    work: str
    scratch: str
    output: str
    checkpoint: str
    resume_from: str


def shared_environment(
    assignment: Assignment,
    places: Places,
    options: Options,
    *,
    master_port: int,
    user: str,
    network: bool = True,
) -> dict[str, str]:
    """What all local processes share. A user's variable never replaces one of ours.

    Without `network` there is only a loopback of the job's own: its processes meet there.
    """
    network_interface = options.network_interface
    if not network:
        assignment = replace(assignment, addresses=(_LOOPBACK,))
        network_interface = "lo"
    fixed = {
        **_gang(assignment, master_port),
        **_own(assignment, places),
        "CUDA_VISIBLE_DEVICES": ",".join(assignment.device_uuids),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        **_part(assignment),
    }
    if len(place := os.fsencode(report_socket(options.work))) <= _LONGEST_SOCKET:
        fixed["TRAINYARD_CHECKPOINT_SOCKET"] = os.fsdecode(place)
    if network_interface:
        fixed["NCCL_SOCKET_IFNAME"] = fixed["GLOO_SOCKET_IFNAME"] = network_interface
    base = {
        "PATH": ":".join((*options.path_prefix, *_SYSTEM_PATH)),
        "HOME": places.work,
        # Who asks for the name of a user id without an account, as torch.compile does, fails.
        "USER": user,
        "LOGNAME": user,
        "LANG": "C.UTF-8",
        "TMPDIR": places.scratch,
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": str(_threads(assignment)),
    }
    if options.library_path:
        base["LD_LIBRARY_PATH"] = ":".join(options.library_path)
    return {**base, **assignment.launch.env, **fixed}


def process_environments(assignment: Assignment) -> tuple[dict[str, str], ...]:
    """What differs between local processes: one mapping per LOCAL_RANK."""
    count = assignment.launch.processes_per_node
    return tuple(
        {"LOCAL_RANK": str(local), "RANK": str(assignment.rank * count + local)}
        for local in range(count)
    )


def _gang(assignment: Assignment, master_port: int) -> Mapping[str, str]:
    count = assignment.launch.processes_per_node
    nodes = len(assignment.addresses)
    address = assignment.addresses[0]
    return {
        "MASTER_ADDR": address,
        "MASTER_PORT": str(master_port),
        "WORLD_SIZE": str(nodes * count),
        "LOCAL_WORLD_SIZE": str(count),
        "NODE_RANK": str(assignment.rank),
        "GROUP_RANK": str(assignment.rank),
        "NNODES": str(nodes),
        "NPROC_PER_NODE": str(count),
        "PET_NNODES": str(nodes),
        "PET_NODE_RANK": str(assignment.rank),
        "PET_NPROC_PER_NODE": str(_processes_for_torchrun(assignment)),
        "PET_MASTER_ADDR": address,
        "PET_MASTER_PORT": str(master_port),
    }


def _processes_for_torchrun(assignment: Assignment) -> int:
    """With one process per node that process is often torchrun, which starts one per GPU."""
    count = assignment.launch.processes_per_node
    return count if count > 1 else max(1, len(assignment.device_uuids))


def _own(assignment: Assignment, places: Places) -> Mapping[str, str]:
    return {
        "TRAINYARD_JOB_ID": str(assignment.job_id),
        "TRAINYARD_JOB_NAME": assignment.job_name,
        "TRAINYARD_ATTEMPT": str(assignment.attempt_number),
        "TRAINYARD_FENCE": str(assignment.fence),
        "TRAINYARD_TEAM": assignment.team,
        "TRAINYARD_PROJECT": assignment.project,
        "TRAINYARD_NODE_RANK": str(assignment.rank),
        "TRAINYARD_NODE_IPS": ",".join(assignment.addresses),
        "TRAINYARD_CHECKPOINT_DIR": places.checkpoint,
        "TRAINYARD_RESUME_FROM": places.resume_from,
        "TRAINYARD_NOTICE_FILE": f"{places.work}/{NOTICE_FILE}",
        "TRAINYARD_OUTPUT_DIR": places.output,
        "TRAINYARD_SCRATCH_DIR": places.scratch,
    }


def _part(assignment: Assignment) -> Mapping[str, str]:
    """How much of a card it has: what frameworks ask for, and NVIDIA's MPS daemon enforces."""
    if assignment.gpu_milli >= _WHOLE_MILLI or not assignment.device_uuids:
        return {}
    return {
        "TRAINYARD_GPU_MILLI": str(assignment.gpu_milli),
        "TRAINYARD_GPU_MEMORY_MIB": str(assignment.gpu_memory_mib),
        "TRAINYARD_GPU_MEMORY_FRACTION": f"{assignment.gpu_milli / 1000:.3f}",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": f"{assignment.gpu_milli / 10:.1f}",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={assignment.gpu_memory_mib}M",
    }


def _threads(assignment: Assignment) -> int:
    return max(1, assignment.launch.cpus // assignment.launch.processes_per_node)
