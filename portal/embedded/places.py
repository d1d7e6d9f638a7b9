"""Folders, address and lock of one embedded installation."""

from __future__ import annotations

import fcntl
import os
import socket
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FIRST_PORT = 8000
_MOUNTS = Path("/proc/self/mountinfo")
_NETWORK_FILE_SYSTEMS = frozenset(
    "nfs nfs4 cifs smb3 smbfs ceph fuse.sshfs fuse.glusterfs lustre gpfs beegfs afs".split()
)


class StackProblem(Exception):
    """The stack cannot start or go on; the text says what to do."""


class AlreadyUp(StackProblem):
    """Another `up` serves this state folder; `address` is where (empty while it starts)."""

    def __init__(self, address: str) -> None:
        super().__init__(f"already running at {address}" if address else "already starting")
        self.address = address


@dataclass(frozen=True, slots=True)
class Places:
    """`state` keeps what must survive, `run` holds sockets and stays short."""

    state: Path
    run: Path

    @property
    def logs(self) -> Path:
        """One file per program."""
        return self.state / "logs"

    @property
    def broker_socket(self) -> Path:
        """Where the embedded broker listens."""
        return self.run / "valkey.sock"

    @property
    def supervisor_socket(self) -> Path:
        """Where supervisord takes orders; only this user may connect."""
        return self.run / "supervisor.sock"

    def node(self, name: str) -> Path:
        """State folder of a local node's agent."""
        return self.state / "nodes" / name

    def make(self) -> None:
        """Create what is missing; folders that exist keep their modes.

        Other users may pass through the state folder (jobs run under user ids of their own and
        their folders lie below) but not list it; every secret in it is a 0600 file.
        """
        refuse_network_file_system(self.state)
        for folder, mode in (
            (self.state, 0o711),
            (self.state / "nodes", 0o711),
            (self.logs, 0o700),
            (self.state / "broker", 0o700),
            (self.run, 0o700),
        ):
            if not folder.exists():
                folder.mkdir(parents=True)
                folder.chmod(mode)
        if self.run.stat().st_uid != os.getuid():
            raise StackProblem(f"{self.run} belongs to another user; set TRAINYARD_RUN_DIR")

    def lock(self) -> int:
        """Hold the folder for this process; raises AlreadyUp when another one has it."""
        descriptor = os.open(self.state / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise AlreadyUp(self.remembered_address()) from None
        return descriptor

    def remembered_address(self) -> str:
        """The address of the last start, empty before the first."""
        try:
            return (self.state / "address").read_text(encoding="utf-8").strip()
        except OSError:
            return ""

    def choose_address(self, port: int) -> str:
        """`port`, or for 0 the last one, 8000 or any free one; remembered for the next start."""
        if not 0 <= port < 65536:
            raise StackProblem(f"there is no port {port}; choose one up to 65535 with --port")
        last = self.remembered_address().rpartition(":")[2]
        again = int(last) if last.isdecimal() and int(last) < 65536 else FIRST_PORT
        wishes = [port] if port else [again, 0]
        for wish in wishes:
            free = free_port(wish)
            if free is not None:
                address = f"http://127.0.0.1:{free}"
                (self.state / "address").write_text(address, encoding="utf-8")
                return address
        raise StackProblem(f"port {port} is taken; choose another with --port")


def free_port(wish: int = 0) -> int | None:
    """`wish` when it is free on loopback, any free one for 0, else None."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wish))
        except OSError:
            return None
        return int(probe.getsockname()[1])


def refuse_network_file_system(folder: Path) -> None:
    """SQLite's write-ahead log needs memory shared by all its users: a local disk."""
    kind = file_system_of(folder)
    if kind in _NETWORK_FILE_SYSTEMS:
        raise StackProblem(
            f"{folder} lies on a network file system ({kind}), where SQLite may lose data. Set "
            "TRAINYARD_STATE_DIR to a folder on a local disk."
        )


def file_system_of(folder: Path) -> str:
    """Kind of the file system that holds (or will hold) `folder`; empty where it is not known."""
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    best, kind = -1, ""
    for line in lines:
        left, _, right = line.partition(" - ")
        mount = left.split()[4].encode().decode("unicode_escape")
        if folder.resolve().is_relative_to(mount) and len(mount) >= best:
            best, kind = len(mount), right.split()[0]
    return kind
