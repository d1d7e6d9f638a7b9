"""One attempt's share of this node: prepare, launch, adopt, stop, report."""

from __future__ import annotations

import dataclasses
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from scheduler.agent.gpus import GpuProblem
from scheduler.agent.runtime import killing, processes
from scheduler.agent.runtime.forking.forkserver import Forkserver
from scheduler.agent.runtime.forking.overdue import Deadlines, send
from scheduler.agent.runtime.records import (
    ExitRecord,
    LaunchRecord,
    StopRecord,
    SupervisorRecord,
)
from scheduler.agent.runtime.space.memory import memory_folder, remove_memory_folder
from scheduler.agent.runtime.space.scratch import remove_scratch
from scheduler.agent.setup.folders import attempt_folder
from scheduler.agent.setup.identities import NoFreeUid
from scheduler.agent.setup.ports import NoFreePort, hold_port
from scheduler.agent.setup.prepare import Ground, prepare
from scheduler.agent.setup.problems import SetupProblem, SetupStopped
from scheduler.agent.spool import Slot
from scheduler.agent.watch import CheckpointWatch
from scheduler.failpoints import reach
from scheduler.states import AttemptState, EndReason
from scheduler.wire.messages import AttemptReport

_CLAIM_S = 15.0
_STOPPED_EARLY = "stopped before the program was started"

logger = logging.getLogger(__name__)


