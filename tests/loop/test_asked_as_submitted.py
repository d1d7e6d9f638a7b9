"""Whatever a waiting job asks for in the end, it is as if it had been submitted so."""

from __future__ import annotations

import random
import threading
from datetime import timedelta

import pytest
from django.db import connections
from django.db.models import Sum

from scheduler.models import (
    Device,
)
from scheduler.services.errors import Conflict, Invalid
from scheduler.services.jobs import submit_job
from scheduler.services.placing import Start, start_attempts
from scheduler.services.rows.placed import PlacedOn
from scheduler.services.sharing.budgets import BudgetRules, set_budget
from scheduler.spec import SpecInvalid, parse_spec
from tests import scenes
from tests.loop.otherwise import OTHER, change, request_of, two_pools
from tests.scenes import NOON, at

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return two_pools(root)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_asked_it_is_as_if_it_had_been_submitted_so(
    cluster, root, team, alice, project, seed
):
    """Same request, same commitment, and refused where a submit is refused."""
    rng = random.Random(seed)
    set_budget(
        actor=root, owner=team, gpu_hours=1000, valid_from=NOON - timedelta(days=1),
        valid_until=NOON + timedelta(days=9), rules=BudgetRules(commits_at="submit"), now=at(0),
    )  # fmt: skip
    job = scenes.submit(alice, project, pool="default", time_limit="1h")
    asked_so_far: dict[str, str] = {}
    for turn in range(12):
        asked = {
            "gpus_per_node": rng.choice(["0", "1", "2", "3", "4", "5"]),
            "gpu_model": rng.choice(["", scenes.MODEL, OTHER]),
            "nodes": rng.choice(["1..1", "2..2", "3..3", "1..2", "2..3"]),
            "pool": rng.choice(["default", "spare"]),
        }
        asked = {name: asked[name] for name in asked if rng.random() < 0.7}
        document = {
            "name": "train", "project": project.path, "script": "echo hi", "time_limit": "1h",
            "pool": "default", **asked_so_far, **asked,
        }  # fmt: skip
        before = request_of(job)
        try:
            alike = submit_job(actor=alice, spec=parse_spec(document), now=at(turn)).job
        except SpecInvalid as unheard:
            with pytest.raises(Invalid, match=unheard.problems[0].field):
                change(alice, job, **asked, now=at(turn))
            assert request_of(job) == before
            continue
        if asked:
            change(alice, job, **asked, now=at(turn))
        asked_so_far |= asked
        assert request_of(job) == request_of(alike)
        sums = [
            one.budget_pledges.aggregate(s=Sum("gpu_seconds"))["s"] or 0 for one in (job, alike)
        ]
        assert sums[0] == sums[1]


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("turn", range(6))
def test_of_a_change_and_a_start_at_once_one_happens(root, alice, project, turn):
    cluster = scenes.build_cluster(root, nodes=1, gpus=2)
    job = scenes.submit(alice, project)
    device = Device.objects.filter(node=cluster.node(1)).first()
    start = Start(job.pk, (PlacedOn(cluster.node(1).pk, 0, (device.pk,), 1, 1024),))
    gate, happened = threading.Barrier(2), {}

    def starts():
        try:
            gate.wait()
            happened["start"] = start_attempts([start], lease_token=scenes.TOKEN, now=at(9))
        finally:
            connections.close_all()

    def changes():
        try:
            gate.wait()
            change(alice, job, gpus_per_node="2")
            happened["change"] = True
        except Conflict:
            happened["change"] = False
        finally:
            connections.close_all()

    both = [threading.Thread(target=starts), threading.Thread(target=changes)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    job.refresh_from_db()
    if happened["change"]:
        assert (happened["start"], job.state, job.gpus_per_node) == ([], "queued", 2)
    else:
        assert (happened["start"], job.state, job.gpus_per_node) == ([job.pk], "starting", 1)
