"""What accounts may hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.policy import Order, Policy
from scheduler.engine.sharing.quota import Gate
from scheduler.engine.snapshot import NONE, Claims, Snapshot, SnapshotInvalid, floats, ints
from scheduler.states import WaitReason, wait_sentence
from tests.builders import NOW_S, draw, job
from tests.engine.owners import DrawnLimit, limit, shared_by
from tests.engine.shaping import shaped

TEAMS = ("org", "org/a", "org/b", "org/c")
FAIR = Policy(order=Order.FAIR)
QUOTA = {WaitReason.QUOTA_HARD, WaitReason.QUOTA_BORROW_LIMIT, WaitReason.BUDGET_EXHAUSTED}


def outcome(snapshot: Snapshot, policy: Policy = FAIR) -> dict[int, object]:
    """By job: "starts", or why it waits."""
    plan = plan_cycle(snapshot, policy)
    found: dict[int, object] = {start.job: "starts" for start in plan.starts}
    return found | {wait.job: wait.reason for wait in plan.iter_waits()}


def facts_of(snapshot: Snapshot, number: int) -> dict[str, object]:
    (wait,) = [w for w in plan_cycle(snapshot, FAIR).iter_waits() if w.job == number]
    assert "?" not in wait_sentence(wait.reason, wait.facts)
    return dict(wait.facts)


def of(*numbers: int, **owner: str) -> dict[int, str]:
    return {number: team for team, rows in owner.items() for number in map(int, rows.split())}


def test_a_maximum_holds_for_the_account_and_all_below_it() -> None:
    jobs = [job(5, "1x2"), job(6, "1x2"), job(7)]
    tree = ("org", "org/t", "org/t/p", "org/t/q", "org/a")
    cluster = draw("a 1... ....", jobs=jobs)
    owners = {1: "p", 5: "q", 6: "p", 7: "a"}
    snapshot = shared_by(cluster, *tree, owners=owners, limits=[limit("t", maximum=3)])
    assert outcome(snapshot) == {5: "starts", 6: WaitReason.QUOTA_HARD, 7: "starts"}
    facts = facts_of(snapshot, 6)
    assert (facts["account"], facts["used"], facts["limit"], facts["gpus"]) == ("t", 3, 3, 2)


@pytest.mark.parametrize("held", ["1111 ....", "11.. ...."])
def test_what_a_job_grows_into_counts_before_it_has_stopped(held: str) -> None:
    """Job 1 stops on what it has, to go on with eight."""
    cluster = draw(f"a {held}", "b ....", jobs=[job(5, "1x4")])
    job_id, node, gpus, cpus, memory = (ints([one]) for one in (1, 0, 8, 1, 1024))
    kept = Claims(job_id, node, gpus, cpus, memory, floats([NOW_S + 3600]))
    claim = ints([0] * 8 + [NONE] * 4)
    cluster = replace(cluster, claims=kept, devices=replace(cluster.devices, claim=claim))
    for owner, most, first in (
        ("t", 11, WaitReason.QUOTA_HARD),
        ("t", 12, "starts"),
        ("a", 8, "starts"),
    ):
        owners, limits = {1: "t", 5: owner}, [limit("t", maximum=most)]
        snapshot = shared_by(cluster, "org", "org/t", "org/a", owners=owners, limits=limits)
        assert outcome(snapshot) == {5: first}


def test_within_the_guarantee_nobody_is_asked() -> None:
    limits = [limit("a", guaranteed=4), limit("b", guaranteed=4)]
    owners = of(b="1 2", a="5")
    # b borrows two of a's; a gets what it wants all the same, as long as GPUs are free.
    cluster = draw("a 111222..", jobs=[job(5, "1x2")])
    assert outcome(shared_by(cluster, *TEAMS, owners=owners, limits=limits)) == {5: "starts"}
    # It waits for GPUs then, not for its quota.
    cluster = draw("a 111222..", jobs=[job(5, "1x4")])
    snapshot = shared_by(cluster, *TEAMS, owners=owners, limits=limits)
    assert outcome(snapshot) == {5: WaitReason.CAPACITY_BUSY}


def test_what_is_idle_may_be_borrowed() -> None:
    limits = [limit("a", guaranteed=4), limit("b", guaranteed=4)]
    cluster = draw("a ........", jobs=[job(5, "1x6"), job(6, "1x1")])
    snapshot = shared_by(cluster, *TEAMS, owners=of(b="5", c="6"), limits=limits)
    assert outcome(snapshot) == {5: "starts", 6: "starts"}


def test_a_borrow_limit_of_none_and_of_some() -> None:
    jobs = [job(5, "1x6")]
    for most, expected in ((0, WaitReason.QUOTA_BORROW_LIMIT), (1, WaitReason.QUOTA_BORROW_LIMIT)):
        limits = [limit("a", guaranteed=4, borrow=most)]
        snapshot = shared_by(draw("a ........", jobs=jobs), *TEAMS, owners=of(a="5"), limits=limits)
        assert outcome(snapshot) == {5: expected}
    limits = [limit("a", guaranteed=4, borrow=2)]
    snapshot = shared_by(draw("a ........", jobs=jobs), *TEAMS, owners=of(a="5"), limits=limits)
    assert outcome(snapshot) == {5: "starts"}


def test_a_lend_limit_further_down_keeps_the_rest_from_other_teams_too() -> None:
    """Of a's eight its project keeps six to itself, so that b may borrow two."""
    jobs = [job(number) for number in range(5, 13)]
    limits = [limit("a", guaranteed=8), limit("p", guaranteed=6, lend=0), limit("b", guaranteed=8)]
    owners = {1: "b", **{one.id: "b" for one in jobs}}
    tree = ("org", "org/a", "org/a/p", "org/b")
    cluster = draw("a 11111111 ........", jobs=jobs)
    snapshot = shared_by(cluster, *tree, owners=owners, limits=limits)
    assert list(outcome(snapshot).values()).count("starts") == 2
    (cohorts,) = Gate(snapshot).cohorts.values()
    assert cohorts.own == [10_000, 2_000, 6_000, 8_000]
    # With a lend limit of its own above that, nothing is kept twice.
    limits[0] = limit("a", guaranteed=8, lend=1)
    (cohorts,) = Gate(shared_by(cluster, *tree, owners=owners, limits=limits)).cohorts.values()
    assert (cohorts.own, cohorts.keeps) == ([9_000, 2_000, 6_000, 8_000], [0, 1_000, 6_000, 0])


