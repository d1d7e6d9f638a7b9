"""More time, another tier: what it means for others is asked first, and holds."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from django.core.management import call_command

from scheduler.engine.recording import read_recording
from scheduler.loop.changing import Change, change_job, preview, preview_pause, read_change
from scheduler.loop.cycle import Scheduler
from scheduler.models import Booking, BudgetHold, Claim, JobEvent, Node, SchedulerLease
from scheduler.services.bookings import plan_booking
from scheduler.services.changing.requests import Asks
from scheduler.services.errors import Conflict, Forbidden, Invalid
from scheduler.services.jobs import cancel_job
from scheduler.services.nodes.orders import Known, current_reply
from scheduler.services.sharing.budgets import BudgetRules, set_budget
from scheduler.services.sharing.policies import set_policy
from scheduler.services.sites.licences import set_licence
from scheduler.services.sites.windows import plan_window
from scheduler.services.submitting.ceilings import set_ceiling
from scheduler.states import EndReason, Tier
from tests import scenes
from tests.scenes import NOON, at

pytestmark = pytest.mark.django_db
SIX_H = Change(time_limit_s=6 * 3600)


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=2)


@pytest.fixture
def busy(cluster, alice, project):
    """alice's job holds the only node for an hour."""
    job = scenes.submit(alice, project, gpus_per_node=2, time_limit="1h", tier="normal")
    attempt = scenes.start(job, cluster.node(1))
    scenes.sync(
        cluster.node(1),
        scenes.running(
            attempt,
        ),
        now=at(1),
        protocol=3,
    )
    job.refresh_from_db()
    return job


def test_nobody_waits_so_the_owner_extends_and_the_node_is_told(cluster, busy, alice):
    before = Node.objects.get().desired_revision
    impact = preview(alice, busy, SIX_H, now=at(60))
    assert (impact["delayed_count"], impact["consent"], impact["may"]) == (0, "", True)
    assert impact["more_cost"] == "36.00 EUR"
    after = change_job(actor=alice, job=busy, change=SIX_H, now=at(60))
    assert after.time_limit_s == 6 * 3600 and after.version > busy.version
    node = Node.objects.get()
    assert node.desired_revision > before
    known = Known(frozenset({(busy.attempts.get().pk, 0)}), is_kept=True)
    assert current_reply(node, known=known).assignments[0].launch.time_limit_s == 6 * 3600
    event = JobEvent.objects.get(job=busy, kind="limit_changed")
    assert (event.detail, event.actor) == ({"was": "1h", "is": "6h"}, alice)
    with pytest.raises(Conflict, match="keeps the time"):
        change_job(actor=alice, job=after, change=Change(time_limit_s=60), now=at(61))


def test_who_is_delayed_decides_who_may(
    busy, alice, bob, carol, lead, root, project, other_project
):
    mate = scenes.submit(bob, project, gpus_per_node=2, now=at(2))
    impact = preview(alice, busy, SIX_H, now=at(60))
    assert impact["consent"] == "lead" and not impact["may"]
    (delayed,) = impact["delayed"]
    assert delayed["job"] == mate.pk and 4.9 * 3600 < delayed["delay_s"] <= 5.1 * 3600
    with pytest.raises(Forbidden, match="a lead"):
        change_job(actor=alice, job=busy, change=SIX_H, now=at(60))

    scenes.submit(carol, other_project, gpus_per_node=2, now=at(3))
    impact = preview(lead, busy, SIX_H, now=at(60))
    assert (impact["consent"], impact["may"]) == ("operator", False)
    assert {one["job"] for one in impact["delayed"]} == {mate.pk, None}
    with pytest.raises(Forbidden, match="an operator"):
        change_job(actor=lead, job=busy, change=SIX_H, now=at(60))
    assert change_job(actor=root, job=busy, change=SIX_H, now=at(60)).time_limit_s == 6 * 3600


def test_what_budgets_hold_grows_along_or_they_refuse(cluster, root, team, alice, project):
    budget = set_budget(
        actor=root, owner=team, amount=Decimal("20"), valid_from=NOON - timedelta(days=1),
        valid_until=NOON + timedelta(days=9), rules=BudgetRules(), now=at(0),
    )  # fmt: skip
    job = scenes.submit(alice, project, time_limit="1h")
    attempt = scenes.start(job, cluster.node(1))
    scenes.sync(cluster.node(1), scenes.running(attempt), now=at(1), protocol=3)
    job.refresh_from_db()
    change_job(actor=alice, job=job, change=Change(time_limit_s=5 * 3600), now=at(2))
    hold = BudgetHold.objects.get(attempt=attempt)
    budget.refresh_from_db()
    assert hold.gpu_seconds == 5 * 3600 and hold.money == budget.committed_money
    job.refresh_from_db()
    with pytest.raises(Conflict, match="Not paid for"):
        change_job(actor=alice, job=job, change=SIX_H, now=at(3))


