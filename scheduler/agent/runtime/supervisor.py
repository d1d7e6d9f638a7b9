"""Guards one attempt from start to end; outlives the agent that asked for it.

1. Claim the attempt: whoever creates `supervisor.json` owns it, so it starts at most once.
2. Set limits, start the local processes.
3. Say so, unless they end at once. Watch: log, exits, stop orders, time limit, memory, contact.
4. Stop: signal, grace, kill. The first non-zero exit stops the others.
5. Kill everything left behind, drain the log, write the exit record durably, then say so.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from scheduler.agent.runtime import kernel, killing, limits, notices, processes, records
from scheduler.agent.runtime.capture import LogCapture
from scheduler.agent.runtime.children import StartProblem, as_user, exit_code, start_process
from scheduler.agent.runtime.ending import record_end
from scheduler.agent.runtime.records import ExitRecord, LaunchRecord, StopRecord
from scheduler.agent.runtime.redaction import secrets_of
from scheduler.agent.runtime.space import memory
from scheduler.agent.runtime.space.contact import Silence
from scheduler.agent.runtime.wakeups import Wakeups
from scheduler.failpoints import reach
from scheduler.states import EndReason

_TICK_S = 0.25
_LOOK_S = 0.1
_KILLING_S = 0.02
_BREATH_S = 0.005
_UNKILLABLE_S = 60.0
# A program that ends sooner is told of once, with its end.
_BRIEF_S = 0.03


class Supervisor:
    """One attempt's guardian. `port_holder` keeps rank 0's port until the program starts."""

    def __init__(
        self, spool: Path, launch: LaunchRecord, port_holder: socket.socket | None = None
    ) -> None:
        self.spool = spool
        self.launch = launch
        self.port_holder = port_holder
        self.limits = limits.Limits(launch.memory_mib)
        self.mains: dict[int, int | None] = {}
        self.news: list[int] = []
        self.first_failure: int | None = None
        self.stop: StopRecord | None = None
        self.asking = killing.Asking(os.getpid())
        self.kill_at: float | None = None
        self.killed_at: float | None = None
        contacts = launch.last_sync_path, launch.last_sync_in_memory
        self.silence = Silence(contacts, processes.boot_id())
        self.looked_at = 0.0
        self.notes: list[str] = []
        self.began = time.monotonic()
        self.started_at: float | None = None
        self.told_start = False
        self.wakeups = Wakeups()

    def supervise(self) -> None:
        """Carry the attempt to its end; returns once the exit record is durable."""
        kernel.become_subreaper()
        self.wakeups.listen()
        self.limits = limits.set_limits(
            f"trainyard-{self.launch.fence}-{os.getpid()}",
            memory_mib=self.launch.memory_mib,
            cpus=self.launch.cpus,
            with_groups=self.launch.control_groups,
        )
        try:
            if not self._claim():
                return
            path, secrets = self.spool / records.LOG, secrets_of(self.launch)
            cap_mib, spool = self.launch.log_cap_mib, self.spool.parent
            with LogCapture(path, cap_mib, secrets, spool=spool) as log:
                try:
                    end = self._run(log)
                except StartProblem as problem:
                    end = ExitRecord(problem.end_reason, time.time(), detail=str(problem))
                self._finish(log, end)
        finally:
            self.limits.remove()
            memory.remove_memory_folder(self.launch.memory_folder)
            self.wakeups.close()

    def _run(self, log: LogCapture) -> ExitRecord:
        """Start and watch; nothing begins that would have to end at once."""
        silence_s = self.silence.seconds()
        if silence_s > self.launch.disconnect_grace_s:
            return ExitRecord(EndReason.NODE_LOST, time.time(), detail=notices.unreached(silence_s))
        self._start(log)
        self._watch(log)
        return self._judge()

    def is_reusable(self) -> bool:
        """Whether nothing of the attempt is left in this process or below it."""
        return not self.notes and not self.wakeups.host_stops

    def _claim(self) -> bool:
        pid, groups = os.getpid(), tuple(map(str, self.limits.groups))
        boot, ticks = processes.boot_id(), processes.start_ticks(pid) or 0
        me = records.SupervisorRecord(self.launch.fence, boot, pid, ticks, groups)
        return records.claim_record(self.spool / records.SUPERVISOR, me)

    def _start(self, log: LogCapture) -> None:
        if self.port_holder is not None:
            self.port_holder.close()
        deadline = {}
        if self.launch.time_limit_s > 0:
            deadline["TRAINYARD_DEADLINE_EPOCH"] = str(int(time.time()) + self.launch.time_limit_s)
        for own in self.launch.processes:
            env = {**self.launch.env, **deadline, **own}
            try:
                pid, news = start_process(self.launch, env, log.write_end, self.limits)
            except StartProblem:
                self._kill_everything(log)
                raise
            self.mains[pid] = None
            self.news += news
        log.close_write_end()
        reach("supervisor.started")
        self.began = time.monotonic()
        self.started_at = time.time()

    def _tell_of_start(self) -> None:
        """Say that the program runs, once the disk takes it, unless it was a matter of a moment."""
        if not self.told_start and time.monotonic() >= self.began + _BRIEF_S:
            since = self.started_at or time.time()
            started = records.StartedRecord(since, tuple(self.mains), self.launch.fence)
            with suppress(OSError):
                records.write_record(self.spool / records.STARTED, started)
                self.told_start = True
                self._hint()

    def _watch(self, log: LogCapture) -> None:
        poll = select.poll()
        poll.register(self.wakeups.read_end, select.POLLIN)
        poll.register(log.read_end, select.POLLIN)
        while (self._answers() or self._living()) and not self._is_unkillable():
            self._tell_of_start()
            ready = {number for number, _ in poll.poll(self._patience() * 1000)}
            if log.read_end in ready and not log.take():
                poll.unregister(log.read_end)
            if self.wakeups.read_end in ready:
                self.wakeups.take()
            elif time.monotonic() - self.looked_at < _LOOK_S:
                # Only output: let a talkative program fill the pipe a little first.
                time.sleep(_BREATH_S)
                continue
            self._look()

    def _look(self) -> None:
        self.looked_at = time.monotonic()
        self._reap()
        # Done is done, though this look comes late; the host's signal went to the program as well.
        if {*self.mains.values()} == {0} and not (self.stop or self.wakeups.host_stops):
            return
        self._obey()
        self._check()
        self._press()

    def _living(self) -> list[int]:
        """The local processes not reaped yet: another's pid may be somebody else's by now."""
        return [pid for pid, code in self.mains.items() if code is None]

    def _answers(self) -> bool:
        """Whether who was asked to stop still uses the time it has for that."""
        has_time = self.kill_at is not None and time.monotonic() < self.kill_at
        return has_time and self.asking.goes_on(self._living())

    def _patience(self) -> float:
        if not self.told_start:
            return _BRIEF_S
        if self.kill_at is None:
            return _TICK_S
        if self.killed_at is not None:
            return _KILLING_S
        tick_s = _KILLING_S if self.asking.held else _TICK_S
        return max(0.0, min(tick_s, self.kill_at - time.monotonic()))

    def _reap(self) -> None:
        for pid, status in killing.reaped():
            if pid not in self.mains:
                continue
            code = exit_code(self.launch, status)
            self.mains[pid] = code
            if code != 0 and self.first_failure is None and self.stop is None:
                self.first_failure = code
                if self._living():
                    self._begin_stop(StopRecord(EndReason.EXIT_CODE, self.launch.stop_grace_s))

    def _obey(self) -> None:
        order = records.read_record(StopRecord, self.spool / records.STOP)
        if order is not None:
            self._begin_stop(order)
        elif self.wakeups.host_stops and self.stop is None:
            detail = "the node is shutting down"
            self._begin_stop(StopRecord(EndReason.NODE_LOST, self.launch.stop_grace_s, detail))

    def _check(self) -> None:
        now = time.monotonic()
        limit_s, grace_s = self.launch.time_limit_s, self.launch.stop_grace_s
        if self.stop is None and 0 < limit_s <= now - self.began:
            told = records.read_record(records.LimitRecord, self.spool / records.LIMIT)
            limit_s = told.time_limit_s if told else limit_s
        if self.stop is None and 0 < limit_s <= now - self.began:
            self._begin_stop(StopRecord(EndReason.TIME_LIMIT, grace_s))
        silence_s = self.silence.seconds()
        if silence_s > self.launch.disconnect_grace_s:
            # Who slept meanwhile, or is being stopped, has no more time than anybody: another copy
            # may begin at any moment.
            left_s = max(0.0, grace_s - (silence_s - self.launch.disconnect_grace_s))
            self._begin_stop(StopRecord(EndReason.NODE_LOST, left_s, notices.unreached(silence_s)))
        self._check_memory()

    def _check_memory(self) -> None:
        if self.stop is not None and self.stop.reason != EndReason.EXIT_CODE:
            return
        evidence = self.limits.breach(os.getpid())
        if evidence:
            self.stop = StopRecord(EndReason.OUT_OF_MEMORY, 0, evidence)
            self.kill_at = time.monotonic()

    def _begin_stop(self, order: StopRecord) -> None:
        """Ask the program to stop; a later order can only bring the kill forward."""
        kill_at = time.monotonic() + order.grace_s
        if self.stop is not None:
            if self.kill_at is not None:
                self.kill_at = min(self.kill_at, kill_at)
            return
        self.stop, self.kill_at = order, kill_at
        if order.grace_s > 0:
            as_user(self.launch.uid, lambda: notices.leave_notice(self.launch.notice_dir, order))
            number = getattr(signal, self.launch.stop_signal, signal.SIGTERM)
            self.asking.begin(self._living(), number, in_sandbox=self.launch.sandbox is not None)

    def _press(self) -> None:
        if self.kill_at is None or time.monotonic() < self.kill_at:
            return
        self.killed_at = self.killed_at or time.monotonic()
        self.limits.kill()
        killing.signal_tree(os.getpid(), self._living(), signal.SIGKILL)

    def _is_unkillable(self) -> bool:
        return self.killed_at is not None and time.monotonic() - self.killed_at > _UNKILLABLE_S

    def _judge(self) -> ExitRecord:
        """Why it ended: an order outranks the exit code, evidence of memory outranks both."""
        code = self.first_failure
        if code is None:
            code = next((code for code in self.mains.values() if code), 0)
        reason, detail = EndReason.COMPLETED, ""
        if code:
            host_kill = self.limits.host_kill()
            reason = EndReason.NODE_LOST if host_kill else EndReason.EXIT_CODE
            detail = f"ended by signal {killing.signal_name(-code)}" if code < 0 else ""
            detail = "; ".join(filter(None, (detail, host_kill)))
        if self.stop is not None and self.stop.reason != EndReason.EXIT_CODE:
            reason, detail = self.stop.reason, self.stop.detail
        elif code:
            self._check_memory()
            if self.stop is not None and self.stop.reason == EndReason.OUT_OF_MEMORY:
                reason, detail = self.stop.reason, self.stop.detail
        shown = 128 - code if code < 0 else code
        return ExitRecord(reason, time.time(), self.started_at, shown, detail)

    def _finish(self, log: LogCapture, end: ExitRecord) -> None:
        self._kill_everything(log)
        for read_end in self.news:
            os.close(read_end)
        detail = " ".join(part for part in (end.detail, *self.notes) if part)
        end = replace(end, detail=detail, fence=self.launch.fence)
        record_end(self.spool, log, end, lambda: self.wakeups.host_stops)
        reach("supervisor.ended")
        self._hint()

    def _kill_everything(self, log: LogCapture) -> None:
        left = killing.kill_descendants(
            uid=self.launch.uid, limits=self.limits, drain=log.take, give_up_s=_UNKILLABLE_S
        )
        if left:
            shown = ", ".join(map(str, left[:8]))
            self.notes.append(f"Could not be killed: process {shown}; check the node.")

    def _hint(self) -> None:
        notices.wake_agent(self.launch.hint_address, self.launch.fence)
