"""In the end all faults go away, and then every job ends, once."""

from __future__ import annotations

import os
from collections import Counter

import pytest
from django.db.models import Count, QuerySet
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from accounts.models import Project, User
from scheduler.models import Allocation, Attempt, Job, JobEvent, Node
from scheduler.services.changing.by_hand import release_job
from scheduler.services.nodes import resume_node
from scheduler.states import (
    FINAL_JOB_STATES,
    MADE_TO_MOVE,
    MAX_FREE_RETRIES,
    PAUSES,
    EndReason,
    JobState,
    NodeState,
)
from tests.protocol.edges import Edge, edges_walked
from tests.protocol.play import AT_THE_END, Cluster
from tests.protocol.wire import BEAT_S

GANG_HURT = "histories in which a gang lost a node"
HISTORIES = "histories"
ROUNDS = "most rounds until all had ended"
# An hour's grace, ten minutes to stop in, a lease, a minute and one part in a hundred of it, in
# rounds of four heartbeats; and two for what is assigned, runs and ends.
ROUNDS_OF_A_GRACE = int(-(-(4200 * 1.01 + 45 + 60) // (4 * BEAT_S))) + 2
# What ends an attempt and takes nothing from what its job has left.
_FOR_OTHERS = [
    *map(str, MADE_TO_MOVE | PAUSES),
    EndReason.NODE_DRAINED,
    EndReason.BUDGET_SPENT,
]


def gangs_that_lost_a_node() -> QuerySet[Attempt]:
    """Of several ranks that ran, and ended because one of their nodes was given up or restarted."""
    several = Attempt.objects.annotate(ranks=Count("placements")).filter(ranks__gt=1)
    return several.filter(end_reason=EndReason.NODE_LOST, started_at__isnull=False)


class Healed(Cluster):
    """As above; in the end all faults go away, and everything that can end does."""

    edges: Counter[Edge]
    ways: Counter[str]

    def teardown(self) -> None:
        try:
            self.heal()
            self.edges += edges_walked()
            self.ways.update(JobEvent.objects.values_list("kind", flat=True))
            self.ways[GANG_HURT] += gangs_that_lost_a_node().exists()
            self.ways[HISTORIES] += 1
        finally:
            super().teardown()

    def heal(self) -> None:
        for node in self.nodes:
            node.is_cut, node.ahead_s = False, 0.0
            if not node.is_up:
                node.restart_agent()
            for slot in node.slots.values():
                slot.runs_s = min(slot.runs_s, 60.0)
        for job in Job.objects.filter(state=JobState.HELD).select_related("project__team"):
            release_job(actor=self.alice, job=job, now=self.moment())
        for node in self.nodes:
            resume_node(actor=self.root, node=Node.objects.get(pk=node.row.pk), now=self.moment())
            node.plans = []
        self.ways[ROUNDS] = max(self.ways[ROUNDS], self.let_all_end())
        # Where no job was left there was no round, and who fell silent has not spoken since.
        self.live_on(1)
        assert not Allocation.objects.filter(released_at__isnull=True)
        assert not any(slot.stream.has_more for node in self.nodes for slot in node.slots.values())
        states = set(Node.objects.values_list("state", flat=True))
        assert states <= {NodeState.READY, NodeState.QUARANTINED}
        self.nobody_runs_beside_its_own_or_on_anothers_device()
        self.check(AT_THE_END)

    def let_all_end(self) -> int:
        """Round by round until every job is over; how many it took.

        It ends by a bound and not by luck. What nodes left behind waits, all at once, for the grace
        of its job, which may be an hour: no more rounds than that go by without an attempt or a job
        that ends. Each attempt that ends takes from what its job has left, or it was made to move
        for another job, once for each of the others and each of its attempts at most.
        """
        unfinished = Job.objects.exclude(state__in=FINAL_JOB_STATES)
        began, count = self.moment(), unfinished.count()
        left = sum(
            1 + job.retries - job.user_retries_used + MAX_FREE_RETRIES - job.free_retries_used
            for job in unfinished.all()
        )
        ended = Attempt.objects.filter(ended_at__gt=began)
        rounds = still = seen = 0
        while unfinished.exists():
            self.live_on(3)
            self.let_go_of_the_paused()
            moved = ended.filter(end_reason__in=_FOR_OTHERS).count()
            spent = ended.count() - moved
            over = count - unfinished.count()
            rounds, still = rounds + 1, still + 1 if spent + moved + over == seen else 0
            seen = spent + moved + over
            waits = [
                (job.pk, job.state, job.wait_reason, job.wait_facts) for job in unfinished.all()
            ]
            assert still <= ROUNDS_OF_A_GRACE, f"nothing ends any more: {waits}"
            assert spent <= left, f"{spent} attempts of {left} that jobs had left: {waits}"
            assert moved <= count * (count + left), f"made to move {moved} times: {waits}"
        return rounds

    def let_go_of_the_paused(self) -> None:
        """Who was asked to pause before the end is held only once that is done."""
        for job in Job.objects.filter(state=JobState.HELD).select_related("project__team"):
            release_job(actor=self.alice, job=job, now=self.moment())


# In parts, so that they run beside each other.
PARTS = 4
# In every other part, the share of histories in which a gang has to lose a node as it runs.
LEAST_HURT = 0.75
EXAMPLES = int(os.environ.get("PROTOCOL_EXAMPLES", "8"))
# Shrinking takes minutes; who looks for the shortest history of a break asks for it.
PHASES = [Phase.explicit, Phase.reuse, Phase.generate]
if os.environ.get("PROTOCOL_SHRINK"):
    PHASES.append(Phase.shrink)


# On PostgreSQL they take two and a half minutes.
@pytest.mark.once
@pytest.mark.django_db
@pytest.mark.timeout(600 + 20 * EXAMPLES)
@pytest.mark.parametrize("part", range(PARTS))
def test_promises_hold_whatever_happens(root, alice, project, part):
    class Part(Healed):
        begins_with_a_loss = part % 2 == 0
        people: tuple[User, User, Project] = (root, alice, project)
        edges: Counter[Edge] = Counter()
        ways: Counter[str] = Counter()

    run_state_machine_as_test(
        Part if settings().derandomize is False else seed(part)(Part),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=30,
            deadline=None,
            phases=PHASES,
            suppress_health_check=list(HealthCheck),
        ),
    )
    if Part.begins_with_a_loss:
        assert Part.ways[GANG_HURT] >= LEAST_HURT * Part.ways[HISTORIES] > 0, Part.ways
    print(f"\npart {part}: {len(Part.edges)} edges of states, {dict(sorted(Part.ways.items()))}")