def test_too_old_too_late_and_not_yours(cluster, busy, alice, bob):
    with pytest.raises(Forbidden):
        change_job(actor=bob, job=busy, change=SIX_H, now=at(5))
    Node.objects.update(protocol=2)
    with pytest.raises(Conflict, match="too old"):
        change_job(actor=alice, job=busy, change=SIX_H, now=at(5))
    Node.objects.update(protocol=3, state="silent")
    with pytest.raises(Conflict, match="is not heard now"):
        change_job(actor=alice, job=busy, change=SIX_H, now=at(5))
    Node.objects.update(state="ready")
    cancel_job(actor=alice, job=busy, now=at(6))
    busy.refresh_from_db()
    with pytest.raises(Conflict, match="being stopped"):
        change_job(actor=alice, job=busy, change=SIX_H, now=at(7))


def test_a_waiting_job_moves_to_another_tier_and_limit(busy, alice, bob, project):
    first = scenes.submit(bob, project, gpus_per_node=2, tier="normal", now=at(2))
    low = scenes.submit(alice, project, gpus_per_node=2, tier="exploratory", now=at(3))
    change = read_change("30m", "normal")
    assert change == Change(1800, Tier.NORMAL)
    change_job(actor=alice, job=low, change=change, now=at(9))
    low.refresh_from_db()
    assert (low.tier, low.time_limit_s) == (Tier.NORMAL, 1800)
    impact = preview(alice, first, Change(tier=Tier.EXPLORATORY), now=at(9))
    assert impact["own"]["then_at"] > impact["own"]["was_at"]
    with pytest.raises(Invalid, match="at most"):
        change_job(actor=alice, job=low, change=Change(tier=Tier.PRODUCTION), now=at(9))
    for wrong in (("soon", ""), ("", "best")):
        with pytest.raises(Invalid):
            read_change(*wrong)
    for limit in ("0h", "61d"):
        with pytest.raises(Invalid, match=r"choose 1s to 60d"):
            preview(alice, low, read_change(limit, ""), now=at(9))


def test_who_would_be_stopped_for_a_higher_tier_is_named(
    busy, cluster, root, alice, bob, project, tmp_path
):
    set_ceiling(actor=root, owner=project, tier="urgent")
    set_policy(actor=root, name="fifo", preempts=True)
    waiting = scenes.submit(bob, project, gpus_per_node=2, now=at(2))
    impact = preview(bob, waiting, Change(tier=Tier.URGENT), now=at(2000))
    assert (impact["stopped"], impact["stopped_count"], impact["resized"]) == ([busy.pk], 1, [])
    assert impact["own"]["then_at"] == at(2000)
    higher = Change(tier=Tier.PRODUCTION, asks=Asks(gpus_per_node=1))
    assert preview(bob, waiting, higher, now=at(2000))["stopped"] == [busy.pk]
    change_job(actor=bob, job=waiting, change=Change(tier=Tier.URGENT), now=at(2000))
    # Not by this change.
    assert preview(bob, waiting, Change(time_limit_s=7200), now=at(2001))["stopped"] == []
    call_command("snapshot", "record", str(tmp_path / "moment"))
    running = read_recording((tmp_path / "moment").read_bytes()).snapshot.running
    assert running is not None and running.jobs.id.tolist() == [busy.pk]
    SchedulerLease.objects.all().delete()
    Node.objects.update(last_seen_at=at(2002))
    assert Scheduler(holder="test").run_cycle(at(2002)).stopped == 1


def test_of_two_changes_both_are_made_or_neither(busy, alice):
    both = Change(time_limit_s=6 * 3600, tier=Tier.URGENT)
    with pytest.raises(Conflict, match="Only a waiting job"):
        change_job(actor=alice, job=busy, change=both, now=at(60))
    busy.refresh_from_db()
    assert busy.time_limit_s == 3600
    assert not JobEvent.objects.filter(job=busy, kind="limit_changed").exists()


