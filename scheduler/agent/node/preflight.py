"""Look at a node before it is trusted with work; every finding says what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scheduler.agent.client import Client, ServerAway
from scheduler.agent.config import NodeIdentity
from scheduler.agent.gpus import GpuProblem, Gpus, open_gpus
from scheduler.agent.gpus.driver import library_folders, missing_files
from scheduler.agent.node.host import free_mib
from scheduler.agent.node.isolation import remedy, try_sandbox
from scheduler.agent.runtime import limits

_MIN_FREE_MIB = 1024
_MAX_SKEW_S = 30.0
_TRIAL_UID = 64_999
_CUDA_S = 120.0
_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. `is_ok` None: worth knowing, no reason to stop."""

    what: str
    is_ok: bool | None
    detail: str

    def line(self) -> str:
        """As shown to the operator."""
        mark = {True: "ok  ", False: "FAIL", None: "note"}[self.is_ok]
        return f"{mark}  {self.what}: {self.detail}"


def inspect_node(state: Path, wish: NodeIdentity) -> Iterator[Finding]:
    """All findings about this node, in the order of what breaks first."""
    yield Finding("name", True, wish.name)
    yield from _gpus(wish)
    yield _disk(state)
    yield from _server(wish.server)
    yield _user()
    yield _groups()
    yield _sandbox()
    yield _git()


def _gpus(wish: NodeIdentity) -> Iterator[Finding]:
    if wish.simulated_gpus:
        yield Finding("gpus", None, f"{wish.simulated_gpus} simulated; the driver is not asked")
        return
    try:
        gpus = open_gpus(wish.name, 0, "")
    except GpuProblem as problem:
        yield Finding("gpus", False, str(problem))
        return
    found = gpus.inventory()
    if not found:
        yield Finding("gpus", False, "the driver lists none; check `nvidia-smi -L` and the cabling")
        return
    models = ", ".join(sorted({device.model for device in found}))
    yield Finding("gpus", True, f"{len(found)} x {models}, driver {gpus.driver}")
    yield _cuda(gpus, [device.uuid for device in found if not device.parent])


def _cuda(gpus: Gpus, uuids: list[str]) -> Finding:
    """Each card tried out, as jobs find the driver: NVML answers where no program can use one."""
    if missing := missing_files():
        words = f"{', '.join(missing)}: not there; type `nvidia-modprobe -u -c 0` as root"
        return Finding("cuda", False, words)
    folders = library_folders()
    environment = {"PATH": os.defpath, "LD_LIBRARY_PATH": ":".join(folders)}
    for uuid in uuids:
        try:
            done = subprocess.run(
                gpus.check_command(uuid),
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_CUDA_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return Finding("cuda", False, f"{uuid}: {error}")
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()[-_SHOWN:]
            return Finding("cuda", False, f"{uuid}: {said or f'exit code {done.returncode}'}")
    where = f"; jobs find the driver in {', '.join(folders)}" if folders else ""
    return Finding("cuda", True, f"{len(uuids)} x memory written and read back{where}")


def _disk(state: Path) -> Finding:
    room = free_mib(state)
    if room < _MIN_FREE_MIB:
        return Finding(
            "disk", False, f"{room} MiB free at {state}; free {_MIN_FREE_MIB} or use --state"
        )
    return Finding("disk", True, f"{room} MiB free at {state}")


def _server(server: str) -> Iterator[Finding]:
    client = Client(server)
    try:
        skew_s = client.clock_ahead_s()
    except ServerAway as problem:
        yield Finding(
            "server",
            False,
            f"{problem}. Check the address, name resolution, firewalls and that it is up.",
        )
        return
    finally:
        client.close()
    yield Finding("server", True, f"{server} answers")
    if skew_s is None:
        yield Finding("clock", None, "the server tells no time; cannot compare the clocks")
        return
    is_ok = abs(skew_s) <= _MAX_SKEW_S
    remedy = "" if is_ok else "; set the clock, for example with chrony or systemd-timesyncd"
    yield Finding("clock", is_ok, f"{abs(skew_s):.0f} s from the server's{remedy}")


def _user() -> Finding:
    if os.geteuid() == 0:
        return Finding("user", True, "root: every attempt gets a user id of its own")
    return Finding(
        "user", None, f"uid {os.geteuid()}: jobs run as this user; start as root to separate them"
    )


def _groups() -> Finding:
    try:
        trial = limits.set_limits(f"trainyard-preflight-{os.getpid()}", memory_mib=64, cpus=1)
    except OSError as error:
        return Finding("control groups", None, f"none ({error}); memory is watched instead")
    means = []
    means.append("memory by control group" if trial.memory_group else "memory by watching")
    means.append("kill by control group" if trial.kill_group else "kill by walking the tree")
    trial.remove()
    return Finding("control groups", None, ", ".join(means))


def _sandbox() -> Finding:
    program = shutil.which("bwrap")
    if program is None:
        return Finding("sandbox", None, "no bwrap; install bubblewrap for --isolation sandbox")
    try:
        problem = try_sandbox(program, _TRIAL_UID if os.geteuid() == 0 else None)
    except OSError as error:
        problem = str(error)
    if problem:
        return Finding("sandbox", None, f"does not work: {problem}. {remedy(problem)}")
    return Finding("sandbox", None, "works; --isolation sandbox uses it")


def _git() -> Finding:
    place = shutil.which("git")
    return Finding("git", None, place or "not installed; jobs cannot bring code by git URL")
