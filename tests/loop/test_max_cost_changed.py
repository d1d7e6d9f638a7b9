"""Another highest price for a job that waits or runs, with what it means said before."""

from decimal import Decimal
from types import SimpleNamespace

import pytest

from accounts.errors import Conflict, Forbidden, Invalid
from accounts.models import AuditEvent
from scheduler.loop.changing import change_job, preview, read_change
from scheduler.models import Job, JobEvent, Node
from scheduler.services.finishing import paying
from scheduler.services.finishing.paying import keep_prices
from scheduler.services.nodes.assignments import assignments_of
from scheduler.states import AttemptState, EndReason, JobState
from tests.loop.test_max_cost import priced, settled
from tests.scenes import NOON, at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db
# A GPU costs 3.60 an hour, which is 0.001 a second; its grace is 30 s, its end has 5 s.
PRICE = {"max_cost": "1", "time_limit": "1h"}


def changed(actor, job, amount, second, **more):
    change = read_change(max_cost=amount, **more)
    return change_job(actor=actor, job=Job.objects.get(pk=job.pk), change=change, now=at(second))


def meant(actor, job, amount, second, **more):
    job = Job.objects.get(pk=job.pk)
    return preview(actor, job, read_change(max_cost=amount, **more), now=at(second))["highest"]


def runs(cluster, alice, project, **more):
    """A job at work for 300 s, on a node that can be told."""
    job = submit(alice, project, **(PRICE | more))
    attempt = start(job, cluster.node(1))
    sync(cluster.node(1), running(attempt), now=at(2))
    Node.objects.update(protocol=3)
    return job, attempt


@pytest.mark.parametrize(
    ("asked", "limit_s", "words"),
    [
        ("2", 1965, "2.00 EUR, is enough for 27 min from now; it has cost 0.30 EUR so far."),
        ("0.5", 465, "0.50 EUR, is enough for 2 min 45 s from now; it has cost 0.30 EUR so far."),
        ("50", None, "50.00 EUR, is enough for the whole time limit of 1 h."),
        ("none", 0, "Without a highest price only its time limit bounds what it costs."),
    ],
)
def test_one_that_runs_is_held_by_its_new_price_from_now_on(
    cluster, alice, project, asked, limit_s, words
):
    job, attempt = runs(cluster, alice, project)
    assert meant(alice, job, asked, 300).endswith(words)
    job = changed(alice, job, asked, 300)
    attempt.refresh_from_db()
    [place] = attempt.placements.values_list("pk", flat=True)
    told_s = assignments_of([place], NOON)[place].launch.time_limit_s
    if limit_s:
        assert (attempt.cost_limit_s, told_s) == (limit_s, limit_s)
        assert keep_prices(now=at(limit_s - 1)) == 0
        assert keep_prices(now=at(limit_s)) == 1
        attempt.refresh_from_db()
        assert attempt.stop_reason == EndReason.MAX_COST_REACHED
    else:
        assert told_s == 3600 and keep_prices(now=at(3500)) == 0
    assert job.spec["max_cost"] == (None if asked == "none" else f"{Decimal(asked):.2f}")


def test_one_that_runs_gets_no_price_that_pays_for_nothing_more(cluster, alice, project):
    job, _ = runs(cluster, alice, project)
    for act in (meant, changed):
        with pytest.raises(Invalid, match=r"give at least 0\.40 EUR") as refused:
            act(alice, job, "0.39", 300)
        assert refused.value.field == "max_cost"
    changed(alice, job, "0.4", 300)
    with pytest.raises(Invalid, match=r"not an amount of money.*, or none"):
        read_change(max_cost="much")


def test_a_silent_node_and_a_stop_that_was_asked_for_keep_the_price(cluster, alice, project):
    job, attempt = runs(cluster, alice, project)
    Node.objects.update(state="silent")
    with pytest.raises(Conflict, match="is not heard now"):
        changed(alice, job, "2", 300)
    Node.objects.update(state="ready")
    assert keep_prices(now=at(965)) == 1
    with pytest.raises(Conflict, match="comes too late"):
        changed(alice, job, "2", 966)
    attempt.refresh_from_db()
    assert (attempt.state, attempt.cost_limit_s) == (AttemptState.STOPPING, 965)


def test_who_was_held_for_its_price_goes_on_at_once_with_a_higher_one(
    cluster, root, alice, project
):
    job = submit(alice, project, max_cost="0.1", time_limit="1h")
    priced(root, 36, 200)
    assert settled(201) == 1
    with pytest.raises(Invalid, match=r"give at least 0\.95 EUR"):
        changed(alice, job, "0.9", 400)
    assert meant(alice, job, "3.6", 400).startswith("Its highest price, 3.60 EUR, is enough for 5m")
    job = changed(alice, job, "3.6", 400)
    assert job.state == JobState.QUEUED and settled(401) == 0


def test_who_was_held_for_its_price_goes_on_with_fewer_gpus(cluster, root, alice, project):
    job = submit(alice, project, max_cost="1", time_limit="1h", gpus_per_node=2)
    priced(root, 36, 200)
    assert settled(201) == 1
    job.refresh_from_db()
    job = change_job(actor=alice, job=job, change=read_change(gpus_per_node="1"), now=at(400))
    assert (job.state, job.gpus) == (JobState.QUEUED, 1)
    assert start(job, cluster.node(1), now=at(401)).cost_limit_s == 65


