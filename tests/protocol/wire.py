"""Nodes, schedulers, time, and all that can happen to messages between them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db import transaction
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from accounts.errors import Conflict
from accounts.models import Project, User
from scheduler.conf import load_conf
from scheduler.engine.policy import Policy
from scheduler.loop.cycle import Scheduler
from scheduler.models import Node, SchedulerLease
from scheduler.services.calling.together import Call, sync_nodes
from scheduler.services.errors import LogGap
from scheduler.services.logs import append_log
from scheduler.services.submitting.ceilings import set_ceiling
from scheduler.wire.messages import SyncReply, SyncRequest
from tests import scenes
from tests.protocol.edges import watch_edges
from tests.protocol.nodes import Life, SimNode, Slot, facts_of
from tests.protocol.streams import Chunk

NODES, GPUS = 3, 2
# As seldom as a node may be heard without being called silent.
BEAT_S = 40.0
NUMBERS = st.integers(0, NODES - 1)
FATES = st.sampled_from(
    ["ok", "ok", "ok", "request lost", "reply lost", "twice", "late", "late reply"]
)
LOG_FATES = st.sampled_from(
    ["ok", "ok", "request lost", "reply lost", "twice", "late", "ahead", "all again", "other bytes"]
)
RUNS = st.sampled_from([(5.0, 0), (40.0, 0), (40.0, 1), (2000.0, 0), (1e9, 0)])
# Higher tiers stop lower ones, and elastic jobs change their size.
POLICY = Policy(preempts=True, resizes=True, min_run_s=30, rest_s=120)


class Wire(RuleBasedStateMachine):
    """Two schedulers, three nodes, one user; `now` is seconds after noon."""

    people: tuple[User, User, Project]

    def __init__(self) -> None:
        super().__init__()
        self.atomic = transaction.atomic()
        self.atomic.__enter__()
        self.root, self.alice, self.project = self.people
        set_ceiling(actor=self.root, owner=self.project, tier="production")
        cluster = scenes.build_cluster(self.root, nodes=NODES, gpus=GPUS)
        SchedulerLease.objects.all().delete()
        watch_edges()
        self.now = 0.0
        self.lives: list[Life] = []
        self.files: dict[str, str] = {}
        grace_s = float(load_conf().disconnect_grace_s)
        self.nodes = [
            SimNode(row, grace_s, self.lives, facts_of(row), self.files) for row in cluster.nodes
        ]
        self.schedulers = [Scheduler(holder=name, policy=POLICY) for name in "ab"]
        self.accepted: dict[str, int] = {}
        self.facts: list[dict[str, Any]] = []
        self.heard: dict[str, list[tuple[float, float]]] = {
            node.row.name: [] for node in self.nodes
        }
        self.copied: set[str] = set()
        self.late: list[tuple[SimNode, SyncRequest, float]] = []
        self.late_replies: list[tuple[SimNode, SyncReply, float]] = []
        self.late_chunks: list[tuple[SimNode, Chunk]] = []

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self.atomic.__exit__(None, None, None)

    # Time

    def moment(self) -> datetime:
        return scenes.at(self.now)

    def advance(self, seconds: float) -> None:
        self.now += seconds
        for node in self.nodes:
            node.tick(self.now)

    @rule(seconds=st.sampled_from([0.5, 3.0, 15.0, 40.0]))
    def let_time_pass(self, seconds: float) -> None:
        """Nobody says anything meanwhile."""
        self.advance(seconds)

    @rule(minutes=st.sampled_from([1, 1, 2, 3, 18]))
    def live_on(self, minutes: int) -> None:
        """Time with heartbeats, logs and cycles, for all who can be heard."""
        # Over a long time a decision now and then is as good as one at every beat.
        every = 1 if minutes < 5 else 3
        for beat in range(max(2, minutes * 60 // int(BEAT_S))):
            self.advance(BEAT_S)
            for node in self.nodes:
                self.ship(node)
                self.talk(node)
            if beat % every == 0:
                self.cycle(0)

    @rule(number=st.integers(0, 1))
    def cycle(self, number: int) -> None:
        self.schedulers[number].run_cycle(self.moment())

    # Calls of nodes

    @rule(number=NUMBERS, fate=FATES, plan=RUNS)
    def one_sync(self, number: int, fate: str, plan: tuple[float, int]) -> None:
        node = self.nodes[number]
        node.plans.append(plan)
        self.talk(node, fate)

    def talk(self, node: SimNode, fate: str = "ok") -> None:
        if not node.is_up or node.is_cut or fate == "request lost":
            return
        request, sent_at = node.request(self.moment()), self.now
        if fate == "late":
            self.late.append((node, request, sent_at))
            return
        reply = self.deliver(node, request)
        if fate == "twice":
            reply = self.deliver(node, request)
        if reply is None:
            return
        if fate == "late reply":
            self.late_replies.append((node, reply, sent_at))
        elif fate != "reply lost":
            node.hear(reply, sent_at, self.now)

    def deliver(self, node: SimNode, request: SyncRequest) -> SyncReply | None:
        """None: refused, until nothing was heard for a lease of the node before its last start,
        or, where a copy of it spoke, until an operator has resumed it."""
        row = Node.objects.select_related("pool").get(pk=node.row.pk)
        try:
            # As the portal does, which takes calls in together: here always one.
            [reply] = sync_nodes([Call(row, request, self.moment())], now=self.moment())
            if isinstance(reply, Exception):
                raise reply
        except Conflict as refused:
            codes = {"node_identity_in_use"}
            if row.name in self.copied:
                codes.add("node_identity_conflict")
            assert refused.code in codes, "no node here is a copy"
            return None
        assert reply is not None
        sizes = dict(node.row.placements.values_list("attempt_id", "log_size"))
        for fence in reply.forget:
            if (slot := node.slots.get(fence)) is not None and fence in sizes:
                assert sizes[fence] == len(slot.stream.body()), "forgotten with a part of its log"
        self.heard[row.name].append((self.moment().timestamp(), self.moment().timestamp()))
        return reply

    @precondition(lambda self: self.late)
    @rule(hears=st.booleans(), which=st.integers(0, 3))
    def deliver_late(self, hears: bool, which: int) -> None:
        """A request that was long under way, maybe overtaken; its caller may have given up."""
        node, request, sent_at = self.late.pop(which % len(self.late))
        reply = self.deliver(node, request)
        if hears and reply is not None and node.is_up:
            node.hear(reply, sent_at, self.now)

    @precondition(lambda self: self.late_replies)
    @rule()
    def hear_late(self) -> None:
        node, reply, sent_at = self.late_replies.pop(0)
        if node.is_up:
            node.hear(reply, sent_at, self.now)

    # Logs

    @rule(number=NUMBERS, fate=LOG_FATES, amount=st.sampled_from([3, 40, 10_000]))
    def ship_a_part(self, number: int, fate: str, amount: int) -> None:
        self.ship(self.nodes[number], fate, amount)

    def ship(self, node: SimNode, fate: str = "ok", amount: int = 10_000) -> None:
        """The next bytes of each rank there."""
        if not node.is_up or node.is_cut or fate == "request lost":
            return
        for slot in list(node.slots.values()):
            if fate == "all again":
                slot.stream.acked = 0
            if slot.stream.has_more:
                self._ship_one(node, slot, fate, amount)

    def _ship_one(self, node: SimNode, slot: Slot, fate: str, amount: int) -> None:
        stream = slot.stream
        offset = stream.acked + (7 if fate == "ahead" else 0)
        part = stream.body()[offset : offset + amount]
        chunk = Chunk(slot.order.fence, slot.order.rank, offset, part)
        if fate == "late":
            self.late_chunks.append((node, chunk))
            return
        if fate == "other bytes":
            chunk = replace(chunk, offset=0, body=b"?" * len(chunk.body))
            self.refuse_other_bytes(node, chunk)
            return
        size = self.append(node, chunk)
        if fate == "twice":
            size = self.append(node, chunk)
        if fate != "reply lost":
            stream.acked = size

    def append(self, node: SimNode, chunk: Chunk) -> int:
        """From where to go on. Whatever became of an attempt, what it has printed is taken."""
        try:
            return append_log(
                node=node.row,
                fence=chunk.fence,
                rank=chunk.rank,
                offset=chunk.offset,
                body=chunk.body,
                now=self.moment(),
            ).size
        except LogGap as gap:
            assert gap.expected < chunk.offset
            return gap.expected

    def refuse_other_bytes(self, node: SimNode, chunk: Chunk) -> None:
        """Nothing that is stored is ever replaced."""
        placement = node.row.placements.get(attempt_id=chunk.fence, rank=chunk.rank)
        if not placement.log_size:
            return
        with suppress(Conflict):
            append_log(
                node=node.row,
                fence=chunk.fence,
                rank=chunk.rank,
                offset=0,
                body=chunk.body[: placement.log_size],
                now=self.moment(),
            )
            raise AssertionError("other bytes were taken")

    @precondition(lambda self: self.late_chunks)
    @rule(which=st.integers(0, 3))
    def deliver_late_chunk(self, which: int) -> None:
        """Its node has shipped it again by now, or its attempt is over."""
        self.append(*self.late_chunks.pop(which % len(self.late_chunks)))

    # Faults

    @rule(number=NUMBERS, is_cut=st.booleans())
    def cut(self, number: int, is_cut: bool) -> None:
        self.nodes[number].is_cut = is_cut

    @rule(number=NUMBERS, how=st.sampled_from(["kill agent", "restart agent", "reboot"]))
    def strike(self, number: int, how: str) -> None:
        node = self.nodes[number]
        # What was under way to this agent has nobody to hear it.
        self.late_replies = [late for late in self.late_replies if late[0] is not node]
        if how == "kill agent":
            node.is_up = False
        elif how == "restart agent":
            node.restart_agent()
        else:
            node.reboot(self.now)

    @rule(number=NUMBERS, ahead_s=st.sampled_from([-3600.0, 0.0, 1.0, 3600.0]))
    def set_clock(self, number: int, ahead_s: float) -> None:
        """A node's clock is stepped; what was under way was sent by the old one."""
        node = self.nodes[number]
        self.late = [late for late in self.late if late[0] is not node]
        node.ahead_s = ahead_s

    @precondition(lambda self: self.files)
    @rule(which=st.integers(0, 20))
    def damage_a_checkpoint(self, which: int) -> None:
        self.files[sorted(self.files)[which % len(self.files)]] = "damaged"
