"""A node as `scheduler/wire/README.md` describes it, without processes and without a clock.

What its agent and its supervisors would do is done here by their rules: accept a fence once, keep
it in the spool until it is forgotten, run on without the server for the grace time, report until
told otherwise. What runs is written down as lives, which is what promises are checked against.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from scheduler.models import Node
from scheduler.states import AttemptState, EndReason
from scheduler.wire.messages import (
    PROTOCOL,
    Assignment,
    AttemptReport,
    DeviceFacts,
    SyncReply,
    SyncRequest,
)

STARTS_AFTER_S = 2.0


@dataclass
class Life:
    """One process of a rank, from its start to its end; None while it lives."""

    job: int
    fence: int
    node: str
    devices: tuple[str, ...]
    since: float
    until: float | None = None


@dataclass
class Slot:
    """An accepted fence: what the spool keeps of it."""

    order: Assignment
    accepted_at: float
    life: Life | None = None
    runs_s: float = 0.0
    exit_code: int = 0
    stop_at: float | None = None
    stop_reason: EndReason | None = None
    end: tuple[EndReason, int | None] | None = None
    ended_at: float | None = None

    def report(self) -> AttemptReport:
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
            started_at=self.life.since if self.life else None,
            exit_code=self.end[1] if self.end else None,
            end_reason=self.end[0] if self.end else None,
        )


@dataclass
class SimNode:
    """Its agent (`is_up`), its host (`boot`), and the wire to the server (`is_cut`)."""

    row: Node
    grace_s: float
    lives: list[Life]
    devices: tuple[DeviceFacts, ...]
    boot: int = 1
    is_up: bool = True
    is_cut: bool = False
    revision: int = 0
    acted_at: float = -1.0
    contact_at: float = 0.0
    is_introduced: bool = False
    slots: dict[int, Slot] = field(default_factory=dict)
    forgotten: set[int] = field(default_factory=set)
    plans: list[tuple[float, int]] = field(default_factory=list)

    def request(self, now: datetime) -> SyncRequest:
        """What the agent says now."""
        request = SyncRequest(
            protocol=PROTOCOL,
            agent_version="0.1.0",
            agent_id="agent",
            boot_id=f"boot-{self.boot}",
            seen_revision=self.revision,
            hold_s=0.0,
            sent_at=now.timestamp(),
            reports=tuple(slot.report() for slot in self.slots.values()),
            # The first node's agent is an older one.
            takes_kept=self.row.name != "n1",
        )
        if not self.is_introduced:
            request = replace(request, devices=self.devices, troubles=())
        return request

    def hear(self, reply: SyncReply, sent_at: float, now: float) -> None:
        """The answer to a call made at `sent_at`."""
        self.is_introduced = True
        self.contact_at = max(self.contact_at, sent_at)
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
                self._stop(slot, EndReason.NODE_LOST, 30, now)

    def _bring_to(self, order: Assignment, now: float) -> None:
        slot = self.slots.get(order.fence)
        if slot is None:
            waits = order.rank > 0 and order.master_port is None and order.stop is None
            if order.fence in self.forgotten or waits:
                return
            slot = self.slots[order.fence] = Slot(order, now)
            slot.runs_s, slot.exit_code = self.plans.pop() if self.plans else (120.0, 0)
        if order.stop is not None:
            self._stop(slot, order.stop.reason, order.stop.grace_s, now)

    def _stop(self, slot: Slot, reason: EndReason, grace_s: float, now: float) -> None:
        if slot.end is None and slot.stop_reason is None:
            slot.stop_reason, slot.stop_at = reason, now + grace_s
            if slot.life is None:
                self._end(slot, reason, None, now)

    def _end(self, slot: Slot, reason: EndReason, code: int | None, at: float) -> None:
        slot.end, slot.ended_at = (reason, code), at
        if slot.life is not None:
            slot.life.until = at

    def tick(self, now: float) -> None:
        """What the supervisors do until `now`, each at its own moment."""
        for slot in self.slots.values():
            if slot.end is not None:
                continue
            begins = slot.accepted_at + STARTS_AFTER_S
            if slot.life is None and begins <= now:
                order = slot.order
                slot.life = Life(
                    order.job_id, order.fence, self.row.name, order.device_uuids, begins
                )
                self.lives.append(slot.life)
            if slot.life is None:
                continue
            limit = slot.life.since + slot.order.launch.time_limit_s
            # Agents that do not know what a job asks for keep to their own.
            asked_s = slot.order.launch.disconnect_grace_s if self.row.name != "n1" else 0
            grace_s = asked_s or self.grace_s
            ends = [
                (slot.life.since + slot.runs_s, EndReason.EXIT_CODE, slot.exit_code),
                (limit, EndReason.TIME_LIMIT, None),
                (max(slot.life.since, self.contact_at + grace_s), EndReason.NODE_LOST, None),
            ]
            if slot.stop_at is not None and slot.stop_reason is not None:
                ends.append((max(slot.life.since, slot.stop_at), slot.stop_reason, None))
            at, reason, code = min(ends, key=lambda end: end[0])
            if at <= now:
                done = reason is EndReason.EXIT_CODE and code == 0
                self._end(slot, EndReason.COMPLETED if done else reason, code, at)

    def reboot(self, now: float) -> None:
        """The host goes down and comes up: nothing is started again."""
        self.tick(now)
        self.boot += 1
        for slot in self.slots.values():
            if slot.end is None:
                self._end(slot, EndReason.NODE_LOST, None, now)
        self.restart_agent()

    def restart_agent(self) -> None:
        """The agent comes back with what the spool knows."""
        self.is_up, self.is_introduced, self.revision, self.acted_at = True, False, 0, -1.0


def facts_of(row: Node) -> tuple[DeviceFacts, ...]:
    return tuple(
        DeviceFacts(d.uuid, d.index, d.model, d.memory_mib, simulated=True)
        for d in row.devices.order_by("index")
    )
