"""Survive a restart: which attempts are mine, and which fences must never start again."""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from scheduler.agent.kept.tombstones import Tombstones
from scheduler.agent.runtime import processes, records
from scheduler.agent.runtime.records import (
    AcceptedRecord,
    EntryRecord,
    ExitRecord,
    LaunchRecord,
    LimitRecord,
    Record,
    StartedRecord,
    StopRecord,
    SupervisorRecord,
    read_record,
    write_record,
)
from scheduler.failpoints import reach
from scheduler.wire.messages import Assignment

_ACCEPTED = "accepted-"
_SPARE = "spare-"
_MOST_SPARE = 32

logger = logging.getLogger(__name__)


class Slot:
    """One attempt's folder in the spool; what may change is read from disk, the rest once.

    `is_new`: made by this agent, so that all in it is written as this agent does.
    """

    def __init__(self, path: Path, entry: EntryRecord, *, is_new: bool = False) -> None:
        self.path = path
        self.entry = entry
        self.is_new = is_new
        # Built once: these are asked for at every pulse.
        self._folder, self._log = str(path), str(path / records.LOG)
        self._launch: LaunchRecord | None = None
        self._exit: ExitRecord | None = None

    @property
    def log_path(self) -> Path:
        return self.path / records.LOG

    def launch(self) -> LaunchRecord | None:
        self._launch = self._launch or self._own(LaunchRecord, records.LAUNCH)
        return self._launch

    def supervisor(self) -> SupervisorRecord | None:
        return self._own(SupervisorRecord, records.SUPERVISOR)

    def started(self) -> StartedRecord | None:
        return self._own(StartedRecord, records.STARTED)

    def stop(self) -> StopRecord | None:
        return read_record(StopRecord, f"{self._folder}/{records.STOP}")

    def exit(self) -> ExitRecord | None:
        self._exit = self._exit or self._own(ExitRecord, records.EXIT)
        return self._exit

    def _own(self, kind: type[Record], name: str) -> Record | None:
        """The record, unless a power loss brought back one that the folder had before."""
        found = read_record(kind, f"{self._folder}/{name}")
        fence = getattr(found, "fence", 0)
        return found if fence in (0, self.entry.assignment.fence) else None

    def log_size(self) -> int:
        """Bytes of the stream so far."""
        try:
            return os.stat(self._log).st_size
        except OSError:
            return 0

    def write_launch(self, launch: LaunchRecord) -> None:
        # So that it can be stopped on a full disk too.
        records.reserve_record(self.path / records.STOP)
        write_record(self.path / records.LAUNCH, launch)
        self._launch = launch

    def write_stop(self, stop: StopRecord) -> None:
        write_record(self.path / records.STOP, stop)

    def time_limit_s(self) -> int:
        """How long it may run, as far as this node was told."""
        told = read_record(LimitRecord, f"{self._folder}/{records.LIMIT}")
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
        end = replace(end, fence=self.entry.assignment.fence)
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
        self._forgotten = Tombstones(root / "forgotten")
        # By file of what was accepted together: those of its fences that are not forgotten.
        self._accepted: dict[Path, set[int]] = {}
        # To be used again: folders of attempts, and files of what was accepted together.
        self._folders: list[Path] = []
        self._files: list[Path] = []

    def slots(self) -> list[Slot]:
        """Every accepted attempt. A folder without an entry anywhere was never accepted."""
        self._drop_spares()
        accepted = self._read_accepted()
        self._restore(accepted)
        found = []
        # Also what a full disk has no folder for: that it was accepted is known.
        paths = {path for path in self.root.iterdir() if path.is_dir()}
        for path in sorted(paths.union(accepted)):
            entry = read_record(EntryRecord, path / records.ENTRY) or accepted.get(path)
            if path.name.isdigit() and int(path.name) in self._forgotten:
                records.remove_folder(path)  # the agent stopped before it had
            elif entry is None and (path / records.LAUNCH).exists():
                # Damaged after it was accepted: it may have run, so it must not run again.
                logger.error("%s has no readable entry; look into it and remove it", path)
                if path.name.isdigit():
                    self._forgotten.add([int(path.name)])
            elif entry is None:
                logger.warning("removing %s: the agent stopped before it was complete", path)
                shutil.rmtree(path, ignore_errors=True)
            else:
                found.append(Slot(path, entry))
        return found

    def open(self, assignment: Assignment) -> Slot:
        """Make the folder; the attempt is accepted once `accept` has returned."""
        path = self.root / str(assignment.fence)
        self._make_folder(path)
        entry = EntryRecord(processes.boot_id(), time.time(), assignment)
        return Slot(path, entry, is_new=True)

    def _make_folder(self, path: Path) -> None:
        """Equals making it: a spare one has nothing under a name that is read."""
        while self._folders and not path.exists():
            with suppress(OSError):
                os.rename(self._folders.pop(), path)
                return
        path.mkdir(mode=0o700)

    def accept(self, slots: Sequence[Slot]) -> None:
        """Make their entries durable; only then may anything of the attempts happen.

        All of them in one file: flushing takes as long for eight as for one. Equals writing and
        flushing each entry and its folder, which the next agent makes of it.
        """
        fences = {slot.entry.assignment.fence for slot in slots}
        path = self.root / f"{_ACCEPTED}{max(fences)}"
        entries = tuple(slot.entry for slot in slots)
        if self._files:
            with suppress(OSError):
                os.rename(self._files.pop(), path.with_name(records.spare_name(path.name)))
        write_record(path, AcceptedRecord(entries), durable=True)
        self._accepted[path] = fences

    def was_forgotten(self, fence: int) -> bool:
        """Whether this fence was here, ended and was deleted."""
        return fence in self._forgotten

    def is_gone(self, fence: int) -> bool:
        """Whether it was here and nothing of it is left; what was damaged may still run."""
        return fence in self._forgotten and not (self.root / str(fence)).exists()

    def forget(self, slots: Sequence[Slot]) -> None:
        """Delete slots whose end and log are stored; their fences stay known."""
        fences = [slot.entry.assignment.fence for slot in slots]
        self._forgotten.add(fences)
        is_noted = self._forgotten.note(fences)
        reach("agent.forgotten")
        for slot in slots:
            self._put_away(slot)
        # What was deleted makes room on a full disk.
        if not is_noted and not self._forgotten.note(fences):
            logger.error("cannot write %s", self._forgotten.path)
        self._let_go(fences)

    def _put_away(self, slot: Slot) -> None:
        """Delete its folder, or keep it for a later attempt."""
        place = self.root / f"{_SPARE}{slot.path.name}"
        is_wanted = slot.is_new and len(self._folders) < _MOST_SPARE
        with suppress(OSError):
            if is_wanted and records.put_by(slot.path, place):
                self._folders.append(place)
                return
        records.remove_folder(slot.path)

    def _let_go(self, fences: Sequence[int]) -> None:
        """Delete what was accepted together once all of it is forgotten."""
        for path, left in list(self._accepted.items()):
            left.difference_update(fences)
            if not left:
                del self._accepted[path]
                if len(self._files) < _MOST_SPARE:
                    spare = path.with_name(records.spare_name(path.name))
                    with suppress(OSError):
                        os.rename(path, spare)
                        self._files.append(spare)
                else:
                    _delete(path)

    def _drop_spares(self) -> None:
        """Delete what an earlier agent kept; after a power loss nobody knows what it holds."""
        for path in self.root.glob(f"{_SPARE}*"):
            records.remove_folder(path)
        for path in self.root.glob(records.spare_name(f"{_ACCEPTED}*")):
            _delete(path)

    def _read_accepted(self) -> dict[Path, EntryRecord]:
        """By folder what was accepted and is not forgotten, as the durable files say."""
        entries = {}
        for path in self.root.glob(f"{_ACCEPTED}*"):
            accepted = read_record(AcceptedRecord, path)
            known = {one.assignment.fence: one for one in accepted.entries} if accepted else {}
            self._accepted[path] = {fence for fence in known if fence not in self._forgotten}
            entries.update(known)
        self._let_go([])
        known = {fence: one for fence, one in entries.items() if fence not in self._forgotten}
        return {self.root / str(fence): one for fence, one in known.items()}

    def _restore(self, entries: dict[Path, EntryRecord]) -> None:
        """Write each entry that was accepted into its own folder, unless an earlier agent did.

        Where the disk is full, a later agent does.
        """
        for path, entry in entries.items():
            with suppress(OSError):
                if read_record(EntryRecord, path / records.ENTRY) is None:
                    path.mkdir(mode=0o700, exist_ok=True)
                    write_record(path / records.ENTRY, entry)


def _delete(path: Path) -> None:
    with suppress(OSError):  # a disk that takes nothing is told, not died of
        path.unlink()
