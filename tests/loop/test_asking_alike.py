"""Many jobs that ask for the same beside numbers are read at once."""

from __future__ import annotations

import pytest

from scheduler.loop.loading import wishes
from scheduler.loop.loading.cluster.parts import Parts
from scheduler.loop.loading.columns import ModelRows
from scheduler.loop.loading.wishes import WishMemory, load_wishes
from scheduler.models import Job
from scheduler.services.sites.licences import set_licence
from scheduler.states import JobState
from tests.scenes import MODEL, NOON, at, submit

pytestmark = pytest.mark.django_db
OTHER = "NVIDIA A100-SXM4-80GB"
ALIKE = (
    {"gpu_models": [OTHER, MODEL], "fallback_after": "10s"},
    {"constraints": ["rack=r1"], "licences": {"sim": 1}, "scratch": "1GiB"},
    {"gpu_models": [MODEL]},
    {"licences": {"sim": 2}, "constraints": ["node!=n9", "rack=r2"]},
    {"nodes": "1..4", "node_sizes": [1, 2, 4], "exclude_nodes": ["n1"]},
)
ORDER = (0, 1, 4, 1, 3, 2, 0, 3, 4, 0, 2)


def test_jobs_that_ask_for_the_same_are_read_as_each_alone(cluster, root, alice, project):
    set_licence(actor=root, name="sim", total=9)
    jobs = [submit(alice, project, now=at(n), **ALIKE[which]) for n, which in enumerate(ORDER)]
    memory, now = WishMemory(), at(15)

    def read(**more):
        return load_wishes(now, ModelRows(), Parts(), {}, memory=memory, **more)

    together = [read(), read()]
    assert len(memory.asks) == 3 + 4, "of those whose models change in time each has its own"
    jobs = [Job.objects.get(pk=job.pk) for job in jobs]
    Job.objects.update(state=JobState.HELD)
    alone = read(also=jobs)
    assert together == [alone, alone] and alone.models != {}


def test_what_nobody_asks_for_any_more_is_forgotten(cluster, alice, project, monkeypatch):
    monkeypatch.setattr(wishes, "_SPARE_ASKS", 1)
    memory, job = WishMemory(), submit(alice, project, scratch="1GiB")
    for mib in range(5, 15):
        Job.objects.filter(pk=job.pk).update(scratch_mib=mib)
        found = load_wishes(NOON, ModelRows(), Parts(), {}, memory=memory)
        assert found.cells == {"scratch_mib": {job.pk: mib}}
        assert len(memory.asks) <= 3
