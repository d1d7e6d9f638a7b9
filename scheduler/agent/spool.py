"""Survive a restart: which attempts are mine, and which fences must never start again."""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from scheduler.agent.runtime import processes, records
from scheduler.agent.runtime.records import (
    AcceptedRecord,
    EntryRecord,
    ExitRecord,
    LaunchRecord,
    LimitRecord,
    StartedRecord,
    StopRecord,
    SupervisorRecord,
    read_record,
    write_record,
)
from scheduler.failpoints import reach
from scheduler.wire.messages import Assignment

_REMEMBERED = 5000
_TOMBSTONES = "forgotten"
_ACCEPTED = "accepted-"

logger = logging.getLogger(__name__)


class Slot:
    """One attempt's folder in the spool; every answer is read from disk."""

    def __init__(self, path: Path, entry: EntryRecord) -> None:
        self.path = path
        self.entry = entry

    @property
    def log_path(self) -> Path:
        return self.path / records.LOG

    def launch(self) -> LaunchRecord | None:
        return read_record(LaunchRecord, self.path / records.LAUNCH)

    def supervisor(self) -> SupervisorRecord | None:
        return read_record(SupervisorRecord, self.path / records.SUPERVISOR)

    def started(self) -> StartedRecord | None:
        return read_record(StartedRecord, self.path / records.STARTED)

    def stop(self) -> StopRecord | None:
        return read_record(StopRecord, self.path / records.STOP)

    def exit(self) -> ExitRecord | None:
        return read_record(ExitRecord, self.path / records.EXIT)

    def log_size(self) -> int:
        """Bytes of the stream so far."""
        try:
            return self.log_path.stat().st_size
        except OSError:
            return 0

    def write_launch(self, launch: LaunchRecord) -> None:
        write_record(self.path / records.LAUNCH, launch)

    def write_stop(self, stop: StopRecord) -> None:
        write_record(self.path / records.STOP, stop)

    def time_limit_s(self) -> int:
        """How long it may run, as far as this node was told."""
        told = read_record(LimitRecord, self.path / records.LIMIT)
        return told.time_limit_s if told else self.entry.assignment.launch.time_limit_s

    def allow(self, time_limit_s: int) -> bool:
        """Let it run for so long from its start; whether that is news.

        Its supervisor looks when its time is up. What cannot be written is told again.
        """
        if time_limit_s == self.time_limit_s():
            return False
        with suppress(OSError):
            write_record(self.path / records.LIMIT, LimitRecord(time_limit_s))
        return True

    def write_exit(self, end: ExitRecord) -> None:
        """For ends no supervisor can record: it never came to be, or it vanished."""
        write_record(self.path / records.EXIT, end, durable=True)

    def void(self) -> bool:
        """Make sure no supervisor starts any more; False when one was first."""
        claim = SupervisorRecord(self.entry.assignment.fence, processes.boot_id(), 0, 0)
        return records.claim_record(self.path / records.SUPERVISOR, claim)

    def shipped(self) -> int:
        """Bytes the server has acknowledged, as far as we remember."""
        try:
            return int((self.path / records.SHIPPED).read_text())
        except (OSError, ValueError):
            return 0

    def note_shipped(self, size: int) -> None:
        """Remember what the server acknowledged; raises OSError when the slot is gone.

        Not durable on purpose, a server that knows better says so. A late acknowledgement cannot
        bring a deleted slot back: no folder is made for it.
        """
        note = os.open(self.path / records.SHIPPED, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(note, f"{size:020d}".encode(), 0)
        finally:
            os.close(note)


class Spool:
    """All slots below one folder. Raises OSError when the folder cannot be made."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._forgotten = self._read_tombstones()
        # By file of what was accepted together: those of its fences that are not forgotten.
        self._accepted: dict[Path, set[int]] = {}

    def slots(self) -> list[Slot]:
        """Every accepted attempt. A folder without an entry anywhere was never accepted."""
        self._restore(self._read_accepted())
        found = []
        for path in sorted(self.root.iterdir()):
            if not path.is_dir():
                continue
            entry = read_record(EntryRecord, path / records.ENTRY)
            if entry is None and (path / records.LAUNCH).exists():
                # Damaged after it was accepted: it may have run, so it must not run again.
                logger.error("%s has no readable entry; look into it and remove it", path)
                if path.name.isdigit():
                    self._forgotten[int(path.name)] = None
            elif entry is None:
                logger.warning("removing %s: the agent stopped before it was complete", path)
                shutil.rmtree(path, ignore_errors=True)
            else:
                found.append(Slot(path, entry))
        return found

    def open(self, assignment: Assignment) -> Slot:
        """Make the folder; the attempt is accepted once `accept` has returned."""
        path = self.root / str(assignment.fence)
        path.mkdir(mode=0o700)
        return Slot(path, EntryRecord(processes.boot_id(), time.time(), assignment))

    def accept(self, slots: Sequence[Slot]) -> None:
        """Make their entries durable; only then may anything of the attempts happen.

        All of them in one file: flushing takes as long for eight as for one. Equals writing and
        flushing each entry and its folder, which the next agent makes of it.
        """
        fences = {slot.entry.assignment.fence for slot in slots}
        path = self.root / f"{_ACCEPTED}{max(fences)}"
        entries = tuple(slot.entry for slot in slots)
        write_record(path, AcceptedRecord(entries), durable=True)
        self._accepted[path] = fences

    def was_forgotten(self, fence: int) -> bool:
        """Whether this fence was here, ended and was deleted."""
        return fence in self._forgotten

    def forget(self, slots: Sequence[Slot]) -> None:
        """Delete slots whose end and log are stored; their fences stay known."""
        fences = [slot.entry.assignment.fence for slot in slots]
        self._forgotten.update(dict.fromkeys(fences))
        while len(self._forgotten) > _REMEMBERED:
            del self._forgotten[next(iter(self._forgotten))]
        with open(self.root / _TOMBSTONES, "a", encoding="ascii") as stream:
            stream.writelines(f"{fence}\n" for fence in fences)
            stream.flush()
            os.fsync(stream.fileno())
        reach("agent.forgotten")
        for slot in slots:
            records.remove_folder(slot.path)
        self._let_go(fences)

    def _let_go(self, fences: Sequence[int]) -> None:
        """Delete what was accepted together once all of it is forgotten."""
        for path, left in list(self._accepted.items()):
            left.difference_update(fences)
            if not left:
                path.unlink(missing_ok=True)
                del self._accepted[path]

    def _read_accepted(self) -> dict[int, EntryRecord]:
        """By fence what was accepted and is not forgotten, as the durable files say."""
        entries = {}
        for path in self.root.glob(f"{_ACCEPTED}*"):
            accepted = read_record(AcceptedRecord, path)
            known = {one.assignment.fence: one for one in accepted.entries} if accepted else {}
            self._accepted[path] = known.keys() - self._forgotten.keys()
            entries.update(known)
        self._let_go([])
        return {fence: one for fence, one in entries.items() if fence not in self._forgotten}

    def _restore(self, entries: dict[int, EntryRecord]) -> None:
        """Write each entry that was accepted into its own folder, unless an earlier agent did."""
        for fence, entry in entries.items():
            path = self.root / str(fence)
            if read_record(EntryRecord, path / records.ENTRY) is None:
                path.mkdir(mode=0o700, exist_ok=True)
                write_record(path / records.ENTRY, entry)

    def _read_tombstones(self) -> dict[int, None]:
        path = self.root / _TOMBSTONES
        try:
            lines = path.read_text(encoding="ascii").split()[-_REMEMBERED:]
        except OSError:
            return {}
        fresh = path.with_suffix(".new")
        fresh.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
        os.rename(fresh, path)
        return {int(line): None for line in lines if line.isdigit()}