def test_a_retry_that_waits_needs_what_it_has_cost_beside_its_least(cluster, alice, project):
    job, attempt = runs(cluster, alice, project, retries=1)
    fault = ended(attempt, reason=EndReason.EXIT_CODE, exit_code=1)
    sync(cluster.node(1), fault, now=at(600))
    with pytest.raises(Invalid, match=r"give at least 0\.70 EUR"):
        changed(alice, job, "0.6", 601)
    assert "is enough for 5m15s at today's price" in meant(alice, job, "0.95", 601)
    job = changed(alice, job, "0.95", 601)
    assert start(job, cluster.node(1), now=at(700)).cost_limit_s == 315


def test_more_gpus_and_the_price_for_them_are_asked_for_together(cluster, alice, project):
    job = submit(alice, project, max_cost="0.1", time_limit="1h", hold=True)
    for act in (meant, changed):
        with pytest.raises(Invalid, match=r"give at least 0\.19 EUR"):
            act(alice, job, "0.15", 5, gpus_per_node="2")
    assert "for 1m5s at today's price" in meant(alice, job, "0.2", 5, gpus_per_node="2")
    assert changed(alice, job, "0.2", 5, gpus_per_node="2").gpus == 2
    less = changed(alice, job, "0.1", 6, gpus_per_node="1")
    assert (less.gpus, less.max_cost, less.spec["max_cost"]) == (1, Decimal("0.1"), "0.10")


def test_only_who_sees_costs_changes_it_and_no_history_has_the_amount(
    cluster, alice, lead, operator, carol, project
):
    job, _ = runs(cluster, alice, project)
    for person in (carol, operator):
        with pytest.raises(Forbidden):
            changed(person, job, "2", 300)
    changed(lead, job, "2.5", 300)
    event = JobEvent.objects.get(job=job, kind="max_cost_changed")
    assert (event.actor, event.detail) == (lead, {"now": "higher"})
    told = AuditEvent.objects.get(action="job.max_cost_changed")
    assert (told.before, told.after) == ('{"max_cost":"1.00"}', '{"max_cost":"2.50"}')
    assert changed(alice, job, "2.50", 301).version == Job.objects.get(pk=job.pk).version
    assert JobEvent.objects.filter(kind="max_cost_changed").count() == 1


def test_who_rests_and_may_cost_more_now_starts_at_once(
    scheduler, root, alice, project, monkeypatch
):
    # Its turn to be looked at goes by its number, and would hold it.
    monkeypatch.setattr(paying, "_WAITING", SimpleNamespace(read=lambda *_: []))
    job = submit(alice, project, max_cost="0.1", time_limit="1h")
    priced(root, 36, 1)
    for second in range(2, 40):
        scheduler.run_cycle(at(second))
    assert job.pk in scheduler.memory.resting
    job.refresh_from_db()
    change_job(actor=alice, job=job, change=read_change(max_cost="50"), now=at(40))
    assert scheduler.run_cycle(at(41)).started == 1


@pytest.mark.parametrize(
    ("asked", "more"),
    [({}, "0.00 EUR"), ({"max_cost": "5"}, "4.00 EUR"), ({"max_cost": "none"}, "6.20 EUR")],
)
def test_more_time_costs_no_more_than_its_price_lets_it(cluster, alice, project, asked, more):
    job, _ = runs(cluster, alice, project)
    job = Job.objects.get(pk=job.pk)
    impact = preview(alice, job, read_change("2h", **asked), now=at(300))
    assert impact["more_cost"] == more


@pytest.mark.parametrize(
    ("held", "asked", "more"),
    [
        ({}, {}, "3.60 EUR"),
        ({"max_cost": "5"}, {}, "1.40 EUR"),
        ({"max_cost": "5"}, {"max_cost": "none"}, "3.60 EUR"),
        ({"gpus_per_node": 0}, {}, None),
    ],
)
def test_more_time_of_one_that_waits_has_its_price_too(cluster, alice, project, held, asked, more):
    job = submit(alice, project, time_limit="1h", **held)
    job = Job.objects.get(pk=job.pk)
    assert preview(alice, job, read_change("2h", **asked), now=at(300))["more_cost"] == more
    # Less time costs no more.
    assert preview(alice, job, read_change("30m", **asked), now=at(300))["more_cost"] is None


def test_who_may_not_see_costs_is_told_no_price(cluster, alice, project, monkeypatch):
    job = Job.objects.get(pk=submit(alice, project, time_limit="1h").pk)
    monkeypatch.setattr("scheduler.loop.supposing.effects.may_see_cost", lambda *_: False)
    assert preview(alice, job, read_change("2h"), now=at(300))["more_cost"] is None


def test_a_job_without_gpus_gets_none(cluster, alice, project):
    job = submit(alice, project, gpus_per_node=0, hold=True)
    for act in (meant, changed):
        with pytest.raises(Invalid, match="a job without GPUs has none") as refused:
            act(alice, job, "2", 5)
        assert refused.value.field == "max_cost"