def test_a_lend_limit_keeps_the_rest_for_its_owner() -> None:
    for lent, expected in ((0, WaitReason.QUOTA_BORROW_LIMIT), (2, "starts")):
        limits = [limit("a", guaranteed=6, lend=lent)]
        cluster = draw("a ........", jobs=[job(5, "1x4")])
        snapshot = shared_by(cluster, *TEAMS, owners=of(b="5"), limits=limits)
        assert outcome(snapshot) == {5: expected}
    limits = [limit("a", guaranteed=6, lend=0)]
    snapshot = shared_by(cluster, *TEAMS, owners=of(b="5"), limits=limits)
    facts = facts_of(snapshot, 5)
    # Eight GPUs less the six that their owner keeps.
    assert (facts["used"], facts["limit"], facts["gpus"]) == (0, 2, 4)


def test_who_borrows_what_is_said() -> None:
    limits = [limit("a", guaranteed=4), limit("b", guaranteed=2, lend=0)]
    cluster = draw("a 11111111 ..", jobs=[job(5, "1x2")])
    snapshot = shared_by(cluster, *TEAMS, owners=of(a="1", c="5"), limits=limits)
    assert outcome(snapshot) == {5: WaitReason.QUOTA_BORROW_LIMIT}
    assert facts_of(snapshot, 5)["borrowers"] == [{"account": "a", "gpus": 4}]


def test_cohorts_are_nested() -> None:
    """Projects borrow inside their team first; the team borrows for them as far as it may."""
    tree = ("org", "org/t", "org/t/p", "org/t/q", "org/u")
    base = [limit("t", guaranteed=4), limit("p", guaranteed=2), limit("q", guaranteed=2)]
    cluster = draw("a ........", jobs=[job(5, "1x5")])
    for most, expected in ((0, WaitReason.QUOTA_BORROW_LIMIT), (1, "starts")):
        limits = [replace(base[0], borrow=most), *base[1:]]
        snapshot = shared_by(cluster, *tree, owners=of(p="5"), limits=limits)
        assert outcome(snapshot) == {5: expected}
    # A project that lends nothing keeps its two for itself, inside the team and out.
    limits = [replace(base[0], borrow=0), base[1], replace(base[2], lend=0)]
    small = draw("a ........", jobs=[job(5, "1x3"), job(6, "1x2")])
    snapshot = shared_by(small, *tree, owners=of(p="5", q="6"), limits=limits)
    assert outcome(snapshot) == {5: WaitReason.QUOTA_BORROW_LIMIT, 6: "starts"}


