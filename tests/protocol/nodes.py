"""A node as `scheduler/wire/README.md` describes it, without processes and without a clock.

What its agent and its supervisors would do is done here by their rules: accept a fence once, keep
it in the spool until it is forgotten, run on without the server for the grace time, report until
told otherwise. What runs is written down as lives, which is what promises are checked against.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from scheduler.models import Node
from scheduler.states import AttemptState, EndReason
from scheduler.wire.messages import (
    PROTOCOL,
    Assignment,
    AttemptReport,
    DeviceCheck,
    DeviceFacts,
    SyncReply,
    SyncRequest,
)
from tests import scenes
from tests.protocol.saving import Saved
from tests.protocol.streams import Stream

STARTS_AFTER_S = 2.0
# Whoever is asked to stop saves once more, but not for a node that is lost or a start that is late.
_SAVES = frozenset(EndReason) - {EndReason.NODE_LOST, EndReason.START_TIMEOUT}


@dataclass
class Life:
    """One process of a rank, from its start to its end; None while it lives."""

    job: int
    fence: int
    rank: int
    node: str
    devices: tuple[str, ...]
    since: float
    stream: Stream
    until: float | None = None
    code: int | None = None


@dataclass
class Slot:
    """An accepted fence: what the spool keeps of it."""

    order: Assignment
    accepted_at: float
    stream: Stream
    saved: Saved
    life: Life | None = None
    runs_s: float = 0.0
    exit_code: int = 0
    stop_at: float | None = None
    stop_reason: EndReason | None = None
    # When its supervisor will kill it, once that has asked it to stop by itself.
    own_kill: tuple[float, EndReason] | None = None
    end: tuple[EndReason, int | None] | None = None
    ended_at: float | None = None

    def report(self, ahead_s: float) -> AttemptReport:
        """What its agent says of it; moments by a clock that is so far ahead."""
        state = AttemptState.STARTING
        if self.end is not None:
            state = AttemptState.ENDED
        elif self.stop_reason is not None:
            state = AttemptState.STOPPING
        elif self.life is not None:
            state = AttemptState.RUNNING
        return AttemptReport(
            fence=self.order.fence,
            rank=self.order.rank,
            state=state,
            master_port=29500 if self.order.rank == 0 else None,
            started_at=moment_of(self.life.since) + ahead_s if self.life else None,
            ended_at=moment_of(self.ended_at) + ahead_s if self.ended_at is not None else None,
            exit_code=self.end[1] if self.end else None,
            end_reason=self.end[0] if self.end else None,
            log_size=len(self.stream.body()),
            **(self._progress() if self.order.rank == 0 else {}),
        )

    def _progress(self) -> dict[str, Any]:
        resumed = self.saved.resumed
        return {
            "checkpoint": self.saved.last,
            "checkpoint_pending": self.end is not None and self.saved.unread is not None,
            "resumed_from": resumed.path if resumed else "",
            "resumed_step": resumed.step if resumed else None,
            "resume_problem": self.saved.problem,
        }

    def begin(self, at: float, node: str) -> Life:
        """Its process starts, from what was saved before if it finds that."""
        order = self.order
        if order.rank == 0:
            self.saved.resume(order)
        self.life = Life(
            order.job_id, order.fence, order.rank, node, order.device_uuids, at, self.stream
        )
        return self.life

    def live_until(self, now: float) -> None:
        """What its process does until then: it prints, and rank 0 saves."""
        assert self.life is not None
        ran_s = now - self.life.since
        self.stream.grow(ran_s)
        if self.order.rank == 0:
            self.saved.run(self.order, ran_s, moment_of(now))

    def look_at_deadlines(self, now: float, grace_ends_at: float) -> None:
        """Its supervisor asks it to stop at the first that passes, and takes no stop back.

        The program uses all the time to stop in that it has.
        """
        assert self.life is not None
        launch = self.order.launch
        begins, reason = min(
            (self.life.since + launch.time_limit_s, EndReason.TIME_LIMIT),
            (max(self.life.since, grace_ends_at), EndReason.NODE_LOST),
        )
        if self.own_kill is None and begins <= now:
            self.own_kill = begins + launch.stop_grace_s, reason

    def finish(self, reason: EndReason, code: int | None, at: float) -> None:
        """Its process is over, if it ever began."""
        if self.life is not None:
            self.live_until(at)
            self.life.until, self.life.code = at, code
            if self.order.rank == 0 and self.stop_reason in _SAVES and reason is self.stop_reason:
                self.saved.stop(self.order, moment_of(at))
        self.end, self.ended_at = (reason, code), at


@dataclass
class SimNode:
    """Its agent (`is_up`), its host (`boot`), and the wire to the server (`is_cut`)."""

    row: Node
    grace_s: float
    lives: list[Life]
    devices: tuple[DeviceFacts, ...]
    files: dict[str, str]
    boot: int = 1
    starts: int = 1
    ahead_s: float = 0.0
    is_up: bool = True
    is_cut: bool = False
    revision: int = 0
    acted_at: float = -1.0
    contact_at: float = 0.0
    is_introduced: bool = False
    slots: dict[int, Slot] = field(default_factory=dict)
    forgotten: set[int] = field(default_factory=set)
    plans: list[tuple[float, int]] = field(default_factory=list)
    # Devices that the server wants to have tried out; all pass.
    asked: tuple[str, ...] = ()

    def request(self, now: datetime) -> SyncRequest:
        """What the agent says now."""
        request = SyncRequest(
            protocol=PROTOCOL,
            agent_version="0.1.0",
            agent_id=f"agent-{self.starts}",
            boot_id=f"boot-{self.boot}",
            seen_revision=self.revision,
            hold_s=0.0,
            sent_at=now.timestamp() + self.ahead_s,
            reports=tuple(slot.report(self.ahead_s) for slot in self.slots.values()),
            # The first node's agent is an older one.
            takes_kept=self.row.name != "n1",
            checks=tuple(DeviceCheck(uuid, True) for uuid in self.asked),
        )
        if not self.is_introduced:
            request = replace(request, devices=self.devices, troubles=())
        return request

    def hear(self, reply: SyncReply, sent_at: float, now: float) -> None:
        """The answer to a call made at `sent_at`."""
        self.is_introduced = True
        self.contact_at = max(self.contact_at, sent_at)
        self.asked = reply.check
        for slot in self.slots.values():
            if slot.end is not None and slot.ended_at is not None and slot.ended_at < sent_at:
                slot.saved.read_back()
        is_old = reply.revision < self.revision and not sent_at > self.acted_at
        if is_old:
            return
        self.revision, self.acted_at = reply.revision, now
        for fence in reply.forget:
            if fence in self.slots and self.slots[fence].end is not None:
                del self.slots[fence]
                self.forgotten.add(fence)
        wanted = {order.fence for order in reply.assignments}
        for order in reply.assignments:
            self._bring_to(order, now)
        wanted |= set(reply.kept)
        for fence, slot in self.slots.items():
            if fence not in wanted and slot.accepted_at < sent_at:
                # The first node's agent is an older one, which gives it its time to stop in.
                self._stop(slot, EndReason.NODE_LOST, 30 if self.row.name == "n1" else 0, now)

    def _bring_to(self, order: Assignment, now: float) -> None:
        slot = self.slots.get(order.fence)
        if slot is None:
            waits = order.rank > 0 and order.master_port is None and order.stop is None
            if order.fence in self.forgotten or waits:
                return
            stream = Stream((order.job_id, order.fence, order.rank))
            slot = self.slots[order.fence] = Slot(order, now, stream, Saved(self.files))
            slot.runs_s, slot.exit_code = self.plans.pop() if self.plans else (120.0, 0)
        if order.stop is not None:
            self._stop(slot, order.stop.reason, order.stop.grace_s, now)

    def _stop(self, slot: Slot, reason: EndReason, grace_s: float, now: float) -> None:
        if slot.end is None and slot.stop_reason is None:
            slot.stop_reason, slot.stop_at = reason, now + grace_s
            if slot.life is None:
                slot.finish(reason, None, now)

    def tick(self, now: float) -> None:
        """What the supervisors do until `now`, each at its own moment."""
        for slot in self.slots.values():
            if slot.end is not None:
                continue
            begins = slot.accepted_at + STARTS_AFTER_S
            if slot.life is None and begins <= now:
                self.lives.append(slot.begin(begins, self.row.name))
            if slot.life is None:
                continue
            # Agents that do not know what a job asks for keep to their own.
            asked_s = slot.order.launch.disconnect_grace_s if self.row.name != "n1" else 0
            slot.look_at_deadlines(now, self.contact_at + (asked_s or self.grace_s))
            ends: list[tuple[float, EndReason, int | None]] = [
                (slot.life.since + slot.runs_s, EndReason.EXIT_CODE, slot.exit_code)
            ]
            if slot.own_kill is not None:
                ends.append((*slot.own_kill, None))
            if slot.stop_at is not None and slot.stop_reason is not None:
                ends.append((max(slot.life.since, slot.stop_at), slot.stop_reason, None))
            at, reason, code = min(ends, key=lambda end: end[0])
            if at <= now:
                done = reason is EndReason.EXIT_CODE and code == 0
                slot.finish(EndReason.COMPLETED if done else reason, code, at)
            else:
                slot.live_until(now)

    def reboot(self, now: float) -> None:
        """The host goes down and comes up: nothing is started again."""
        self.tick(now)
        self.boot += 1
        for slot in self.slots.values():
            if slot.end is None:
                slot.finish(EndReason.NODE_LOST, None, now)
        self.restart_agent()

    def restart_agent(self) -> None:
        """The agent comes back with what the spool knows."""
        self.is_up, self.is_introduced, self.revision, self.acted_at = True, False, 0, -1.0
        self.starts += 1
        for slot in self.slots.values():
            slot.stream.acked = 0


def moment_of(seconds: float) -> float:
    """Seconds after noon as seconds since the epoch."""
    return scenes.at(seconds).timestamp()


def facts_of(row: Node) -> tuple[DeviceFacts, ...]:
    return tuple(
        DeviceFacts(d.uuid, d.index, d.model, d.memory_mib, simulated=True)
        for d in row.devices.order_by("index")
    )
