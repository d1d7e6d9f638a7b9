"""All that servers and nodes ever say to each other.

Calls: `enrol` once, `sync` for ever, `log` for bytes (more: `secrets.py`, `outputs.py`). Messages
of a node about an attempt carry its fence; a lower fence than the row knows changes nothing. The
reply to `sync` always names *all* attempts the node should have, so a lost reply heals itself.

Units: `_s` seconds, `_mib` MiB, `_watts` watts, `_at` seconds since the epoch (node's clock).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.states import AttemptState, EndReason, NodeState
from scheduler.wire.data import DataReport
from scheduler.wire.readings import DeviceSample, HostSample
from scheduler.wire.sessions import SessionLaunch

PROTOCOL = 3
OLDEST_PROTOCOL = 1
AGENT_VERSION = "0.1.0"

MAX_LOG_CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """One GPU as NVML (or the simulator behind the same interface) describes it.
    A MIG instance is one too: `milli` thousandths of the card `parent` (UUID), told as well."""

    uuid: str
    index: int
    model: str
    memory_mib: int
    link_group: str = ""
    simulated: bool = False
    parent: str = ""
    milli: int = 1000


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What a node offers beside its devices, as other ranks reach it (`address`). `isolation` is
    a word of `scheduler.states.Isolation`; empty: an agent that does not say."""

    cpus: int
    memory_mib: int
    scratch_mib: int
    address: str
    kernel: str = ""
    driver: str = ""
    isolation: str = ""


@dataclass(frozen=True, slots=True)
class EnrolRequest:
    """First words of a node: the single-use token buys a node token."""

    token: str
    name: str
    protocol: int
    agent_version: str
    boot_id: str
    host: HostFacts
    devices: tuple[DeviceFacts, ...]


@dataclass(frozen=True, slots=True)
class EnrolReply:
    """The node's own secret, told once."""

    node_id: int
    name: str
    pool: str
    node_token: str


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint whose size and SHA-256 (`digest`, hex) a node has read back from its file.
    `path` is absolute there, `step` the program's own count; `taken_at`: complete, by its clock."""

    path: str
    step: int
    bytes: int
    digest: str
    taken_at: float = 0.0


@dataclass(frozen=True, slots=True)
class AttemptReport:
    """What a node knows of its part (`rank`) of an attempt; repeated until forgotten.

    `master_port` is rank 0's free port, told before the other ranks may start. `log_size` is the
    number of bytes the stream has so far, final once `state` is ended: the server waits for that
    many before it calls the job finished. `started_at`, `ended_at`: of the user's process.
    `checkpoint` is the last one that was confirmed, rank 0's word alone, `checkpoint_problem` why
    the newest note was not; `checkpoint_pending`: ended, but the last one is still being read.
    `resumed_step`: of the checkpoint at `resumed_from`; `resume_problem`: why there was none."""

    fence: int
    rank: int
    state: AttemptState
    master_port: int | None = None
    started_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    end_reason: EndReason | None = None
    detail: str = ""
    log_size: int = 0
    code_commit: str = ""
    code_patch: str = ""
    resumed_from: str = ""
    resumed_step: int | None = None
    resume_problem: str = ""
    checkpoint: Checkpoint | None = None
    checkpoint_pending: bool = False
    checkpoint_problem: str = ""


@dataclass(frozen=True, slots=True)
class TroubleReport:
    """What is wrong with a device, or with the node itself if `uuid` is empty. `kind`: a word of
    `scheduler.states.Trouble`, as text for older servers. `fence`: who held the device then."""

    kind: str
    uuid: str = ""
    detail: str = ""
    since: float = 0.0
    fence: int | None = None


