"""What pages read together in one statement is the snapshot that the loop reads one by one."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.engine.checks import check_snapshot
from scheduler.engine.recording.coding import encode
from scheduler.loop.answering import ask, picture
from scheduler.loop.loading import load_snapshot
from scheduler.loop.loading.together import read_together
from scheduler.loop.memories import Memories
from scheduler.models import Budget, BudgetAlert, PastUse
from scheduler.services.bookings import plan_booking
from scheduler.services.bookings.headroom import set_headroom
from scheduler.services.sharing.budgets import set_budget
from scheduler.services.sharing.grants import give_grant
from scheduler.services.sharing.limits import set_quota, set_weight
from scheduler.services.sharing.policies import policy_in_force, set_policy, set_pool_policy
from scheduler.services.sites.licences import set_licence
from scheduler.services.sites.windows import plan_window
from tests import scenes
from tests.scenes import NOON, at, start, submit

pytestmark = pytest.mark.django_db


@pytest.fixture
def busy(cluster, root, alice, carol, team, project, other_project):
    """Something in every table that a snapshot is made of; returns a job that waits."""
    for name in ("b1", "b2"):
        scenes.add_node(cluster, name, 4, now=NOON)
    fill_rules(root, cluster.pool)
    PastUse.objects.create(
        team=team, user=alice, gpu_seconds=1 / 3 * 10**7, counted_until=NOON - timedelta(hours=1)
    )
    fill_limits(root, cluster.pool, team, project)
    fill_budgets(root, other_project.team)
    fill_calendar(root, cluster.pool, team)
    start(submit(alice, project, now=at(0)), cluster.node(1), now=at(1))
    submit(carol, other_project, now=at(1), gpus_per_node=4, licences={"sim": 2})
    return submit(alice, project, now=at(2), gpus_per_node=2, nodes=2)


def fill_rules(root, pool) -> None:
    set_policy(actor=root, name="fair", half_life_s=3_333.3, preempts=True)
    set_pool_policy(actor=root, pool=pool, name="fair", head_patience_s=12.5)
    set_licence(actor=root, name="sim", total=3)
    set_headroom(actor=root, pool=pool, gpus=1)


def fill_limits(root, pool, team, project) -> None:
    set_weight(actor=root, owner=team, weight=0.1 + 0.2)
    set_quota(actor=root, owner=team, pool=pool, guaranteed=1, borrow_limit=3)
    quota = set_quota(actor=root, owner=project, maximum=5, gpu_model=scenes.MODEL)
    day = timedelta(days=1)
    since, until = NOON - day, NOON + day
    give_grant(actor=root, quota=quota, maximum=2, valid_from=since, valid_until=until, now=since)


def fill_budgets(root, team) -> None:
    since, until = NOON - timedelta(days=1), NOON + timedelta(days=9)
    span = {"valid_from": since, "valid_until": until, "now": since}
    set_budget(actor=root, owner=team, gpu_hours=500, **span)
    Budget.objects.update(action="borrowed_only", action_at=50)
    budget = Budget.objects.get()
    BudgetAlert.objects.create(budget=budget, version=budget.version, threshold=50, at=NOON, used=1)


def fill_calendar(root, pool, team) -> None:
    def span(begin: int) -> dict[str, datetime]:
        from_at = NOON + timedelta(hours=begin)
        return {"from_at": from_at, "until_at": from_at + timedelta(hours=1), "now": NOON}

    plan_window(actor=root, pool=pool, nodes=["b2"], **span(5))
    plan_booking(actor=root, owner=team, pool=pool, nodes=1, gpus_per_node=2, **span(2))


def text_of(snapshot) -> str:
    check_snapshot(snapshot)
    return json.dumps(encode(snapshot))


def test_together_and_one_by_one_are_the_same_to_the_last_bit(busy):
    now = at(60)
    policy = policy_in_force()
    alone = load_snapshot(now, half_life_s=policy.memory_s)
    with read_together(now):
        assert policy_in_force() == policy
        together = load_snapshot(now, half_life_s=policy.memory_s)
    assert text_of(together.snapshot) == text_of(alone.snapshot)
    assert together.wait_reasons == alone.wait_reasons
    scene = alone.snapshot
    for column in (scene.windows.node, scene.bookings.pool, scene.limits.account, scene.licences):
        assert len(column), "the scene has something in each"
    assert alone.snapshot.headroom is not None
    assert (alone.snapshot.accounts.used_gpu_s > 0).any()
    decided_on = alone.to_decide(policy, now=now).snapshot
    whole = Memories().add_to(decided_on, policy, now=now)
    assert text_of(picture(now)[0]) == text_of(whole)


def test_an_answer_asks_little_however_much_there_is(busy):
    with CaptureQueriesContext(connection) as seen:
        answer = ask(busy, now=at(60))
    assert answer is not None and answer.blocking.checks
    # Jobs, devices, holders of licences, jobs off headroom, ended ones, and all else.
    assert len(seen) <= 7, [one["sql"][:90] for one in seen]