@pytest.mark.parametrize("first", [5, 6])
def test_each_is_told_by_what_it_takes_at_least(first: int) -> None:
    """Alike in GPUs and nodes, they differ in what their account has to hold for them."""
    waited = {number: 60.0 if number == first else 0.0 for number in (5, 6)}
    lines, tree = ("a 11111111", "b 22222222"), ("org", "org/t")
    owners = of(t="1 5 6")
    alone = [job(number, "1x1", waited=waited[number]) for number in (5, 6)]
    cluster = shaped(draw(*lines, jobs=alone), jobs={"is_exclusive": {5: True}})
    snapshot = shared_by(cluster, *tree, owners=owners, limits=[limit("t", maximum=12)])
    assert outcome(snapshot) == {5: WaitReason.QUOTA_HARD, 6: WaitReason.CAPACITY_BUSY}
    wide = [job(number, "4x1", waited=waited[number]) for number in (5, 6)]
    cluster = shaped(draw(*lines, "c 3", "d 4", jobs=wide), jobs={"nodes_min": {6: 3}})
    snapshot = shared_by(cluster, *tree, owners=owners, limits=[limit("t", maximum=11)])
    told = outcome(snapshot)
    assert (told[5], told[6]) == (WaitReason.QUOTA_HARD, WaitReason.CAPACITY_BUSY)


def test_limits_of_a_pool_and_of_a_model_count_only_there() -> None:
    lines = ("a .... model=A100", "b .... model=H100", "c .... pool=big model=H100")
    jobs = [job(5, "1x2", model="H100"), job(6, "1x2", model="A100"), job(7, "1x2", pool="big")]
    owners = of(a="5 6 7")
    one_model = [limit("a", maximum=1, model="H100")]
    found = outcome(shared_by(draw(*lines, jobs=jobs), *TEAMS, owners=owners, limits=one_model))
    assert found == {5: WaitReason.QUOTA_HARD, 6: "starts", 7: WaitReason.QUOTA_HARD}
    one_pool = [limit("a", maximum=1, pool="big")]
    found = outcome(shared_by(draw(*lines, jobs=jobs), *TEAMS, owners=owners, limits=one_pool))
    assert found == {5: "starts", 6: "starts", 7: WaitReason.QUOTA_HARD}


def test_a_job_of_any_model_counts_as_what_it_got() -> None:
    jobs = [job(5, "1x2", waited=9), job(6, "1x1", model="H100"), job(7, "1x1", model="A100")]
    limits = [limit("a", maximum=2, model="H100")]
    snapshot = shared_by(
        draw("a .... model=A100", "b ..xx model=H100", jobs=jobs),
        *TEAMS,
        owners=of(a="5 6 7"),
        limits=limits,
    )
    assert outcome(snapshot) == {5: "starts", 6: WaitReason.QUOTA_HARD, 7: "starts"}


def test_a_quota_for_one_model_keeps_back_nobody_who_takes_others() -> None:
    """There are two H100 in all: who takes any model is not short of them."""
    lines = ("a .... model=A100", "b .. model=H100")
    jobs = [job(5, "1x4", waited=9), job(6, "1x4", model="H100")]
    for row in (limit("a", guaranteed=1, model="H100"), limit("a", maximum=0, model="H100")):
        cluster = draw(*lines, jobs=jobs)
        snapshot = shared_by(cluster, *TEAMS, owners=of(b="5 6"), limits=[row])
        assert outcome(snapshot)[5] == "starts" != outcome(snapshot)[6]
    # What an owner keeps to itself nobody gets by taking any.
    kept = [limit("a", guaranteed=2, lend=0, model="H100")]
    cluster = draw("a xxxx model=A100", "b .. model=H100", jobs=[job(5, "1x2")])
    snapshot = shared_by(cluster, *TEAMS, owners=of(b="5"), limits=kept)
    assert outcome(snapshot) == {5: WaitReason.QUOTA_BORROW_LIMIT}