@dataclass(frozen=True, slots=True)
class DeviceCheck:
    """How a device that nobody holds did in the check that the server asked for."""

    uuid: str
    passed: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """Heartbeat, reports and samples in one call.

    `seen_revision`: of the last reply the agent acted on; answered at once when there is a newer
    one, else held for at most `hold_s`. `host` and `devices` come first and when they change; None:
    unchanged; `troubles`, all that is wrong now, and `data` too. `checks` are told until no longer
    asked for. `takes_kept`: what goes on may be answered by its fence; `takes_token`: `next_token`.
    `unrated`: samples without `gpu_percent`, apart, as older servers refuse them."""

    protocol: int
    agent_version: str
    agent_id: str
    boot_id: str
    seen_revision: int
    hold_s: float
    sent_at: float
    reports: tuple[AttemptReport, ...] = ()
    samples: tuple[DeviceSample, ...] = ()
    host_sample: HostSample | None = None
    host: HostFacts | None = None
    devices: tuple[DeviceFacts, ...] | None = None
    troubles: tuple[TroubleReport, ...] | None = None
    checks: tuple[DeviceCheck, ...] = ()
    takes_kept: bool = False
    takes_token: bool = False
    data: DataReport | None = None
    unrated: tuple[DeviceSample, ...] = ()


@dataclass(frozen=True, slots=True)
class Code:
    """Where the program text comes from: exactly one of `script`, `folder`, `git_url`, or none.
    `git_named`: what the job asks for, where `git_ref` is the commit that it was before."""

    script: str = ""
    folder: str = ""
    git_url: str = ""
    git_ref: str = ""
    git_named: str = ""


@dataclass(frozen=True, slots=True)
class Launch:
    """How to run the program on one node: `command`, once for each LOCAL_RANK, or what a `session`
    starts. `secrets`: names. Cap and grace 0: the agent's; `usual_grace_s`: the server's own."""

    command: tuple[str, ...]
    env: dict[str, str]
    working_dir: str
    code: Code
    processes_per_node: int
    cpus: int
    memory_mib: int
    time_limit_s: int
    checkpoint_dir: str
    stop_signal: str
    stop_grace_s: int
    secrets: tuple[str, ...] = ()
    log_cap_mib: int = 0
    disconnect_grace_s: int = 0
    usual_grace_s: int = 0
    session: SessionLaunch | None = None


@dataclass(frozen=True, slots=True)
class StopOrder:
    """Ask the program to stop; after `grace_s` it is killed."""

    reason: EndReason
    grace_s: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """One attempt's share of this node, as it should be now.

    `stop` is None while it should run. `master_port` is None for rank 0, which picks a free one;
    other ranks are told only once rank 0 has reported it. `resume` is what an earlier attempt
    confirmed and this node should be able to read; `resume_from` is its path, for older agents.

    `gpu_milli` below 1000: a slot of the one card in `device_uuids`, which others may have slots
    of, with `gpu_memory_mib` of its memory.
    """

    fence: int
    job_id: int
    job_name: str
    team: str
    project: str
    attempt_number: int
    rank: int
    addresses: tuple[str, ...]
    device_uuids: tuple[str, ...]
    launch: Launch
    master_port: int | None = None
    resume_from: str = ""
    resume: Checkpoint | None = None
    stop: StopOrder | None = None
    gpu_milli: int = 1000
    gpu_memory_mib: int = 0


@dataclass(frozen=True, slots=True)
class SyncReply:
    """The complete truth for this node at `revision`.

    What runs and is neither in `assignments` nor in `kept` must be killed. `kept`: reported by the
    request, go on as told. `forget`: end and log are stored, or awaited no more. `check`: devices
    to try out. `next_token`: to be written down, then used, which makes it the node's.
    """

    protocol: int
    revision: int
    node_state: NodeState
    assignments: tuple[Assignment, ...] = ()
    forget: tuple[int, ...] = ()
    check: tuple[str, ...] = ()
    kept: tuple[int, ...] = ()
    next_token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class LogAck:
    """`size`: bytes of the stream that are durable; the next chunk starts there."""

    size: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a call was refused and what to do; `code` is stable, `detail` is for people."""

    code: str
    detail: str
    facts: dict[str, str] = field(default_factory=dict)
