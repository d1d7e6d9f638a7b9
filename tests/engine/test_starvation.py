"""A gang starts within a bound, however many small jobs keep arriving."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.keeping.promises import with_promises
from scheduler.engine.plan import Plan, Reservation
from scheduler.engine.policy import Policy
from scheduler.engine.snapshot import Snapshot
from tests.builders import NOW_S, DrawnJob, draw, job

STEP_S = 20
GANG = 1
LONGEST_S = 400
# One mark for each running job; no more than twelve fit on three nodes.
MARKS = "123456789abc"
# A head starts up to a step later than planned, because there is a cycle only then.
POLICY = Policy(head_patience_s=100, backfill_slack_s=STEP_S)


@dataclass
class World:
    """Three nodes of four GPUs and a clock; jobs run for their whole limit, the worst case."""

    nodes: int = 3
    at_s: float = 0
    waiting: dict[int, DrawnJob] = field(default_factory=dict)
    submitted_s: dict[int, float] = field(default_factory=dict)
    running: dict[int, tuple[float, list[tuple[int, int]]]] = field(default_factory=dict)
    started_s: dict[int, float] = field(default_factory=dict)
    kept: tuple[Reservation, ...] = ()

    def submit(self, drawn: DrawnJob) -> None:
        self.waiting[drawn.id] = drawn
        self.submitted_s[drawn.id] = self.at_s

    def snapshot(self) -> Snapshot:
        boards = [list("....") for _ in range(self.nodes)]
        ends = {}
        for mark, (until_s, places) in zip(MARKS, self.running.values(), strict=False):
            ends[int(mark, 36)] = until_s - self.at_s
            for node, index in places:
                boards[node][index] = mark
        jobs = [
            job(
                number,
                f"{drawn.nodes}x{drawn.gpus}",
                waited=self.at_s - self.submitted_s[number],
                limit_s=drawn.limit_s,
            )
            for number, drawn in self.waiting.items()
        ]
        lines = [f"n{row} {''.join(marks)}" for row, marks in enumerate(boards)]
        return draw(*lines, jobs=jobs, ends=ends, now_s=NOW_S + self.at_s)

    def step(self) -> Plan:
        self.at_s += STEP_S
        self.running = {n: r for n, r in self.running.items() if r[0] > self.at_s}
        plan = plan_cycle(with_promises(self.snapshot(), self.kept), POLICY)
        self.kept = plan.reservations
        for start in plan.starts:
            drawn = self.waiting.pop(start.job)
            places = [
                ((device - 1001) // 4, (device - 1001) % 4)
                for placement in start.placements
                for device in placement.devices
            ]
            assert not any(set(places) & set(held) for _, held in self.running.values())
            self.running[start.job] = (self.at_s + drawn.limit_s, places)
            self.started_s[start.job] = self.at_s
        return plan


_arrivals = st.lists(
    st.lists(
        st.tuples(st.sampled_from(["1x1", "1x2", "1x4", "2x1"]), st.integers(1, LONGEST_S)),
        max_size=4,
    ),
    min_size=5,
    max_size=12,
)


@given(_arrivals, st.sampled_from(["3x4", "2x4", "3x3", "1x4"]))
def test_a_gang_starts_within_its_bound_whatever_arrives(
    arrivals: list[list[tuple[str, int]]], shape: str
) -> None:
    world, number = World(), 1
    promised: dict[int, float] = {}
    bound_s = POLICY.head_patience_s + LONGEST_S + 2 * STEP_S
    # Long enough for a dozen older jobs, each a head in its turn.
    for turn in range(400):
        if turn == 4:
            world.submit(job(GANG, shape, limit_s=LONGEST_S))
        for small, limit_s in arrivals[turn % len(arrivals)]:
            if len(world.waiting) < 20:
                number += 1
                world.submit(job(number, small, limit_s=limit_s))
        plan = world.step()
        for reservation in plan.reservations:
            assert reservation.start_s <= promised.get(reservation.job, float("inf"))
            promised[reservation.job] = reservation.start_s
        if GANG in world.started_s:
            # Older jobs may stand before it, each a head in its turn; it is first after them.
            older = [j for j, at in world.submitted_s.items() if at < world.submitted_s[GANG]]
            heads = 1 + sum(1 for j in older if j in promised)
            waited_s = world.started_s[GANG] - world.submitted_s[GANG]
            assert waited_s <= bound_s + (heads - 1) * (LONGEST_S + 2 * STEP_S)
            break
    else:
        raise AssertionError(f"the gang has waited {world.at_s} s")
    for job_id, start_s in promised.items():
        if job_id in world.started_s:
            assert NOW_S + world.started_s[job_id] < start_s + STEP_S