def test_caps_on_shape_are_inherited() -> None:
    tree = ("org gpus=4", "org/a running=1", "org/b")
    jobs = [job(5), job(6, "1x5"), job(7, "1x4")]
    snapshot = shared_by(draw("a 1... .... ....", jobs=jobs), *tree, owners=of(a="1 5", b="6 7"))
    hard = WaitReason.QUOTA_HARD
    assert outcome(snapshot) == {5: hard, 6: hard, 7: "starts"}
    assert facts_of(snapshot, 5)["cap"] == "running jobs"
    assert (facts_of(snapshot, 6)["cap"], facts_of(snapshot, 6)["limit"]) == ("GPUs per job", 4)


def test_a_budget_pays_for_the_worst_case_and_lets_shorter_jobs_pass() -> None:
    tree = ("org", f"org/a budget={3 * 3600}")
    jobs = [
        job(5, "1x2", limit_s=7200, waited=50),
        job(6, "1x2", limit_s=3600, waited=40),
        job(7, "1x2", limit_s=1800, waited=30),
        job(8, "1x2", limit_s=60, waited=20),
    ]
    snapshot = shared_by(draw("a ........", jobs=jobs), *tree, owners=of(a="5 6 7 8"))
    broke = WaitReason.BUDGET_EXHAUSTED
    assert outcome(snapshot) == {5: broke, 6: "starts", 7: "starts", 8: broke}
    facts = facts_of(snapshot, 5)
    assert (facts["account"], facts["need_gpu_hours"], facts["have_gpu_hours"]) == ("a", 4, 0)
    unlimited = shared_by(draw("a ........", jobs=jobs), "org", "org/a", owners=of(a="5 6 7 8"))
    assert set(outcome(unlimited).values()) == {"starts"}


def test_who_is_kept_back_stands_in_nobodys_way() -> None:
    """It is no head for which nodes are kept, and nobody's estimate counts it."""
    jobs = [job(5, "1x4", waited=9000), job(6, waited=10, limit_s=9999)]
    limits = [limit("a", maximum=2)]
    snapshot = shared_by(draw("a 1...", jobs=jobs), *TEAMS, owners=of(a="5", b="6"), limits=limits)
    assert outcome(snapshot, Policy()) == {5: WaitReason.QUOTA_HARD, 6: "starts"}
    (wait,) = plan_cycle(snapshot).iter_waits()
    assert wait.facts.get("expected_start_at") is None


def test_a_paused_queue_is_named_after_the_quota() -> None:
    jobs = [job(5, "1x4", queue="night"), job(6, queue="night")]
    limits = [limit("a", maximum=2)]
    cluster = draw("a ....", jobs=jobs, paused=["night"])
    snapshot = shared_by(cluster, *TEAMS, owners=of(a="5", b="6"), limits=limits)
    assert outcome(snapshot) == {5: WaitReason.QUOTA_HARD, 6: WaitReason.POOL_CLOSED}


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        (limit("a", guaranteed=-1), r"limits.guaranteed .*row 0"),
        (limit("a", borrow=-2), r"limits.borrow_limit .*row 0"),
        (limit("a", lend=-2), r"limits.lend_limit .*row 0"),
        (limit("a", maximum=-3), r"limits.maximum .*row 0"),
    ],
)
def test_limits_that_make_no_sense_are_refused_by_name(wrong: DrawnLimit, name: str) -> None:
    with pytest.raises(SnapshotInvalid, match=name):
        plan_cycle(shared_by(draw("a ."), *TEAMS, limits=[wrong]))


def test_unknown_pools_and_doubled_rows_are_refused_by_name() -> None:
    snapshot = shared_by(draw("a ."), *TEAMS, limits=[limit("a"), limit("b")])
    for name, column in (("pool", [7, -1]), ("model", [-1, 7]), ("account", [4, 0])):
        with pytest.raises(SnapshotInvalid, match=f"limits.{name}"):
            plan_cycle(replace(snapshot, limits=replace(snapshot.limits, **{name: ints(column)})))
    twice = shared_by(draw("a ."), *TEAMS, limits=[limit("a"), limit("a")])
    with pytest.raises(SnapshotInvalid, match="two rows for one account"):
        plan_cycle(twice)