def test_an_elastic_job_gives_a_node_back_and_keeps_the_others(root, alice, bob, project):
    cluster = scenes.build_cluster(root, nodes=2, gpus=2)
    job = scenes.submit(alice, project, nodes="1..2", gpus_per_node=2, time_limit="4h")
    attempt = scenes.start(job, cluster.node(1), cluster.node(2))
    for rank, node in enumerate(cluster.nodes):
        scenes.sync(node, scenes.running(attempt, rank=rank), now=at(1))
    job.refresh_from_db()
    waiting = scenes.submit(bob, project, gpus_per_node=2, now=at(2))
    one = read_change("", "", "1")
    impact = preview(bob, job, one, now=at(60))
    assert [start["job"] for start in impact["sooner"]] == [waiting.pk]
    assert (impact["delayed_count"], impact["consent"]) == (0, "")
    assert [s["job"] for s in preview_pause(bob, job, now=at(60))["sooner"]] == [waiting.pk]
    with pytest.raises(Forbidden):
        change_job(actor=bob, job=job, change=one, now=at(60))
    with pytest.raises(Invalid, match="choose one of 1, 2"):
        change_job(actor=alice, job=job, change=Change(nodes=3), now=at(60))
    after = change_job(actor=alice, job=job, change=one, now=at(60))
    attempt.refresh_from_db()
    assert (after.nodes, attempt.stop_reason, after.state) == (1, "resized", "stopping")
    assert set(Claim.objects.values_list("job", "node")) == {(job.pk, cluster.node(1).pk)}
    for rank, node in enumerate(cluster.nodes):
        ended = scenes.ended(attempt, rank=rank, reason=EndReason.EXIT_CODE, exit_code=143)
        scenes.sync(node, ended, now=at(70))
    job.refresh_from_db()
    assert (job.state, job.user_retries_used) == ("queued", 0)
    Node.objects.update(last_seen_at=at(71))
    SchedulerLease.objects.all().delete()
    Scheduler(holder="test").run_cycle(at(71))
    second = job.attempts.get(number=2)
    assert [one.node_id for one in second.placements.all()] == [cluster.node(1).pk]
    assert waiting.attempts.get().placements.get().node_id == cluster.node(2).pk


def test_who_gives_a_node_back_late_holds_the_others_past_what_a_wider_job_was_told(
    root, alice, bob, carol, project, other_project
):
    """Bob's job wants both nodes and would have them in an hour; four more hours begin anew."""
    cluster = scenes.build_cluster(root, nodes=2, gpus=2)
    job = scenes.submit(alice, project, nodes="1..2", gpus_per_node=2, time_limit="4h")
    scenes.start(job, cluster.node(1), cluster.node(2))
    job.refresh_from_db()
    theirs = scenes.submit(carol, other_project, nodes=2, gpus_per_node=2, now=at(3 * 3600))
    change, now = Change(nodes=1), at(3 * 3600)
    impact = preview(root, job, change, now=now)
    (late,) = impact["delayed"]
    assert late["job"] == theirs.pk and late["delay_s"] >= 3 * 3600
    assert (impact["consent"], impact["may"]) == ("operator", True)
    with pytest.raises(Forbidden, match="an operator may do it"):
        change_job(actor=alice, job=job, change=change, now=now)
    cancel_job(actor=carol, job=theirs, now=now)
    assert change_job(actor=alice, job=job, change=change, now=now).nodes == 1


def _plan(root, project, cluster, what, begins_s):
    """Maintenance or a booking of an hour on the first node, or on both."""
    span = {"pool": cluster.pool, "from_at": at(begins_s), "until_at": at(begins_s + 3600)}
    if what.startswith("booking"):
        booking = plan_booking(actor=root, owner=project, nodes=1, now=NOON, **span)
        Booking.objects.filter(pk=booking.pk).update(node_ids=[cluster.node(int(what[-1])).pk])
    else:
        nodes = [] if what.endswith("all") else [f"n{what[-1]}"]
        plan_window(actor=root, nodes=nodes, now=NOON, **span)


@pytest.mark.parametrize(
    ("what", "begins_s", "is_kept"),
    [
        ("window on 1", 2 * 3600, False),
        ("window on all", 2 * 3600, False),
        ("window on 2", 2 * 3600, True),
        ("window on 1", 5 * 3600, True),
        ("booking on 1", 2 * 3600, False),
        ("booking on 2", 2 * 3600, True),
        ("licences", 0, False),
    ],
)
def test_its_nodes_are_not_kept_for_it_past_what_is_planned_there(
    root, alice, project, other_project, what, begins_s, is_kept
):
    """Its whole time limit is before it again, four hours."""
    cluster = scenes.build_cluster(root, nodes=2, gpus=2)
    asks = {}
    if what == "licences":
        set_licence(actor=root, name="sim", total=1)
        asks = {"licences": {"sim": 1}}
    job = scenes.submit(alice, project, nodes="1..2", gpus_per_node=2, time_limit="4h", **asks)
    scenes.start(job, cluster.node(1), cluster.node(2))
    with pytest.raises(Conflict, match="has just started"):
        change_job(actor=alice, job=job, change=Change(nodes=1), now=at(60))
    job.refresh_from_db()
    if what != "licences":
        _plan(root, other_project, cluster, what, begins_s)
    change_job(actor=alice, job=job, change=Change(nodes=1), now=at(60))
    assert job.attempts.get().stop_reason == "resized"
    assert Claim.objects.exists() is is_kept


def test_a_job_of_one_size_is_told_so(busy, alice):
    with pytest.raises(Conflict, match="for one number of nodes"):
        change_job(actor=alice, job=busy, change=Change(nodes=2), now=at(60))
