"""In the end all faults go away, and then every job ends, once."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from accounts.models import Project, User
from scheduler.models import Allocation, Job, Node
from scheduler.services.jobs import release_job
from scheduler.services.nodes import resume_node
from scheduler.states import FINAL_JOB_STATES, JobState, NodeState
from tests.protocol.play import Cluster


class Healed(Cluster):
    """As above; in the end all faults go away, and everything that can end does."""

    def teardown(self) -> None:
        try:
            self.heal()
        finally:
            super().teardown()

    def heal(self) -> None:
        for node in self.nodes:
            node.is_cut = False
            if not node.is_up:
                node.restart_agent()
            for slot in node.slots.values():
                slot.runs_s = min(slot.runs_s, 60.0)
        for job in Job.objects.filter(state=JobState.HELD).select_related("project__team"):
            release_job(actor=self.alice, job=job, now=self.moment())
        for node in self.nodes:
            resume_node(actor=self.root, node=Node.objects.get(pk=node.row.pk), now=self.moment())
            node.plans = []
        for _ in range(40):
            self.live_on(3)
            if not Job.objects.exclude(state__in=FINAL_JOB_STATES).exists():
                break
        left = Job.objects.exclude(state__in=FINAL_JOB_STATES)
        assert not left, [(job.pk, job.state, job.wait_reason, job.wait_facts) for job in left]
        assert not Allocation.objects.filter(released_at__isnull=True)
        states = set(Node.objects.values_list("state", flat=True))
        assert states <= {NodeState.READY, NodeState.QUARANTINED}
        self.no_two_attempts_of_a_job_run_at_once()
        self.no_device_is_used_twice_at_once()


EXAMPLES = int(os.environ.get("PROTOCOL_EXAMPLES", "12"))
# Shrinking takes minutes; who looks for the shortest history of a break asks for it.
PHASES = [Phase.explicit, Phase.reuse, Phase.generate]
if os.environ.get("PROTOCOL_SHRINK"):
    PHASES.append(Phase.shrink)


def run(people: tuple[User, User, Project], examples: int) -> None:
    Healed.people = people
    run_state_machine_as_test(
        Healed,
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            deadline=None,
            phases=PHASES,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.django_db
@pytest.mark.timeout(600 + 10 * EXAMPLES)
def test_promises_hold_whatever_happens(root, alice, project):
    run((root, alice, project), EXAMPLES)
