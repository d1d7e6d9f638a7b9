"""One's own waiting jobs in an order of one's own; nobody else's is passed."""

from __future__ import annotations

import random
from dataclasses import asdict
from datetime import datetime
from itertools import product

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from scheduler.engine.explaining.standing import Standing, standing_now
from scheduler.engine.ordering import order_waiting
from scheduler.engine.policy import Order, Policy
from scheduler.loop.loading import load_snapshot
from scheduler.models import Job
from scheduler.selectors.queues import queue_rows
from scheduler.selectors.standing import precedence_of
from scheduler.services.changing.by_hand import hold_job, release_job
from scheduler.services.changing.turns import Turn, order_jobs, turn_job
from scheduler.services.errors import Conflict, Forbidden, Invalid
from scheduler.services.sharing.policies import set_policy, set_pool_policy
from tests import scenes
from tests.scenes import at, submit

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=1)


def line() -> list[int]:
    """Job numbers in the order in which the engine considers them."""
    snapshot = load_snapshot(at(100)).snapshot
    return snapshot.waiting.id[order_waiting(snapshot)].tolist()


def stands(job: Job, now: datetime) -> Standing:
    """How the job stands in the line at that moment."""
    found = standing_now(load_snapshot(now).snapshot, Policy(), job.pk)
    assert found is not None
    return found


def test_nobody_elses_job_is_ever_passed(cluster, alice, carol, project, other_project):
    draw = random.Random(7)
    mine, theirs = [], []
    for second in range(12):
        who, where, kept = draw.choice([(alice, project, mine), (carol, other_project, theirs)])
        kept.append(submit(who, where, now=at(second), tier=draw.choice(["normal", "urgent"])))
    of_submit = line()
    pairs = [
        (their.pk, my.pk)
        for their, my in product(theirs, mine)
        if of_submit.index(their.pk) < of_submit.index(my.pk)
    ]
    orders = set()
    for _ in range(30):
        turn_job(actor=alice, job=draw.choice(mine), turn=draw.choice(list(Turn)), now=at(50))
        now = line()
        orders.add(tuple(now))
        assert not [pair for pair in pairs if now.index(pair[0]) > now.index(pair[1])]
    assert len(orders) > 5
    order_jobs(actor=alice, pool=cluster.pool, jobs=())
    assert line() == of_submit and not Job.objects.exclude(yielded_from=None).exists()


def test_own_order_holds_is_written_and_explained(client, cluster, alice, carol, project, root):
    first, second, third = (submit(alice, project, now=at(second)) for second in range(3))
    assert order_jobs(actor=alice, pool=cluster.pool, jobs=[third, second], now=at(5)) == 2
    assert line() == [third.pk, second.pk, first.pk]
    first.refresh_from_db()
    assert (first.waits_since, first.yielded_from) == (at(0), at(0))
    event = first.events.get(kind="turn_changed")
    assert (event.actor, event.detail) == (alice, {"behind_job": second.pk})
    # A hold and a release change nothing of it, and why the other went first is known.
    hold_job(actor=alice, job=first)
    release_job(actor=alice, job=first)
    assert line()[-1] == first.pk
    standing = stands(third, at(6))
    attempt = scenes.start(third, cluster.node(1), now=at(6))
    attempt.standing = asdict(standing)
    attempt.save(update_fields=["standing"])
    first.refresh_from_db()
    why = precedence_of(alice, first, third.pk, lambda: stands(first, at(7)))
    assert (why.code, why.sentence) == ("yielded", "Their owner let it go before this job.")
    rows = queue_rows(alice, cluster.pool)
    assert [row.job.pk for row in rows] == [second.pk, first.pk]
    client.force_login(alice)
    page = client.post(
        reverse("queue:turn", args=["default"]), {"turn": f"first:{first.pk}"}, follow=True
    )
    assert "nobody else" in page.content.decode() and line() == [first.pk, second.pk]
    page = client.post(reverse("queue:turn", args=["default"]), {"turn": "up"}, follow=True)
    assert "press one of the buttons" in page.content.decode()


def test_what_cannot_be_ordered_is_refused(cluster, alice, bob, root, project):
    mine, other = submit(alice, project), submit(alice, project, tier="exploratory")
    with pytest.raises(Forbidden, match="owner"):
        turn_job(actor=bob, job=mine, turn=Turn.FIRST)
    with pytest.raises(Invalid, match="several tiers"):
        order_jobs(actor=alice, pool=cluster.pool, jobs=[mine, other])
    with pytest.raises(Invalid, match="twice"):
        order_jobs(actor=alice, pool=cluster.pool, jobs=[mine, mine])
    hold_job(actor=alice, job=other)
    with pytest.raises(Conflict, match="does not wait"):
        turn_job(actor=alice, job=other, turn=Turn.FIRST)
    set_policy(actor=root, name=Order.SHORTEST)
    with pytest.raises(Conflict, match="by how long they still run, not by their age"):
        turn_job(actor=alice, job=mine, turn=Turn.FIRST)


def test_where_age_does_not_count_no_order_is_offered_and_it_is_said_why(
    client, cluster, alice, root, project
):
    for _ in range(2):
        submit(alice, project)
    client.force_login(alice)
    address = reverse("queue:list")
    with CaptureQueriesContext(connection) as by_age:
        assert "Your order" in client.get(address).content.decode()
    orders = {Order.SHORTEST: "how long they still run", Order.LAS: "how little they have run"}
    for order, words in orders.items():
        set_pool_policy(actor=root, pool=cluster.pool, name=order)
        with CaptureQueriesContext(connection) as seen:
            text = client.get(address).content.decode()
        assert "Your order" not in text and reverse("queue:turn", args=["default"]) not in text
        assert f"Pool default starts jobs by {words}, not by their age" in text
        assert len(seen) == len(by_age)
