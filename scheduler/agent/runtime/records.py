"""What an attempt leaves on the node's disk; agent and supervisor meet only in these files.

entry.json       the assignment; durable in `accepted-*` of the spool before anything else happens,
                 and written here by the first agent that adopts the attempt
launch.json      everything the supervisor needs to start the program
supervisor.json  who supervises it; created exclusively, so an attempt starts at most once
started.json     the program runs; missing where it ended within a moment
stop.json        it shall stop
limit.json       it may run for another time than the launch says
exit.json        how it ended, written durably before anybody is told
log              the bytes of all its processes

Of an attempt that left no more than launch, claim, start and end, files and folder are used again:
a file system may look at all it deleted lately before it makes anything. These records name their
fence: one of an earlier attempt, back after a power loss, is nobody's.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from scheduler.agent.runtime import kernel
from scheduler.states import EndReason
from scheduler.wire.codec import WireError, decode, encode
from scheduler.wire.messages import Assignment

Record = TypeVar("Record")

ENTRY = "entry.json"
LAUNCH = "launch.json"
SUPERVISOR = "supervisor.json"
STARTED = "started.json"
STOP = "stop.json"
LIMIT = "limit.json"
EXIT = "exit.json"
LOG = "log"
SHIPPED = "shipped"
ERRORS = "supervisor.err"
# What short attempts leave that say nothing; all of these name their fence.
_USUAL = frozenset({LAUNCH, SUPERVISOR, STARTED, EXIT})


@dataclass(frozen=True, slots=True)
class EntryRecord:
    """An accepted attempt. `boot_id`: of the operating system that accepted it."""

    boot_id: str
    accepted_at: float
    assignment: Assignment


@dataclass(frozen=True, slots=True)
class AcceptedRecord:
    """Entries that were accepted together, in one durable file of the spool."""

    entries: tuple[EntryRecord, ...]


@dataclass(frozen=True, slots=True)
class SandboxPlan:
    """What a program in namespaces of its own sees; `program` is where bwrap lies.

    `read_only` and `writable` are what the operator shows to jobs, `hidden` lies in those and is
    covered, `own` and `own_read_only` are the job's. `temporary` is its /tmp, `shared_memory` its
    /dev/shm where several local processes need the same one, empty: one of its own.
    """

    program: str
    own: tuple[str, ...]
    temporary: str
    own_read_only: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    shared_memory: str = ""
    network: bool = True


@dataclass(frozen=True, slots=True)
class LaunchRecord:
    """What the supervisor starts and how it guards it.

    `processes` holds what differs between local processes, one mapping each. `uid` None: the
    supervisor's own. `marker` is an environment text no other attempt on this host has.
    `hint_address` is the path of the agent's socket. `checkpoint_seen` marks the checkpoint note
    that lay there before the start. `sandbox` None: no namespaces of its own. `memory_folder` is
    removed at the end, `secrets_dir` lies in it: what its files hold is masked in the log. Both
    `last_sync` files say when the agent reached the server last.
    """

    fence: int
    rank: int
    command: tuple[str, ...]
    env: dict[str, str]
    processes: tuple[dict[str, str], ...]
    working_dir: str
    notice_dir: str
    marker: str
    uid: int | None
    cpus: int
    memory_mib: int
    time_limit_s: int
    stop_signal: str
    stop_grace_s: int
    disconnect_grace_s: float
    last_sync_path: str
    hint_address: str
    log_cap_mib: int
    expose: tuple[str, ...] = ()
    control_groups: bool = True
    master_port: int | None = None
    code_commit: str = ""
    code_patch: str = ""
    resumed_from: str = ""
    resumed_step: int | None = None
    resume_problem: str = ""
    checkpoint_seen: str = ""
    sandbox: SandboxPlan | None = None
    memory_folder: str = ""
    secrets_dir: str = ""
    last_sync_in_memory: str = ""


@dataclass(frozen=True, slots=True)
class SupervisorRecord:
    """A supervisor's identity. A pid alone proves nothing: `start_ticks` and boot go with it.

    `pid` 0: the agent took the claim itself, so that no supervisor may start any more.
    """

    fence: int
    boot_id: str
    pid: int
    start_ticks: int
    cgroups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StartedRecord:
    """The program runs: since when, and as which local processes."""

    started_at: float
    pids: tuple[int, ...]
    fence: int = 0


@dataclass(frozen=True, slots=True)
class StopRecord:
    """It shall stop: `grace_s` after the signal everything is killed."""

    reason: EndReason
    grace_s: float
    detail: str = ""


@dataclass(frozen=True, slots=True)
class LimitRecord:
    """How long it may run, counted from its start, where that was changed meanwhile."""

    time_limit_s: int


@dataclass(frozen=True, slots=True)
class ExitRecord:
    """The end, as it was seen. `exit_code` None: the program never ran or nobody saw it end."""

    end_reason: EndReason
    ended_at: float
    started_at: float | None = None
    exit_code: int | None = None
    detail: str = ""
    log_size: int = 0
    fence: int = 0


# What a supervisor reads and writes.
SUPERVISORS_RECORDS = (
    LaunchRecord,
    SupervisorRecord,
    StartedRecord,
    StopRecord,
    LimitRecord,
    ExitRecord,
)


def write_record(path: Path, record: object, *, durable: bool = False) -> None:
    """Replace `path` in one step; `durable`: on disk before this returns. Raises OSError."""
    fresh = _fresh(path)
    _write_file(fresh, encode(record), durable=durable)
    os.rename(fresh, path)
    if durable:
        sync_folder(path.parent)


def reserve_record(path: Path) -> None:
    """Room on the disk for a small record that is written at `path` later. Raises OSError."""
    spare = path.with_name(spare_name(path.name))
    if not spare.exists():
        _write_file(spare, bytes(512))


def claim_record(path: Path, record: object) -> bool:
    """Create `path` with its whole content unless it exists; False: somebody else was first.

    Not durable: after a power loss the entry's boot id says that nothing of it may start again.
    """
    fresh = _fresh(path)
    _write_file(fresh, encode(record))
    try:
        os.link(fresh, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(fresh)
    return True


def read_record(kind: type[Record], path: str | Path) -> Record | None:
    """The record at `path`, None when it is missing or was cut short by a power loss."""
    try:
        return decode(kind, kernel.read_small(path))
    except (OSError, WireError):
        return None


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def remove_folder(path: Path) -> None:
    """Delete a folder of plain files; what stands in the way is left to the thorough way.

    `rmtree` guards against links that appear meanwhile, with ten times the calls. Nobody but the
    agent may write here.
    """
    try:
        with os.scandir(path) as entries:
            names = [entry.path for entry in entries]
        for name in names:
            os.unlink(name)
        os.rmdir(path)
    except OSError:
        import shutil  # seldom needed, and it brings three libraries along into every supervisor

        shutil.rmtree(path, ignore_errors=True)


def put_by(folder: Path, place: Path) -> bool:
    """Move a slot's folder to `place`, for a later attempt; False: it holds more than the usual.

    Logs, orders and notes of an attempt must never be found in another's. Raises OSError.
    """
    names = frozenset(os.listdir(folder))
    if names - _USUAL - frozenset(map(spare_name, {STOP, *_USUAL})):
        return False
    for name in names & _USUAL:
        os.rename(f"{folder}/{name}", f"{folder}/{spare_name(name)}")
    os.rename(folder, place)
    return True


def spare_name(name: str) -> str:
    """What a file is called that waits for the next content of `name`."""
    return f".{name}.spare"


def _fresh(path: Path) -> str:
    """Where the content of `path` is written first: in a spare file, taken for us alone, if any."""
    folder, name = os.path.split(path)
    fresh = f"{folder}/.{name}.{os.getpid()}"
    with suppress(FileNotFoundError):
        os.rename(f"{folder}/{spare_name(name)}", fresh)
    return fresh


def _write_file(path: str | Path, content: bytes, *, durable: bool = False) -> None:
    """Give a file this content; one that is there is written over in its place."""
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(target, left) :]
        if os.lseek(target, 0, os.SEEK_END) > len(content):
            os.ftruncate(target, len(content))
        if durable:
            os.fsync(target)
    finally:
        os.close(target)
