"""What is new on this node for the server, and when it is worth a call; which answers count."""

from __future__ import annotations

import hashlib
import logging
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from scheduler.agent.config import Options
from scheduler.agent.runtime.space.contact import contact_of, since_boot, write_contact
from scheduler.wire.messages import AttemptReport

# That an attempt has begun is nothing to hurry for: a moment later there is more to say.
_UNHURRIED_S = 0.05
# Supervisors count minutes from a contact; a busy agent has one every few milliseconds.
_NOTE_EVERY_S = 0.25

_HINTS_AT_ONCE = 1000
_LONGEST_HINT = 20

logger = logging.getLogger(__name__)


class Heard:
    """How far the server's word has come; `revision` is the one that was acted on last."""

    def __init__(self) -> None:
        self.revision = 0
        self._acted_at = 0.0

    def takes(self, revision: int, sent_at: float) -> bool:
        """Whether to act on an answer to a call made at monotonic `sent_at`; it counts from now."""
        if revision < self.revision:
            if sent_at <= self._acted_at:
                return False
            # Asked after we acted on the higher number: this answer is not late, the server was
            # put back to an earlier copy of its database, and its word counts.
            logger.warning("the server went back from revision %d to %d", self.revision, revision)
        self.revision, self._acted_at = revision, time.monotonic()
        return True


class Contact:
    """When the server was reached last, in files from which supervisors count.

    `paths`: below the state folder, where supervisors of earlier agents look, and in memory.
    `at`: the same as this agent knows it, as `since_boot` counts.
    """

    def __init__(self, path: Path, in_memory: Path, boot_id: str) -> None:
        self.paths = (path, in_memory)
        self._boot_id = boot_id
        self._noted_at = -_NOTE_EVERY_S
        self._failed: set[Path] = set()
        # As an earlier agent of this boot left it; now, where none did.
        self.at = contact_of(self.paths, boot_id) or since_boot()

    def note(self, sent_at: float) -> None:
        """It was, by a call made at `sent_at`; one that is hardly newer is left out."""
        self.at = max(self.at, sent_at)
        if sent_at < self._noted_at + _NOTE_EVERY_S:
            return
        # Both, whatever becomes of the first.
        written = [self._write(path, sent_at) for path in self.paths]
        if any(written):
            self._noted_at = sent_at

    def close(self) -> None:
        """Nobody counts from it any more: give the copy's memory back."""
        with suppress(OSError):
            self.paths[1].unlink()

    def _write(self, path: Path, sent_at: float) -> bool:
        try:
            write_contact(path, self._boot_id, sent_at)
        except OSError as problem:
            if path not in self._failed:
                logger.warning("cannot write %s: %s", path, problem)
            self._failed.add(path)
            return False
        self._failed.discard(path)
        return True


class News:
    """Compares what is to be reported with what the server was told."""

    def __init__(self) -> None:
        self._told: dict[int, AttemptReport] = {}
        self._asked_at = 0.0
        self._since: float | None = None

    def note_told(self, reports: tuple[AttemptReport, ...], asked_at: float | None = None) -> None:
        """The server has these now, told by a call that was made at monotonic `asked_at`.

        A call that was held while another told more brings nothing that it did not know.
        """
        asked_at = time.monotonic() if asked_at is None else asked_at
        if asked_at < self._asked_at:
            return
        self._asked_at, self._since = asked_at, None
        self._told = {report.fence: report for report in reports}

    def is_due(
        self, reports: tuple[AttemptReport, ...], is_awaited: Callable[[AttemptReport], bool]
    ) -> bool:
        """Whether to call now; news that nobody awaits waits a moment for more."""
        fresh = [one for one in reports if self._is_fresh(one)]
        if not fresh or any(map(is_awaited, fresh)):
            return bool(fresh)
        self._since = self._since or time.monotonic()
        return time.monotonic() >= self._since + _UNHURRIED_S

    def _is_fresh(self, report: AttemptReport) -> bool:
        told = self._told.get(report.fence)
        if told is report:
            return False
        return told is None or _telling(told) != _telling(report)

    def due_at(self) -> float | None:
        """When news that waits is due, monotonic; None while there is none."""
        return None if self._since is None else self._since + _UNHURRIED_S


def _telling(report: AttemptReport) -> AttemptReport:
    """What is worth a call of its own; a growing log is not, it has its own way."""
    log_size = report.log_size if report.end_reason else 0
    return replace(report, code_patch="", log_size=log_size)


def hint_address(options: Options) -> str:
    """The agent's name in memory that all users share; the same after every restart."""
    mark = hashlib.sha256(os.fsencode(options.state.resolve())).hexdigest()[:24]
    return f"trainyard-agent-{mark}"


def hint_place(options: Options) -> Path:
    """The socket on which supervisors wake the agent, in a folder that no job's user can pass."""
    return options.state.resolve() / "hints" / "socket"


def listen_for_hints(place: Path) -> socket.socket:
    """The socket there, made anew. Where none can be had nobody is heard: the agent looks itself
    once a second."""
    hints = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    hints.setblocking(False)
    try:
        place.parent.mkdir(mode=0o700, exist_ok=True)
        place.parent.chmod(0o700)
        place.unlink(missing_ok=True)
        hints.bind(str(place))
    except OSError as problem:
        logger.warning("ends are seen a little later, for %s cannot be made: %s", place, problem)
    return hints


def hinted(hints: socket.socket) -> set[int]:
    """The fences that were named since the last look, at most as many as one look takes in."""
    fences = set()
    with suppress(OSError):
        for _ in range(_HINTS_AT_ONCE):
            said = hints.recv(_LONGEST_HINT)
            if said.isdigit():
                fences.add(int(said))
    return fences
