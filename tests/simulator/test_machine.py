"""A cluster to which anything may happen, in any order: what holds after every step."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.plan import Plan
from scheduler.engine.policy import Policy
from scheduler.engine.snapshot import NONE, Snapshot, floats, ints
from scheduler.simulator.events import Happening
from scheduler.simulator.teams import Teams, Use
from scheduler.simulator.workload import Workload
from scheduler.simulator.world import World

NODES, PER_NODE, TEAMS, SLOTS = 4, 4, 2, 60
LONGEST_S, PATIENCE_S = 3600.0, 600.0
POLICY = Policy(head_patience_s=PATIENCE_S, backfill_slack_s=0)


class ClusterMachine(RuleBasedStateMachine):
    """Submit, finish, fail, lose a node, drain, restore, change a quota, let time pass."""

    @initialize(data=st.data())
    def build(self, data: st.DataObject) -> None:
        """A list of jobs that may be submitted; what they run is drawn beforehand."""
        size = st.lists(st.integers(1, 3 * PER_NODE), min_size=SLOTS, max_size=SLOTS)
        length = st.lists(st.sampled_from([60.0, 600.0, LONGEST_S]), min_size=SLOTS, max_size=SLOTS)
        run_s = floats(data.draw(length))
        team = ints(np.arange(SLOTS) % TEAMS)
        self.work = Workload(
            PER_NODE, floats(np.zeros(SLOTS)), run_s, run_s, ints(data.draw(size)), team=team
        )
        self.use = Use(Teams.equal(("a", "b")), POLICY.half_life_s)
        self.world = World(self.work, NODES, use=self.use)
        self.submitted = 0
        self.first_since: dict[int, float] = {}
        self.decide()

    def decide(self) -> None:
        """One cycle, and what has to hold of it."""
        snapshot = self.world.snapshot()
        plan = plan_cycle(snapshot, POLICY)
        self.check_verdicts(snapshot, plan)
        self.world.apply(plan)  # refuses double booking and gangs that are not whole
        self.check_first(plan)

    def check_verdicts(self, snapshot: Snapshot, plan: Plan) -> None:
        """Everybody has exactly one answer."""
        answered = [s.job for s in plan.starts] + plan.waits.job.tolist()
        assert sorted(answered) == sorted(snapshot.waiting.id.tolist())
        down = set(snapshot.nodes.id[~snapshot.nodes.takes_work].tolist())
        assert not {p.node for start in plan.starts for p in start.placements} & down

    def check_first(self, plan: Plan) -> None:
        """No starvation: while nodes stay as they are and quotas too, whoever came to be first
        starts within its patience and the longest limit, whoever else is submitted.
        """
        waiting = [wait for wait in plan.iter_waits() if wait.facts["ahead"] == 0]
        first = {w.job for w in waiting if w.facts["start_p90_at"] is not None}
        self.first_since = {job: self.first_since.get(job, self.world.now_s) for job in first}
        for since_s in self.first_since.values():
            assert self.world.now_s - since_s <= PATIENCE_S + LONGEST_S + 1

    @rule(count=st.integers(1, 4))
    @precondition(lambda self: self.submitted < SLOTS)
    def submit(self, count: int) -> None:
        """The next jobs of the list come."""
        for _ in range(min(count, SLOTS - self.submitted)):
            row = self.submitted
            self.world.workload.submit_s[row] = self.world.now_s
            self.world.since_s[row] = self.world.now_s
            self.world.arrive(row)
            self.submitted += 1
        self.decide()

    @rule()
    @precondition(lambda self: self.world.running)
    def finish(self) -> None:
        """Time passes until the next job ends."""
        row = min(self.world.running, key=lambda row: (self.world.ends_s[row], row))
        self.world.now_s = float(self.world.ends_s[row])
        self.world.end(row)
        self.decide()

    @rule(seconds=st.integers(1, 500))
    def wait(self, seconds: int) -> None:
        """Time passes; what ends meanwhile ends."""
        until_s = self.world.now_s + seconds
        while due := [r for r in self.world.running if self.world.ends_s[r] <= until_s]:
            row = min(due, key=lambda row: (self.world.ends_s[row], row))
            self.world.now_s = float(self.world.ends_s[row])
            self.world.end(row)
            self.decide()
        self.world.now_s = until_s
        self.decide()

    @rule(data=st.data())
    @precondition(lambda self: self.world.running)
    def fail(self, data: st.DataObject) -> None:
        """A job fails and waits again in its old place, with all its work before it."""
        row = data.draw(st.sampled_from(sorted(self.world.running)))
        place_s, failures = float(self.work.submit_s[row]), self.world.failures.sum()
        self.world.fail(row)
        snapshot = self.world.snapshot()
        again = snapshot.waiting.id == row + 1
        assert snapshot.waiting.queued_at_s[again].tolist() == [place_s]
        assert (self.world.failures.sum(), self.world.left_s[row]) == (
            failures + 1,
            self.work.run_s[row],
        )
        self.first_since = {}
        self.decide()

    @rule(node=st.integers(0, NODES - 1), what=st.sampled_from(Happening))
    def change_node(self, node: int, what: Happening) -> None:
        """A node is lost with its jobs, drained, or takes work again."""
        failed = self.world.change_node(node, what)
        assert not set(failed) & set(self.world.running)
        self.first_since = {}
        self.decide()

    @rule(team=st.integers(0, TEAMS - 1), most=st.sampled_from([NONE, 4, 12]))
    def change_quota(self, team: int, most: int) -> None:
        """A team may hold less, or as much as it likes again. Nobody is stopped for that."""
        before = set(self.world.running)
        teams = self.use.teams
        maximum = tuple(most if row == team else had for row, had in enumerate(teams.maximum))
        self.use.teams = Teams(teams.names, teams.weight, teams.guaranteed, maximum)
        self.first_since = {}
        self.decide()
        assert before <= set(self.world.running)

    @invariant()
    def devices_are_held_once_and_gangs_are_whole(self) -> None:
        """The world's own books agree with what jobs hold."""
        if not hasattr(self, "world"):
            return
        held = [(row, s) for row, owned in self.world.running.items() for s in owned]
        devices = [d for _, share in held for d in share.devices.tolist()]
        assert len(devices) == len(set(devices))
        assert sorted(devices) == np.flatnonzero(self.world.holder != NONE).tolist()
        for row, owned in self.world.running.items():
            assert sum(len(share.devices) for share in owned) == self.work.gpus[row]
            assert len({share.node for share in owned}) == len(owned)

    def teardown(self) -> None:
        """With all nodes back, no quotas and nobody new, everybody ends."""
        if not hasattr(self, "world"):
            return
        for node in range(NODES):
            self.world.change_node(node, Happening.RESTORE)
        self.use.teams = Teams.equal(("a", "b"))
        self.first_since = {}
        self.decide()
        for _ in range(2 * SLOTS):
            if not self.world.running:
                break
            self.finish()
        assert not self.world.is_waiting.any()
        assert np.isfinite(self.world.end_s[: self.submitted]).all()


TestClusterMachine = ClusterMachine.TestCase
TestClusterMachine.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
