"""Where the agent keeps what, who it is, and what its operator chose."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from scheduler.agent.runtime.records import read_record, write_record
from scheduler.states import Isolation

NODE_FILE = "node.json"
DEFAULT_SIMULATED_MODEL = "NVIDIA H100 80GB HBM3"


class ConfigProblem(Exception):
    """The agent cannot go on as configured; the text says what to do."""


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """What enrolment left in `node.json`. Tokens are secret: the file's mode is 0600.

    Overrides are 0 or empty where the host's own figures count. `former_token`: what a renewal has
    replaced.
    """

    server: str
    node_id: int
    name: str
    pool: str
    node_token: str
    simulated_gpus: int = 0
    simulated_model: str = DEFAULT_SIMULATED_MODEL
    cpus: int = 0
    memory_mib: int = 0
    address: str = ""
    former_token: str = ""


@dataclass(frozen=True, slots=True)
class Options:
    """What the operator chose for `run`. Seconds unless the name says otherwise."""

    state: Path
    work: Path
    hold_s: float = 20.0
    sample_s: float = 2.0
    heartbeat_s: float = 10.0
    retry_cap_s: float = 15.0
    disconnect_grace_s: float = 900.0
    keep_work_s: float = 86_400.0
    keep_checkpoints_s: float = 14 * 86_400.0
    spool_cap_mib: int = 2048
    min_free_mib: int = 256
    job_uids: tuple[int, int] | None = (61_000, 64_999)
    path_prefix: tuple[str, ...] = ()
    library_path: tuple[str, ...] = ()
    expose: tuple[str, ...] = ()
    allow_file_git: bool = False
    control_groups: bool = True
    git_timeout_s: float = 600.0
    network_interface: str = ""
    ports: tuple[int, int] = field(default=(20_000, 31_999))
    isolation: Isolation | None = None
    share: tuple[str, ...] = ()
    sandbox_network: bool = True
    data: tuple[str, ...] = ()
    data_every_s: float = 900.0


def with_libraries(options: Options, folders: tuple[str, ...]) -> Options:
    """Jobs look for libraries in `folders`, too, and are shown them."""
    return replace(
        options,
        library_path=(*options.library_path, *folders),
        expose=(*options.expose, *folders),
    )


def read_identity(state: Path) -> NodeIdentity:
    """The node's identity; raises ConfigProblem with the line to type when there is none.

    Raises OSError where the disk does not answer.
    """
    identity = read_record(NodeIdentity, state / NODE_FILE)
    if identity is None:
        with suppress(FileNotFoundError):
            (state / NODE_FILE).read_bytes()
        raise ConfigProblem(
            f"{state / NODE_FILE} is missing or unreadable: enrol this node first with "
            f"`enrol --server URL --token TOKEN --state {state}`"
        )
    return identity


def write_identity(state: Path, identity: NodeIdentity) -> None:
    """Store the identity so that only this user can read it."""
    make_state_folder(state)
    write_record(state / NODE_FILE, identity, durable=True)


def make_state_folder(state: Path) -> None:
    """Create the state folder; one that exists keeps its mode."""
    if not state.exists():
        state.mkdir(parents=True)
        state.chmod(0o711)


def choose_work_folder(state: Path, wish: Path | None, *, is_root: bool) -> Path:
    """The folder for what jobs touch; every user can reach it.

    Beside the state folder's own files when other users can enter it, else, for root, below
    `/var/lib/trainyard`: a job's own user could not reach it behind a closed parent.
    """
    if wish is not None:
        return wish.resolve()
    state = state.resolve()
    if not is_root or first_closed_folder(state) is None:
        return state
    mark = hashlib.sha256(os.fsencode(state)).hexdigest()[:12]
    return Path("/var/lib/trainyard") / mark


def first_closed_folder(path: Path) -> Path | None:
    """The first folder on the way to (and including) `path` that other users cannot enter."""
    for folder in (*reversed(path.parents), path):
        if folder.exists() and not folder.stat().st_mode & 0o001:
            return folder
    return None


def make_work_folder(work: Path) -> None:
    """Create what is missing on the way to the work folder, passable for every user."""
    missing = [folder for folder in (work, *work.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o711)
