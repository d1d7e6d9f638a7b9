"""A job of many sizes gets no more nodes than its highest price pays for; parts of cards and booked
ones are paid for like others."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.errors import Conflict, Invalid
from accounts.services import set_rate
from scheduler.engine.policy import Policy
from scheduler.loop.changing import change_job, preview, read_change
from scheduler.loop.cycle import Scheduler
from scheduler.loop.loading import load_snapshot
from scheduler.loop.loading.money.sizes import load_paid_nodes
from scheduler.loop.supposing.quoting import quote_job
from scheduler.models import Allocation, Device, Job, Node
from scheduler.money import from_steps
from scheduler.services.bookings import plan_booking
from scheduler.services.changing.prices import price_effect
from scheduler.services.finishing.limiting import limit_by_price
from scheduler.services.finishing.paying import keep_prices
from scheduler.services.nodes.cutting import cut_card
from scheduler.services.sharing.budgets import BudgetRules, set_budget
from scheduler.spec import SpecInvalid, parse_spec
from scheduler.states import EndReason, JobState
from tests.loop.test_max_cost import priced
from tests.scenes import MODEL, NOON, at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db
# A GPU costs 3.60 an hour, which is 0.001 a second: a minute with the time to stop costs 0.095.
SIZES = {"nodes": "1..2", "time_limit": "1h"}


def sizes_of(job):
    """The most nodes that the engine sees, of who waits and who runs."""
    loaded = load_snapshot(NOON).with_running(rest_s=0, now=NOON)
    for jobs in (loaded.snapshot.waiting, loaded.snapshot.running.jobs):
        if job.pk in jobs.id.tolist():
            [row] = (jobs.id == job.pk).nonzero()[0]
            return int(jobs.nodes_min[row]), int(jobs.nodes[row])
    return None


def fails(cluster, attempt, second):
    for placement in attempt.placements.order_by("rank"):
        report = ended(attempt, placement.rank, reason=EndReason.EXIT_CODE, exit_code=1)
        sync(placement.node, report, now=at(second))


@pytest.mark.parametrize(("max_cost", "nodes"), [("0.1", 1), ("0.2", 2)])
def test_it_starts_on_as_many_nodes_as_are_paid(scheduler, alice, project, max_cost, nodes):
    job = submit(alice, project, max_cost=max_cost, **SIZES)
    assert sizes_of(job) == (1, nodes)
    assert scheduler.run_cycle(at(1)).started == 1
    attempt = job.attempts.get()
    assert attempt.placements.count() == nodes
    assert attempt.cost_limit_s == 65


def test_many_that_run_cost_no_more_queries_than_one(cluster, alice, project):
    jobs = [submit(alice, project, name=f"j{n}", max_cost="0.2", **SIZES) for n in range(3)]
    started, counts = set[int](), []
    for place, job in enumerate(jobs):
        start(job, cluster.nodes[place % 2], now=at(1))
        started.add(job.pk)
        with CaptureQueriesContext(connection) as asked:
            found = load_paid_nodes(started, (), at(30))
        # 29 s on one GPU cost 0.029: what is left pays for a minute on one node.
        assert found == dict.fromkeys(started, 1)
        counts.append(len(asked))
    assert counts[0] == counts[1] == counts[2]


def test_certain_sizes_count(cluster, alice, project):
    job = submit(alice, project, max_cost="0.5", nodes="1..8", node_sizes=[1, 4, 8])
    assert sizes_of(job) == (1, 4)


def test_it_goes_on_with_fewer_nodes_where_what_is_left_pays_for_no_more(
    scheduler, cluster, alice, project
):
    job = submit(alice, project, max_cost="0.5", retries=2, **SIZES)
    scheduler.run_cycle(at(1))
    first = job.attempts.get()
    for placement in first.placements.order_by("rank"):
        sync(placement.node, running(first, placement.rank), now=at(2))
    fails(cluster, first, 161)
    # 0.32 are spent: 0.18 pay for a minute on one node, not on two.
    assert keep_prices(now=at(162)) == 0
    assert sizes_of(job) == (1, 1)
    scheduler.run_cycle(at(163))
    second = job.attempts.latest("number")
    assert (second.number, second.placements.count(), second.cost_limit_s) == (2, 1, 145)
    sync(cluster.node(1), running(second), now=at(164))
    sync(cluster.node(2), now=at(164))
    fails(cluster, second, 263)
    assert keep_prices(now=at(264)) == 1
    job.refresh_from_db()
    assert (job.state, job.end_reason) == (JobState.CANCELLED, EndReason.MAX_COST_SPENT)


@pytest.mark.parametrize(("max_cost", "nodes"), [("0.1", 1), ("50", 2)])
def test_it_grows_no_further_than_is_paid(cluster, alice, project, max_cost, nodes):
    scheduler = Scheduler(
        holder="test", policy=Policy(preempts=True, resizes=True, min_run_s=60, rest_s=600)
    )
    beside = submit(alice, project, gpus_per_node=2, time_limit="1h")
    start(beside, cluster.node(2), token=7)
    job = submit(alice, project, max_cost="50", nodes="1..2", gpus_per_node=2, time_limit="9h")
    scheduler.run_cycle(at(1))
    attempt = job.attempts.get()
    sync(cluster.node(1), running(attempt), now=at(2))
    sync(cluster.node(2), ended(beside.attempts.get()), now=at(3))
    if max_cost != "50":
        Job.objects.filter(pk=job.pk).update(max_cost_steps=(60 + 95 * 2 * 2) * 3_600_000)
    Node.objects.update(last_seen_at=at(130))
    loaded = load_snapshot(at(130)).with_running(rest_s=0, now=at(130))
    assert loaded.snapshot.running.jobs.nodes.tolist() == [nodes]
    assert scheduler.run_cycle(at(130)).stopped == nodes - 1


def test_what_more_nodes_mean_is_said_before(cluster, alice, project):
    job = submit(alice, project, max_cost="1", hold=True, **SIZES)

    def said(second=4, **asked):
        asked = read_change(**asked)
        return preview(alice, Job.objects.get(pk=job.pk), asked, now=at(second))["highest"]

    change_job(actor=alice, job=job, change=read_change(nodes="1"), now=at(3))
    words = "1m5s at today's price; the time limit of 1h would cost 3.60 EUR"
    assert words in said(max_cost="0.1")
    change_job(actor=alice, job=job, change=read_change(max_cost="0.1"), now=at(5))
    assert said(nodes="2").endswith(
        "is enough for 15s at today's price on 2 nodes; the time limit of 1h would cost 7.20 EUR. "
        "On 1 node it is enough for 1m5s: it gets no more nodes than it pays for."
    )
    # A number that it was not submitted for is another request, which has to be paid for.
    gang = submit(alice, project, max_cost="0.1", time_limit="1h", hold=True)
    with pytest.raises(Invalid, match=r"give at least 0\.19 EUR") as refused:
        preview(alice, gang, read_change(nodes="2"), now=at(6))
    assert refused.value.field == "max_cost"


def test_what_more_nodes_mean_for_one_that_runs_is_said_before(cluster, alice, project):
    job = submit(alice, project, max_cost="1", **SIZES)
    change_job(actor=alice, job=job, change=read_change(nodes="1"), now=at(0))
    attempt = start(job, cluster.node(1))
    sync(cluster.node(1), running(attempt), now=at(2))

    def said(second, nodes="2"):
        asked = read_change(nodes=nodes)
        return preview(alice, Job.objects.get(pk=job.pk), asked, now=at(second))["highest"]

    assert said(300).endswith("What is left lets it grow to 2 nodes, and pays for less time there.")
    assert said(850).endswith("What is left pays for no more than its 1 node.")
    gang = submit(alice, project, max_cost="1", time_limit="1h")
    start(gang, cluster.node(1))
    gang.refresh_from_db()
    with pytest.raises(Conflict, match="submitted for one number of nodes"):
        preview(alice, gang, read_change(nodes="2"), now=at(5))


def test_a_quote_says_for_how_long_on_most_and_fewest_nodes(cluster, alice, project):
    document = {"name": "t", "project": project.path, "script": "true", "max_cost": "1", **SIZES}
    words = quote_job(actor=alice, spec=parse_spec(document), now=at(0)).highest
    assert "is enough for 7m45s at today's price on 2 nodes" in words
    assert words.endswith("On 1 node it is enough for 16m: it gets no more nodes than it pays for.")


def test_a_dearer_price_leaves_it_fewer_nodes(cluster, root, alice, project):
    job = submit(alice, project, max_cost="1", **SIZES)
    assert sizes_of(job) == (1, 2)
    # Who starts before the price rises has to be paid for after that.
    priced(root, 36, 200)
    assert sizes_of(job) == (1, 1)


def budget_of(root, team, amount):
    return set_budget(
        actor=root, owner=team, amount=Decimal(amount), valid_from=at(-9), valid_until=at(10**6),
        rules=BudgetRules(commits_at="start"), now=at(0),
    )  # fmt: skip


def test_a_part_of_a_card_is_paid_and_held_as_a_part(
    scheduler, cluster, root, team, alice, project
):
    set_rate(
        actor=root, device_model=f"{MODEL} 1/4", price_per_gpu_hour=Decimal("1.80"), currency="EUR",
        valid_from=NOON - timedelta(days=1), restated_for="as if then",
    )  # fmt: skip
    card = Device.objects.get(node=cluster.node(1), index=0, parent=None)
    cut_card(actor=root, device=card, slots=4, now=NOON)
    own = budget_of(root, team, "1.2")
    with pytest.raises(SpecInvalid) as refused:
        submit(alice, project, gpu_milli="0.25", max_cost="0.04", time_limit="10h")
    assert "give at least 0.05 EUR" in str(refused.value)
    jobs = [
        submit(alice, project, gpu_milli="0.25", max_cost="0.5", time_limit="10h") for _ in range(3)
    ]
    assert scheduler.run_cycle(at(1)).started == 2
    own.refresh_from_db()
    assert from_steps(own.committed_money) == 1
    # 1000 s are paid at 1.80 an hour.
    assert {job.attempts.get().cost_limit_s for job in jobs[:2]} == {965}


def test_a_booked_job_is_paid_and_held_like_others(
    scheduler, cluster, root, team, lead, alice, project
):
    own = budget_of(root, team, "1.5")
    plan_booking(
        actor=lead, owner=project, pool=cluster.pool, now=NOON, name="exam", nodes=1,
        from_at=at(60), until_at=at(7200),
    )  # fmt: skip
    job = submit(alice, project, booking="exam", max_cost="1", time_limit="1h")
    assert scheduler.run_cycle(at(1)).started == 0
    Node.objects.update(last_seen_at=at(60))
    assert scheduler.run_cycle(at(60)).started == 1
    own.refresh_from_db()
    assert (job.attempts.get().cost_limit_s, from_steps(own.committed_money)) == (965, 1)


def test_who_has_its_nodes_alone_is_told_for_how_long_all_their_gpus_are_paid(
    cluster, alice, project
):
    fields = {"max_cost": "1", "time_limit": "1h", "exclusive": True}
    document = {"name": "a", "project": project.path, "script": "true", **fields}
    # Nodes have two GPUs: 500 s are paid, and the time to stop is taken off.
    words = "Its highest price, 1.00 EUR, is enough for 7m45s at today's price; the time limit of "
    quote = quote_job(actor=alice, spec=parse_spec(document), now=NOON)
    assert quote.highest == f"{words}1h would cost 7.20 EUR."
    assert price_effect(submit(alice, project, **fields), now=NOON) == quote.highest


def test_many_that_are_tried_again_cost_no_more_queries_than_one(cluster, alice, project):
    fields = {"max_cost": "1", "time_limit": "1h", "retries": 1}
    jobs = [submit(alice, project, name=f"j{n}", **fields) for n in range(4)]
    begun = [start(job, cluster.nodes[n % 2], now=at(1)) for n, job in enumerate(jobs)]
    for attempt in begun:
        fails(cluster, attempt, 101)
    again = [start(job, cluster.nodes[n % 2], now=at(200)) for n, job in enumerate(jobs)]
    held = dict(Allocation.objects.values_list("placement__attempt__job", "device"))
    devices = {job: [device] for job, device in held.items()}
    counts = []
    for some in (again[:1], again):
        with CaptureQueriesContext(connection) as asked:
            limit_by_price(some, {job.pk: job for job in jobs}, devices, now=at(200))
        # 100 s were 0.10: what is left pays for 900 s, less the time to stop.
        assert {attempt.cost_limit_s for attempt in some} == {865}
        counts.append(len(asked))
    assert counts[0] == counts[1]
