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
from scheduler.services.jobs import release_job
from scheduler.services.nodes import resume_node
from scheduler.states import FINAL_JOB_STATES, EndReason, JobState, NodeState
from tests.protocol.edges import Edge, edges_walked
from tests.protocol.play import AT_THE_END, Cluster

GANG_HURT = "histories in which a gang lost a node"


def gangs_that_lost_a_node() -> QuerySet[Attempt]:
    """Of more than one rank, and ended because one of their nodes was given up or restarted."""
    several = Attempt.objects.annotate(ranks=Count("placements")).filter(ranks__gt=1)
    return several.filter(end_reason=EndReason.NODE_LOST)


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
        # What a node left behind waits for the grace of its job, which may be an hour; who is given
        # up for a start that is late is tried again five times.
        for _ in range(80):
            self.live_on(3)
            self.let_go_of_the_paused()
            if not Job.objects.exclude(state__in=FINAL_JOB_STATES).exists():
                break
        left = Job.objects.exclude(state__in=FINAL_JOB_STATES)
        assert not left, [(job.pk, job.state, job.wait_reason, job.wait_facts) for job in left]
        assert not Allocation.objects.filter(released_at__isnull=True)
        states = set(Node.objects.values_list("state", flat=True))
        assert states <= {NodeState.READY, NodeState.QUARANTINED}
        self.nobody_runs_beside_its_own_or_on_anothers_device()
        self.check(AT_THE_END)

    def let_go_of_the_paused(self) -> None:
        """Who was asked to pause before the end is held only once that is done."""
        for job in Job.objects.filter(state=JobState.HELD).select_related("project__team"):
            release_job(actor=self.alice, job=job, now=self.moment())


# In parts, so that they run beside each other.
PARTS = 4
EXAMPLES = int(os.environ.get("PROTOCOL_EXAMPLES", "16"))
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
    print(f"\npart {part}: {len(Part.edges)} edges of states, {dict(sorted(Part.ways.items()))}")
