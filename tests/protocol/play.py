"""No job lost, none run twice, no device held twice: whatever messages, nodes and time do."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Count
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from accounts.errors import Conflict, Forbidden
from accounts.models import Project, User
from scheduler.conf import load_conf
from scheduler.loop.cycle import Scheduler
from scheduler.models import Allocation, Attempt, Job, JobEvent, Node, SchedulerLease
from scheduler.services.jobs import cancel_job, hold_job, release_job, submit_job
from scheduler.services.nodes import drain_node, resume_node
from scheduler.services.sync import sync_node
from scheduler.spec import parse_spec
from scheduler.states import (
    JOB_MOVES,
    LIVE_ATTEMPT_STATES,
    AttemptState,
    JobState,
)
from scheduler.wire.messages import SyncReply, SyncRequest
from tests import scenes
from tests.protocol.lives import apart, grouped
from tests.protocol.nodes import Life, SimNode, facts_of

NODES, GPUS = 3, 2
# As seldom as a node may be heard without being called silent.
BEAT_S = 40.0
NUMBERS = st.integers(0, NODES - 1)
FATES = st.sampled_from(
    ["ok", "ok", "ok", "request lost", "reply lost", "twice", "late", "late reply"]
)
RUNS = st.sampled_from([(5.0, 0), (40.0, 0), (40.0, 1), (2000.0, 0), (1e9, 0)])


class Cluster(RuleBasedStateMachine):
    """Two schedulers, three nodes, one user; `now` is seconds after noon."""

    people: tuple[User, User, Project]

    def __init__(self) -> None:
        super().__init__()
        self.atomic = transaction.atomic()
        self.atomic.__enter__()
        self.root, self.alice, self.project = self.people
        cluster = scenes.build_cluster(self.root, nodes=NODES, gpus=GPUS)
        SchedulerLease.objects.all().delete()
        self.now = 0.0
        self.lives: list[Life] = []
        grace_s = float(load_conf().disconnect_grace_s)
        self.nodes = [SimNode(row, grace_s, self.lives, facts_of(row)) for row in cluster.nodes]
        self.schedulers = [Scheduler(holder="a"), Scheduler(holder="b")]
        self.accepted: dict[str, int] = {}
        self.late: list[tuple[SimNode, SyncRequest, float]] = []
        self.late_replies: list[tuple[SimNode, SyncReply, float]] = []

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
        """Time with heartbeats and cycles, for all who can be heard."""
        for _ in range(max(2, minutes * 60 // int(BEAT_S))):
            self.advance(BEAT_S)
            for node in self.nodes:
                self.talk(node)
            self.cycle(0)

    # People

    @initialize(count=st.integers(1, 3))
    def begin(self, count: int) -> None:
        for node in self.nodes:
            self.talk(node)
        for number in range(count):
            self.submit(number, 1, 1, 0, 0)

    @rule(
        key=st.integers(0, 6),
        nodes=st.sampled_from([1, 1, 2]),
        gpus=st.integers(1, GPUS),
        retries=st.integers(0, 1),
        grace=st.sampled_from([0, 0, 60, 3600]),
    )
    def submit(self, key: int, nodes: int, gpus: int, retries: int, grace: int) -> None:
        """The same key may come again, with the same wish or another."""
        word = f"{key}-{nodes}-{gpus}-{retries}-{grace}"
        spec = parse_spec({
            "name": "train",
            "project": self.project.path,
            "script": "true",
            "nodes": nodes,
            "gpus_per_node": gpus,
            "retries": retries,
            "time_limit": 3600,
            "disconnect_grace": grace,
        })  # fmt: skip
        done = submit_job(actor=self.alice, spec=spec, idempotency_key=word, now=self.moment())
        assert self.accepted.setdefault(word, done.job.pk) == done.job.pk

    @rule(data=st.data(), act=st.sampled_from([cancel_job, hold_job, release_job]))
    def change_a_job(self, data: st.DataObject, act: Any) -> None:
        jobs = sorted(self.accepted.values())
        if jobs:
            job = Job.objects.select_related("project__team").get(
                pk=data.draw(st.sampled_from(jobs))
            )
            with suppress(Conflict, Forbidden):
                act(actor=self.alice, job=job, now=self.moment())

    @rule(number=NUMBERS, drains=st.booleans())
    def operate(self, number: int, drains: bool) -> None:
        row = Node.objects.get(pk=self.nodes[number].row.pk)
        if drains:
            drain_node(actor=self.root, node=row, now=self.moment())
        else:
            resume_node(actor=self.root, node=row, now=self.moment())

    # Schedulers

    @rule(number=st.integers(0, 1))
    def cycle(self, number: int) -> None:
        self.schedulers[number].run_cycle(self.moment())

    # Nodes and the wire

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
        """None: refused until nothing was heard for a lease of the node before its last start."""
        row = Node.objects.select_related("pool").get(pk=node.row.pk)
        try:
            reply = sync_node(node=row, request=request, now=self.moment())
        except Conflict as refused:
            assert refused.code == "node_identity_in_use", "no node here is a copy"
            return None
        assert reply is not None
        return reply

    @precondition(lambda self: self.late)
    @rule(hears=st.booleans())
    def deliver_late(self, hears: bool) -> None:
        """A request that was long under way; its caller may have given up."""
        node, request, sent_at = self.late.pop(0)
        reply = self.deliver(node, request)
        if hears and reply is not None and node.is_up:
            node.hear(reply, sent_at, self.now)

    @precondition(lambda self: self.late_replies)
    @rule()
    def hear_late(self) -> None:
        node, reply, sent_at = self.late_replies.pop(0)
        if node.is_up:
            node.hear(reply, sent_at, self.now)

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

    # Promises

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        assert set(Job.objects.values_list("pk", flat=True)) == set(self.accepted.values())

    @invariant()
    def one_live_attempt_a_job_and_one_holder_a_device(self) -> None:
        live = Attempt.objects.filter(state__in=LIVE_ATTEMPT_STATES).values("job")
        assert not live.annotate(n=Count("pk")).filter(n__gt=1)
        held = Allocation.objects.filter(released_at__isnull=True).values("device")
        assert not held.annotate(n=Count("pk")).filter(n__gt=1)

    @invariant()
    def no_two_attempts_of_a_job_run_at_once(self) -> None:
        for group in grouped(self.lives, lambda life: [life.job]):
            apart(group)

    @invariant()
    def no_device_is_used_twice_at_once(self) -> None:
        for group in grouped(self.lives, lambda life: life.devices):
            apart(group)

    @invariant()
    def states_follow_the_tables(self) -> None:
        for event in JobEvent.objects.exclude(from_state="").exclude(to_state=""):
            if event.from_state != event.to_state:
                assert JobState(event.to_state) in JOB_MOVES[JobState(event.from_state)]
        for job in Job.objects.filter(state=JobState.SUCCEEDED):
            last = job.attempts.latest("number")
            assert last.state == AttemptState.ENDED
            assert {p.exit_code for p in last.placements.all()} == {0}
