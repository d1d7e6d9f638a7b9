"""A cluster to which anything may happen, in any order: what holds after every step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.keeping.promises import with_promises
from scheduler.engine.plan import Plan, Reservation
from scheduler.engine.policy import Order, PlacementRule, Policy, PoolPolicy
from scheduler.engine.snapshot import NONE, Snapshot, floats, ints
from scheduler.simulator.events import Happening
from scheduler.simulator.hazards import HazardsByPool
from scheduler.simulator.teams import PoolLimit, Teams, Use
from scheduler.simulator.workload import Workload
from scheduler.simulator.world import World

# Two pools: one where jobs are stopped, for higher tiers or whenever another set is worth more as
# its order has it, and one where nobody is.
NODES, PER_NODE, TEAMS, SLOTS = (3, 2), (4, 2), 2, 60
LONGEST_S, PATIENCE_S = 3600.0, 600.0
CALM = PoolPolicy("calm", Order.FIFO, PATIENCE_S, PlacementRule.TIGHT, preempts=False)
POLICY = Policy(head_patience_s=PATIENCE_S, backfill_slack_s=0, preempts=True, pools=(CALM,))
BUSY, QUIET = 0, 1


class ClusterMachine(RuleBasedStateMachine):
    """Submit, finish, fail, lose a node, drain, restore, change a quota, let time pass, in two
    pools; jobs stop others in one of them.
    """

    @initialize(data=st.data(), order=st.sampled_from(Order))
    def build(self, data: st.DataObject, order: Order) -> None:
        """A list of jobs that may be submitted; what they run is drawn beforehand."""
        self.policy = replace(POLICY, order=order)
        size = st.lists(st.integers(1, 4), min_size=SLOTS, max_size=SLOTS)
        tier = st.lists(st.sampled_from([0, 10, 20]), min_size=SLOTS, max_size=SLOTS)
        pool = st.lists(st.sampled_from([BUSY, BUSY, QUIET]), min_size=SLOTS, max_size=SLOTS)
        length = st.lists(st.sampled_from([60.0, 600.0, LONGEST_S]), min_size=SLOTS, max_size=SLOTS)
        run_s = floats(data.draw(length))
        team = ints(np.arange(SLOTS) % TEAMS)
        places = ints(data.draw(pool))
        self.work = Workload(
            PER_NODE,
            floats(np.zeros(SLOTS)),
            run_s,
            run_s,
            ints(data.draw(size)) * np.where(places == BUSY, 3, 1),
            tier=ints(data.draw(tier)),
            team=team,
            pool=places,
            checkpoint_s=floats(np.resize([300.0, np.inf], SLOTS)),
        )
        self.use = Use(Teams.equal(("a", "b")), POLICY.half_life_s)
        hazards = HazardsByPool(self.work.gpus, places) if order is Order.LAS else None
        self.world = World(self.work, NODES, hazards, self.use, ("busy", "calm"))
        self.submitted = 0
        self.kept: tuple[Reservation, ...] = ()
        self.start_over()
        self.decide()

    def start_over(self) -> None:
        """Nothing that was promised holds any more."""
        self.first_since: dict[int, float] = {}
        self.told: dict[int, float] = {}

    def decide(self) -> None:
        """Cycles until nobody is stopped any more, and what has to hold of each."""
        self.stopped: set[int] = set()
        while True:
            snapshot = with_promises(self.world.snapshot(may_stop=True), self.kept)
            plan = plan_cycle(snapshot, self.policy)
            self.kept = plan.reservations
            self.check_verdicts(snapshot, plan)
            self.check_stops(plan)
            self.check_heads(plan)
            before = self.held()
            self.world.apply(plan)  # refuses double booking and gangs that are not whole
            self.check_quotas(before)
            self.stopped |= {stop.job - 1 for stop in plan.stops}
            if not plan.stops or self.policy.rearranges:
                break
        self.check_first(plan)

    def check_stops(self, plan: Plan) -> None:
        """Only in the pool that stops any, and for a job that starts: one of a higher tier, or,
        where the order chooses anew who runs, of no lower one.
        """
        tier, started = self.work.tier, {start.job for start in plan.starts}
        assert tier is not None
        for stop in plan.stops:
            assert self.work.pools()[stop.job - 1] == BUSY
            least = tier[stop.job - 1] + (0 if self.policy.rearranges else 1)
            assert tier[stop.beneficiary - 1] >= least
            assert stop.beneficiary in started

    def held(self) -> np.ndarray:
        """By team and pool, GPUs."""
        held = np.zeros((TEAMS, len(NODES)), dtype=np.int64)
        for row in self.world.running:
            held[self.work.teams()[row], self.work.pools()[row]] += self.work.gpus[row]
        return held

    def check_quotas(self, before: np.ndarray) -> None:
        """No team comes to hold more than it may; who held more before may keep that."""
        after, teams = self.held(), self.use.teams
        for team, most in enumerate(teams.maximum):
            assert most == NONE or after[team].sum() <= max(most, before[team].sum())
        for one in teams.of_pools:
            where = one.team, one.pool
            assert one.maximum == NONE or after[where] <= max(one.maximum, before[where])

    def check_heads(self, plan: Plan) -> None:
        """In the calm pool nobody starts later than it was told, while nodes and quotas stay as
        they are and nobody of a higher tier waits there, who may take its place.
        """
        teams, tier = self.use.teams, self.work.tier
        assert tier is not None
        if max(teams.maximum) != NONE or teams.of_pools:
            # A limit that lets go of somebody older is as good as somebody who comes.
            self.told = {}
            return
        kept = {r.job: r.start_s for r in plan.reservations if self.pool_of(r.job) == QUIET}
        for job, start_s in kept.items():
            assert start_s <= self.told.get(job, np.inf) + 1e-6
        for start in plan.starts:
            assert self.world.now_s <= self.told.get(start.job, np.inf) + 1e-6
        waiting = tier[self.world.is_waiting & (self.work.pools() == QUIET)]
        self.told = {job: at for job, at in kept.items() if tier[job - 1] == waiting.max()}

    def pool_of(self, job: int) -> int:
        """Of a job's number."""
        return int(self.work.pools()[job - 1])

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
        if self.policy.order is not Order.FIFO:
            # The others change who is first with every start, or starve whoever nobody guards.
            waiting = [wait for wait in waiting if self.pool_of(wait.job) == QUIET]
        first = {w.job for w in waiting if w.facts["start_p90_at"] is not None}
        self.first_since = {job: self.first_since.get(job, self.world.now_s) for job in first}
        for since_s in self.first_since.values():
            longest_s = LONGEST_S + float(self.world.owed_s.max())
            assert self.world.now_s - since_s <= PATIENCE_S + longest_s + 1

    @rule(count=st.integers(1, 4))
    @precondition(lambda self: self.submitted < SLOTS)
    def submit(self, count: int) -> None:
        """The next jobs of the list come."""
        tier = self.work.tier
        assert tier is not None
        for _ in range(min(count, SLOTS - self.submitted)):
            row = self.submitted
            self.told = {job: at for job, at in self.told.items() if tier[job - 1] >= tier[row]}
            self.world.workload.submit_s[row] = self.world.now_s
            self.world.since_s[row] = self.world.now_s
            self.world.arrive(row)
            self.submitted += 1
        self.decide()

    @rule()
    @precondition(lambda self: self.world.running)
    def finish(self) -> None:
        """Time passes until the next job ends, and all that end with it."""
        world = self.world
        world.now_s = min(float(world.ends_s[row]) for row in world.running)
        for row in sorted(row for row in world.running if world.ends_s[row] <= world.now_s):
            world.end(row)
        self.decide()

    @rule(seconds=st.integers(1, 500))
    def wait(self, seconds: int) -> None:
        """Time passes; what ends meanwhile ends."""
        until_s = self.world.now_s + seconds
        while any(self.world.ends_s[row] <= until_s for row in self.world.running):
            self.finish()
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
        assert self.world.failures.sum() == failures + 1
        self.start_over()
        self.decide()

    @rule(node=st.integers(0, sum(NODES) - 1), what=st.sampled_from(Happening))
    def change_node(self, node: int, what: Happening) -> None:
        """A node is lost with its jobs, drained, or takes work again."""
        failed = self.world.change_node(node, what)
        assert not set(failed) & set(self.world.running)
        self.start_over()
        self.decide()

    @rule(
        team=st.integers(0, TEAMS - 1),
        most=st.sampled_from([NONE, 4, 12]),
        pool=st.sampled_from([NONE, BUSY, QUIET]),
    )
    def change_quota(self, team: int, most: int, pool: int) -> None:
        """A team may hold less of all pools or of one, or as much as it likes again. Nobody is
        stopped for that.
        """
        before = set(self.world.running)
        teams = self.use.teams
        if pool == NONE:
            maximum = tuple(most if row == team else had for row, had in enumerate(teams.maximum))
            self.use.teams = replace(teams, maximum=maximum)
        else:
            self.use.teams = replace(teams, of_pools=(PoolLimit(team, pool, maximum=most),))
        self.start_over()
        self.decide()
        assert before - self.stopped <= set(self.world.running)

    @invariant()
    def work_is_neither_lost_nor_won(self) -> None:
        """Whoever waits has before it what it has to run, restarts and lost work included, less
        what it has run.
        """
        if not hasattr(self, "world"):
            return
        world = self.world
        rows = world.is_waiting
        owed_s = self.work.run_s + world.owed_s - world.ran_s
        assert np.allclose(world.left_s[rows], owed_s[rows])
        assert (world.lost_s <= world.owed_s + 1e-6).all()

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
            places = {int(self.world.nodes.pool[share.node]) for share in owned}
            assert places == {int(self.work.pools()[row])}

    def teardown(self) -> None:
        """With all nodes back, no quotas and nobody new, everybody ends."""
        if not hasattr(self, "world"):
            return
        for node in range(sum(NODES)):
            self.world.change_node(node, Happening.RESTORE)
        self.use.teams = Teams.equal(("a", "b"))
        self.start_over()
        self.decide()
        for _ in range(6 * SLOTS):
            if not self.world.running:
                break
            self.finish()
        assert not self.world.is_waiting.any()
        assert np.isfinite(self.world.end_s[: self.submitted]).all()


TestClusterMachine = ClusterMachine.TestCase
TestClusterMachine.settings = settings(max_examples=16, stateful_step_count=30, deadline=None)
