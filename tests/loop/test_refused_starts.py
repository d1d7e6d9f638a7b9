"""What the engine plans the services take: both see limits of accounts alike."""

from __future__ import annotations

import pytest

from scheduler.services.sharing.limits import set_caps
from scheduler.states import JobState
from tests.scenes import at, submit

pytestmark = pytest.mark.django_db


def test_an_elastic_job_starts_with_as_many_nodes_as_a_cap_allows(
    scheduler, alice, project, team, root
):
    set_caps(actor=root, owner=team, max_gpus_per_job=2)
    job = submit(alice, project, nodes="1..2", gpus_per_node=2)
    outcome = scheduler.run_cycle(at(1))
    assert (outcome.started, outcome.dropped) == (1, 0)
    job.refresh_from_db()
    assert job.state == JobState.STARTING
    assert job.attempts.get().placements.count() == 1