class Attempt:
    """An accepted attempt. Its truth lies in the slot's files; this object only reads ahead."""

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.assignment = slot.entry.assignment
        self.launch: LaunchRecord | None = slot.launch()
        self.supervisor: SupervisorRecord | None = slot.supervisor()
        self.started_at: float | None = None
        self.stop_order: StopRecord | None = slot.stop()
        self.end: ExitRecord | None = slot.exit()
        # A full disk kept it from its supervisor so far.
        self._owes_order = False
        self.deadlines = Deadlines(slot.time_limit_s, ordered=self.stop_order is not None)
        self.checkpoints: CheckpointWatch | None = None
        self._port: socket.socket | None = None
        self.is_preparing = False
        self._asked_at: float | None = None
        self.known_since = time.monotonic()
        self._lock = threading.RLock()
        self._reported: tuple[object, AttemptReport] | None = None
        self.master_port = self.assignment.master_port
        if self.launch is not None:
            self.master_port = self.launch.master_port

    @property
    def fence(self) -> int:
        return self.assignment.fence

    def reserve_port(self, ports: tuple[int, int]) -> None:
        """Rank 0's part: a port that the others will be told; may raise NoFreePort, OSError."""
        if self.assignment.rank == 0:
            self._port = hold_port(self.assignment.addresses[0], ports)
            self.master_port = int(self._port.getsockname()[1])

    def is_brief(self) -> bool:
        """Whether to prepare it is a matter of a moment: nothing to fetch, to read or to ask."""
        order, launch = self.assignment, self.assignment.launch
        waits = launch.code.git_url or launch.code.folder or launch.secrets or launch.checkpoint_dir
        return order.attempt_number == 1 and order.resume is None and not waits

    def begin(self, ground: Ground, forkserver: Forkserver) -> None:
        """Prepare and launch; failures become the attempt's end."""
        try:
            ground = dataclasses.replace(ground, is_stopped=self.is_stopping)
            launch = prepare(self.assignment, ground)
            with self._lock:
                if self.is_stopping():
                    remove_memory_folder(launch.memory_folder)
                    raise SetupStopped
                reach("agent.prepared")
                self.slot.write_launch(launch)
                reach("agent.launching")
                self.launch = launch
                self._asked_at = time.monotonic()
                forkserver.launch(self.slot.path, self._port)
                reach("agent.launched")
        except SetupStopped:
            self.end_early()
        except SetupProblem as problem:
            self.end_early(EndReason.SETUP_FAILED, str(problem))
        except (OSError, NoFreeUid, NoFreePort, GpuProblem) as problem:
            logger.exception("attempt %d could not be prepared", self.fence)
            self.end_early(EndReason.START_FAILED, str(problem))
        except Exception as problem:
            logger.exception("attempt %d could not be prepared", self.fence)
            self.end_early(EndReason.START_FAILED, f"the agent failed: {problem!r}")
        finally:
            self.is_preparing = False
            if self._port is not None:
                self._port.close()
                self._port = None

    def is_stopping(self) -> bool:
        return self.stop_order is not None

    def end_early(self, reason: EndReason | None = None, detail: str = _STOPPED_EARLY) -> None:
        """Record the end of an attempt whose program never began; a stop order's reason and words
        win: it is nothing that went wrong here."""
        with self._lock:
            if self.end is not None or not self._claim():
                return
            if self.stop_order is not None:
                reason, detail = self.stop_order.reason, self.stop_order.detail
            self._record(ExitRecord(reason or EndReason.START_FAILED, time.time(), detail=detail))

    def _claim(self) -> bool:
        try:
            return self.slot.void()
        except OSError:
            logger.exception("cannot claim attempt %d", self.fence)
            return self._asked_at is None  # nobody else was asked to start it

    def _record(self, end: ExitRecord) -> None:
        self.end = end
        try:
            self.slot.write_exit(end)
        except OSError:
            logger.exception("the end of attempt %d is only in memory", self.fence)

    def refresh(self, reached_at: float) -> None:
        """Look what became of it; the server was reached last `reached_at` since the boot."""
        with self._lock:
            if self.end is not None:
                return
            self.end = self._seen_end()
            if self.started_at is None:
                started = self.slot.started()
                self.started_at = started.started_at if started else None
                if started is not None:
                    self.deadlines.note_start()
            if self.end is None and not self.is_preparing:
                self._check_supervisor(reached_at)

    def _check_supervisor(self, reached_at: float) -> None:
        entry = self.slot.entry
        if entry.boot_id != processes.boot_id():
            detail = "the node was restarted while the attempt was here"
            self._record(self._lost(detail))
            return
        self.supervisor = self.supervisor or self.slot.supervisor()
        if self.supervisor is None:
            waited_s = time.monotonic() - self._asked_at if self._asked_at else _CLAIM_S
            if waited_s >= _CLAIM_S:
                self.end_early(detail="the agent stopped before the program was started")
            return
        if self.supervisor.pid == 0:
            self._record(ExitRecord(EndReason.START_FAILED, time.time(), detail=_STOPPED_EARLY))
            return
        why, guard = "", self.supervisor
        if processes.is_alive(guard.pid, guard.start_ticks):
            if self._owes_order and self.stop_order is not None:
                with suppress(OSError):
                    self._pass_order(self.stop_order)
            stop, owes = self.stop_order, self._owes_order
            why = self.deadlines.enforce(self.launch, stop, guard, reached_at, is_alone=owes)
            if not why:
                return
        # It may have written its record and gone between our two looks.
        self.end = self._seen_end()
        if self.end is None:
            self._bury(why)

    def _seen_end(self) -> ExitRecord | None:
        """As the supervisor saw it; why, the agent knows, where it had to carry out the order."""
        end, order = self.slot.exit(), self.stop_order
        if end is None or order is None or not (self._owes_order and self.deadlines.has_killed):
            return end
        if end.end_reason != EndReason.EXIT_CODE:
            return end
        return dataclasses.replace(end, end_reason=order.reason, detail=order.detail)

    def _bury(self, why: str) -> None:
        """It is gone without a word, or had to: kill what it left, then say so honestly."""
        left: list[int] = []
        if self.launch is not None and self.supervisor is not None:
            launch = self.launch
            left = killing.kill_remains(launch.marker, launch.uid, self.supervisor.cgroups)
        detail = "the supervisor was lost; how the program ended is unknown"
        if why:
            detail += f"; {why}, but its supervisor did not run"
        detail += f"; could not be killed: {', '.join(map(str, left[:8]))}" if left else ""
        logger.error("attempt %d: %s", self.fence, detail)
        self._record(self._lost(detail))

    def _lost(self, detail: str) -> ExitRecord:
        size, now = self.slot.log_size(), time.time()
        return ExitRecord(EndReason.NODE_LOST, now, self.started_at, None, detail, size)

    def order_stop(self, reason: EndReason, grace_s: float, detail: str = "") -> None:
        """Stop it, once; a shorter grace than before replaces the order. Never blocks."""
        with self._lock:
            old = self.stop_order
            if self.end is not None or (old is not None and old.grace_s <= grace_s):
                return
            reason = old.reason if old is not None else reason
            self.stop_order = StopRecord(reason, grace_s, detail)
            self.deadlines.note_order()
            try:
                self._pass_order(self.stop_order)
            except OSError:
                logger.exception("cannot write the stop order of attempt %d yet", self.fence)

    def _pass_order(self, order: StopRecord) -> None:
        """Write it where the supervisor looks. Raises OSError: until then the agent owes it."""
        self._owes_order = True
        self.slot.write_stop(order)
        reach("agent.stop-written")
        self._owes_order = False
        self.supervisor = self.supervisor or self.slot.supervisor()
        if self.supervisor is not None:
            send(self.supervisor, signal.SIGUSR1)

    def drop(self) -> bool:
        """Kill it because the server does not list it any more: another copy may run by now, and
        nobody would go on from what it saved. False when that was ordered before."""
        order = self.stop_order
        if self.end is not None or (order is not None and order.grace_s <= 0):
            return False
        self.order_stop(EndReason.NODE_LOST, 0, "the server no longer lists this attempt")
        return True

    def report(self, *, with_patch: bool = True) -> AttemptReport:
        """What the server should know now; the patch is large, so it need be told once only.

        The same object as before while there is nothing new: it is asked for at every pulse.
        """
        end, launch, watch = self.end, self.launch, self.checkpoints
        size = end.log_size if end else self.slot.log_size()
        seen = watch and (watch.confirmed, watch.is_done, watch.problem)
        known = (end, launch, self.stop_order, self.started_at, self.master_port)
        basis = (*known, size, seen, with_patch)
        if self._reported is None or self._reported[0] != basis:
            self._reported = basis, self._report(with_patch=with_patch)
        return self._reported[1]

    def _report(self, *, with_patch: bool) -> AttemptReport:
        end, launch, watch = self.end, self.launch, self.checkpoints
        return AttemptReport(
            fence=self.fence,
            rank=self.assignment.rank,
            state=self._word(),
            master_port=self.master_port,
            started_at=end.started_at if end else self.started_at,
            ended_at=end.ended_at if end else None,
            exit_code=end.exit_code if end else None,
            end_reason=end.end_reason if end else None,
            detail=end.detail if end else "",
            log_size=end.log_size if end else self.slot.log_size(),
            code_commit=launch.code_commit if launch else "",
            code_patch=launch.code_patch if launch and with_patch else "",
            resumed_from=launch.resumed_from if launch else "",
            resumed_step=launch.resumed_step if launch else None,
            resume_problem=launch.resume_problem if launch else "",
            checkpoint=watch.confirmed if watch else None,
            checkpoint_pending=bool(end and watch and not watch.is_done),
            checkpoint_problem=watch.problem if watch else "",
        )

    def _word(self) -> AttemptState:
        if self.end is not None:
            return AttemptState.ENDED
        if self.stop_order is not None:
            return AttemptState.STOPPING
        return AttemptState.RUNNING if self.started_at else AttemptState.STARTING

    def clean_up(self, work: Path, agent: str, remove: Callable[[Path], object]) -> None:
        """Have its scratch removed, and its memory also where its start was broken off.

        The working folder stays for a while, for people to look into. `agent` names its memory.
        """
        rank = self.assignment.rank
        remove_scratch(attempt_folder(work, self.fence, rank) / "scratch", remove)
        remove(memory_folder(agent, self.fence, rank))
