"""Maintenance windows over REST, down to the job that waits for them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from scheduler.engine.cycle import plan_cycle
from scheduler.loop.loading import load_snapshot
from scheduler.models import Node
from tests.api.conftest import problem_of

pytestmark = pytest.mark.django_db


def window(**more):
    now = timezone.now()
    return {
        "pool": Node.objects.get(name="n1").pool.name,
        "from_at": (now + timedelta(hours=1)).isoformat(),
        "until_at": (now + timedelta(hours=3)).isoformat(),
        **more,
    }


def test_windows_are_planned_listed_and_cancelled(program, cluster, root, alice):
    caller = program(root)
    made = caller.post("/windows/", window(nodes=["n1"], reason="new switch"))
    (item,) = made.json()["items"]
    assert (item["nodes"], item["reason"]) == (["n1"], "new switch")
    assert program(alice).get("/windows/").json() == made.json()
    windows = load_snapshot(timezone.now()).snapshot.windows
    assert windows.id.tolist() == [item["id"]]
    assert caller.post(f"/windows/{item['id']}/cancel/").json()["items"] == []
    assert caller.post(f"/windows/{item['id']}/cancel/").json()["items"] == []
    assert not len(load_snapshot(timezone.now()).snapshot.windows.id)
    problem_of(caller.post("/windows/9999/cancel/"), 404)


def test_a_window_without_nodes_is_for_the_whole_pool(program, cluster, root):
    program(root).post("/windows/", window())
    loaded = load_snapshot(timezone.now()).snapshot
    assert len(loaded.windows.id) == len(loaded.nodes.id)
    assert not plan_cycle(loaded).starts
    assert {slot.kind for slot in plan_cycle(loaded).timeline} == {"maintenance"}


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"until_at": "2020-01-01T00:00:00Z", "from_at": "2019-01-01T00:00:00Z"}, "until_at"),
        ({"from_at": "2030-01-01T00:00:00Z"}, "until_at"),
        ({"from_at": "2030-01-01T00:00:00"}, "from_at"),
        ({"until_at": "2999-01-01T00:00:00Z"}, "until_at"),
        ({"nodes": ["n1", "ghost"]}, "nodes"),
        ({"pool": "ghost"}, "pool"),
        ({"from_at": "soon"}, "from_at"),
    ],
)
def test_bad_windows_are_refused_by_field(program, cluster, root, wrong, field):
    response = program(root).post("/windows/", window(**wrong))
    assert 400 <= response.status_code < 500
    assert problem_of(response, response.status_code)["errors"][0]["field"] == field


def test_strangers_plan_no_windows(program, cluster, alice):
    problem_of(program(alice).post("/windows/", window()), 403)
