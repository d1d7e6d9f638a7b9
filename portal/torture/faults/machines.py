"""Disks that are full, read-only or slow; memory, files and processors that run out (13, 14)."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg

from portal.embedded.programs import SCHEDULER, WEB
from portal.torture.faults.hand import Fault, Hand
from portal.torture.yard import SECOND

_PIECE = bytes(65_536)
_MOST_SWITCHES = 40
# For a moment at which a node has nothing to do: between two programs it is short.
_LOOKS, _LOOK_S = 250, 0.1
_SPARE_MEMORY = 512 * 1024
# After each of these something has just been written to a disk, or is about to be.
DISK_POINTS = (
    "agent.accepted agent.log-acknowledged agent.forgetting supervisor.started supervisor.ended "
    "portal.log-stored scheduler.recorded"
).split()


@contextlib.contextmanager
def _filled(place: Path) -> Iterator[None]:
    path = place / "filler"
    try:
        with contextlib.suppress(OSError), path.open("wb", buffering=0) as filler:
            while True:
                filler.write(_PIECE)
        yield
    finally:
        path.unlink(missing_ok=True)


def fill_disk(hand: Hand) -> str:
    """13: no byte is left below an agent's state, for some seconds."""
    node = hand.yard.small_node
    if node:
        with _filled(hand.yard.places.node(node)):
            hand.nap(hand.dice.uniform(2.0, 5.0))
    return node


def fill_store(hand: Hand) -> str:
    """13: the portal has no room for logs and files."""
    store = hand.yard.small_disks.get("store")
    if store is None:
        return ""
    with _filled(store):
        hand.nap(hand.dice.uniform(2.0, 6.0))
    return "the store"


def fill_log_of_database(hand: Hand) -> str:
    """13: the database cannot write down what it does: it dies, and begins again with room."""
    place = hand.yard.small_disks.get("wal")
    if place is None:
        return ""
    hit = False
    with _filled(place):
        try:
            with psycopg.connect(hand.yard.database, connect_timeout=3, autocommit=True) as line:
                for _ in range(_MOST_SWITCHES):
                    line.execute("SELECT pg_create_restore_point('x')")
                    line.execute("SELECT pg_switch_wal()")
        except psycopg.Error:
            hit = True
            hand.nap(hand.dice.uniform(0.5, 2.0))
    with contextlib.suppress(RuntimeError):
        hand.yard.cluster.crash()
    hand.yard.cluster.start()
    return "the database" if hit else ""


def forbid_disk(hand: Hand) -> str:
    """13: an agent comes back to a disk that takes no writes; only where no program writes."""
    node = hand.yard.small_node
    if not node:
        return ""
    place, program = hand.yard.places.node(node), hand.yard.node_program(node)
    for _ in range(_LOOKS):
        if not hand.slots(node) and _taken_writes_from(hand, node, program, place):
            break
        hand.nap(_LOOK_S)
        if hand.over.is_set():
            return ""
    else:
        return ""
    try:
        hand.nap(hand.dice.uniform(2.0, 5.0))
    finally:
        _remounted(place, "rw")
    return node


def _taken_writes_from(hand: Hand, node: str, program: str, place: Path) -> bool:
    """Whether it is idle still once its agent takes nothing up any more, and let itself be hurt."""
    with hand.stopping(hand.yard.pid_of(program)):
        is_idle = not hand.slots(node)
        return is_idle and hand.kill(hand.yard.pid_of(program)) and _remounted(place, "ro")


def _remounted(place: Path, way: str) -> bool:
    words = ["mount", "-o", f"remount,{way}", str(place)]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def slow_disk_down(hand: Hand) -> str:
    """13: what is written takes a second or two, again and again."""
    points = hand.dice.sample(DISK_POINTS, 3)
    hit = [
        point for point in points if hand.order(point, f"stop {hand.dice.uniform(1.0, 2.0):.1f}")
    ]
    return ", ".join(hit)


def starve(hand: Hand) -> str:
    """14: every processor has more to do than it can."""
    words = ["sh", "-c", "while :; do :; done"]
    busy = [subprocess.Popen(words) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        hand.nap(2.0)
    finally:
        for each in busy:
            each.kill()
            each.wait()
    return "the host"


def take_memory(hand: Hand) -> str:
    """14: a program gets no more memory than it has."""
    program, pid = _somebody(hand)
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[0])
    except (OSError, ValueError):
        return ""
    most = pages * resource.getpagesize() + _SPARE_MEMORY
    return program if _limited(hand, pid, resource.RLIMIT_AS, most) else ""


def take_files(hand: Hand) -> str:
    """14: a program can open no more files and connections than it has open."""
    program, pid = _somebody(hand)
    try:
        most = max(int(name) for name in os.listdir(f"/proc/{pid}/fd")) + 1
    except (OSError, ValueError):
        return ""
    return program if _limited(hand, pid, resource.RLIMIT_NOFILE, most) else ""


def _somebody(hand: Hand) -> tuple[str, int]:
    """A server or an agent; a supervisor's limits are its program's business."""
    node = hand.yard.node_program(hand.node())
    program = hand.dice.choice((WEB, SCHEDULER, SECOND, node, node))
    return program, hand.yard.pid_of(program)


def _limited(hand: Hand, pid: int, kind: int, most: int) -> bool:
    try:
        usual = resource.prlimit(pid, kind)
        resource.prlimit(pid, kind, (most, usual[1]))
    except (OSError, ValueError):
        return False
    hand.nap(hand.dice.uniform(2.0, 5.0))
    with contextlib.suppress(OSError):
        resource.prlimit(pid, kind, usual)
    return True


FAULTS = (
    Fault("disk-full", 13, fill_disk, "disk"),
    Fault("disk-read-only", 13, forbid_disk, "disk"),
    Fault("disk-slow", 13, slow_disk_down, "disk-slow"),
    Fault("store-full", 13, fill_store, "store"),
    Fault("wal-full", 13, fill_log_of_database, "database"),
    Fault("starved", 14, starve, "starve"),
    Fault("memory-out", 14, take_memory, "memory"),
    Fault("files-out", 14, take_files, "files"),
)
