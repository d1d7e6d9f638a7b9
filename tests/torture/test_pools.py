"""Several pools in the torture: which nodes are in which, and where jobs are meant to run."""

from __future__ import annotations

import random
import threading
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from portal.torture import plants, program
from portal.torture.faults import Hand
from portal.torture.history import Diary, Evidence, read_lines
from portal.torture.invariants import check_all
from portal.torture.moves import figures_of_pools
from portal.torture.people.limits import _of_pools
from portal.torture.people.moving import Movers
from portal.torture.people.spreading import Spread
from portal.torture.proving import with_plant
from portal.torture.run import Choice
from portal.torture.yard import Yard
from portal.torture.yard.pools import deal, pools_in_order, usual_pools
from scheduler.spec import parse_spec
from tests.torture.stories import Story

THREE = deal(8, 3)
EVERY = [*program._KINDS, *program.HOSTILE]


@pytest.mark.parametrize(
    ("agents", "pools", "sizes"),
    [
        (8, 1, [8]),
        (8, 3, [3, 3, 2]),
        (3, 2, [2, 1]),
        (2, 2, [1, 1]),
        (2, 5, [1, 1]),
        (9, 2, [5, 4]),
    ],
)
def test_nodes_are_dealt_to_pools_the_first_has_most(agents, pools, sizes):
    dealt = deal(agents, pools)
    assert list(dealt.values()) == sizes and next(iter(dealt)) == "default"
    assert len(list(pools_in_order(dealt))) == agents


def test_few_nodes_have_fewer_pools_unless_somebody_says_so():
    assert [usual_pools(agents) for agents in (2, 3, 4, 5, 6, 8, 64)] == [1, 2, 2, 3, 3, 3, 3]


def a_spread(tmp_path, sizes):
    return Spread(sizes, Diary(tmp_path / "history.jsonl"))


def drawn(tmp_path, key, kind):
    body = program.HOSTILE.get(kind) or program._KINDS[kind][1]
    return program.document(kind, body, random.Random(key), tmp_path, key, 5.0)


@pytest.mark.parametrize("sizes", [THREE, deal(3, 2), deal(2, 2)])
def test_jobs_of_every_kind_come_to_all_pools_where_they_fit_and_it_is_told_before(tmp_path, sizes):
    spread, first, seen = a_spread(tmp_path, sizes), set[str](), set[tuple[str, ...]]()
    for number in range(400):
        key, kind = f"t-{number}", EVERY[number % len(EVERY)]
        sent = spread.placed(key, spread.lent(key, drawn(tmp_path, key, kind)))
        spec = parse_spec(sent)
        pools = (spec.pool, *spec.other_pools)
        assert all(sizes[pool] >= int(spec.nodes) for pool in pools), kind
        assert spec.project == program.PROJECT or set(pools) - {spread.closed}
        first.add(spec.pool)
        seen.add(pools)
        assert sent == spread.placed(key, spread.lent(key, drawn(tmp_path, key, kind)))
    told = {one["key"]: one for one in read_lines(tmp_path / "history.jsonl")}
    assert first == set(sizes)
    assert len(seen) > 2 * len(sizes) - 1, "some choose, in any order"
    assert {one["project"] for one in told.values()} == {program.PROJECT, program.OTHER_PROJECT}
    assert {tuple(one["pools"]) for one in told.values()} == seen


def test_with_one_pool_jobs_are_as_they_were_before_there_were_several(tmp_path):
    """Kept seeds repeat what they did."""
    spread = a_spread(tmp_path, deal(3, 1))
    for kind in EVERY:
        sent = drawn(tmp_path, "t-1", kind)
        assert spread.placed("t-1", spread.lent("t-1", sent)) == sent
    assert Choice().pools == 1 and not list(_of_pools(deal(3, 1), 1))
    assert spread.bookable("b-1") == "default" and not spread.closed


def test_a_job_of_a_booking_goes_with_it_and_what_belongs_together_stays_in_its_project(tmp_path):
    spread = a_spread(tmp_path, THREE)
    booked = {**drawn(tmp_path, "ub", "short"), "pool": "pool-2", "booking": "b"}
    assert spread.placed("ub", booked) == booked
    for number in range(50):
        array = drawn(tmp_path, f"a-{number}", "array")
        assert spread.lent(f"a-{number}", array) == array
    assert {spread.bookable(f"b-{number}") for number in range(50)} == set(THREE)
    assert {a_spread(tmp_path, deal(3, 2)).bookable(f"b-{n}") for n in range(9)} == {"default"}


def test_each_pool_has_a_quota_and_one_is_closed_to_a_project():
    for seed in range(3):
        *own, closed = _of_pools(THREE, seed)
        assert [one["pool"] for one in own] == list(THREE)
        assert [one["maximum"] for one in own] == [7, 7, 5]
        assert len({one["owner"] for one in own}) == 3
        assert closed == {"owner": program.OTHER_PROJECT, "pool": "pool-3", "maximum": 0}


def a_mover(tmp_path, monkeypatch, answers, waiting):
    over = threading.Event()
    asked: list[tuple[str, str]] = []

    def api(who):
        def answer(request):
            asked.append((who, request.url.path))
            return httpx.Response(answers[who])

        base = "http://portal/api/v1"
        return httpx.Client(base_url=base, transport=httpx.MockTransport(answer))

    line = SimpleNamespace(execute=lambda _: SimpleNamespace(fetchall=lambda: waiting))
    monkeypatch.setattr("psycopg.connect", lambda *_, **__: nullcontext(line))
    monkeypatch.setattr(over, "wait", lambda _: None)
    door, diary = cast(Any, SimpleNamespace(api=api)), Diary(tmp_path / "history.jsonl")
    yard = cast(Yard, SimpleNamespace(database="", pools=THREE))
    return Movers(yard, diary, Spread(THREE, diary), door, over), asked


@pytest.mark.parametrize(
    ("owner", "who"), [(200, ["alice"]), (409, ["alice"]), (403, ["alice", "admin"])]
)
def test_who_waits_is_sent_elsewhere_by_its_owner_or_where_others_wait_longer_by_an_operator(
    tmp_path, monkeypatch, owner, who
):
    waiting = [(7, 3, program.OTHER_PROJECT)]
    mover, asked = a_mover(tmp_path, monkeypatch, {"alice": owner, "admin": 200}, waiting)
    mover.move(random.Random(1))
    assert asked == [(one, "/api/v1/jobs/7/change/") for one in who]
    told = read_lines(mover.diary.path)
    assert [one["status"] for one in told] == [owner, 200][: len(who)]
    assert all(one["sent_at"] <= one["at"] and "pool-3" not in one["pools"] for one in told)


def test_where_nobody_waits_nobody_is_sent(tmp_path, monkeypatch):
    mover, asked = a_mover(tmp_path, monkeypatch, {}, [])
    mover.move(random.Random(1))
    assert asked == [] and read_lines(mover.diary.path) == []


def test_of_each_pool_somebody_stays_awake_but_who_is_alone_there():
    nodes = [f"n{number}" for number in range(1, 9)]
    pools = dict(zip(nodes, pools_in_order(THREE), strict=True))
    yard = cast(Yard, SimpleNamespace(nodes=nodes, pool_of=pools))
    hand = Hand(yard, random.Random(1), cast(Any, None))
    with hand.alone("n7") as first, hand.alone("n8") as second, hand.alone("n1") as third:
        assert (first, second, third) == ("n7", "", "n1")
    yard = cast(Yard, SimpleNamespace(nodes=["n1", "n2"], pool_of={"n1": "a", "n2": "b"}))
    hand = Hand(yard, random.Random(1), cast(Any, None))
    with hand.alone("n1") as first, hand.alone("n2") as second:
        assert (first, second) == ("n1", "")


def test_what_nobody_answered_for_may_be_done_and_what_was_done_in_time_counts():
    story = Story()
    story.fact("placed")["pools"] = ["pool-2", "default"]
    story.fact("moved").update(status=0)
    assert check_all(story.evidence())["I38"].breaks == ()
    story.fact("moved").update(status=200, pools=["default"])
    assert check_all(story.evidence())["I38"].breaks == ()


def test_a_job_that_waits_where_it_does_not_fit_is_no_stall():
    """There is room in a pool that it did not name."""
    story = Story()
    story.rules["starts_within_s"] = 5.0
    story.fact("fault").update(at=90.0, until=95.0)
    for event in story.tables["nodeevent"]:
        event["at"] = 99.0
    story.row("job", 1)["pool_id"] = 9
    story.row("quota", 5)["maximum"] = 9
    story.fact("placed")["pools"] = ["pool-2"]
    assert check_all(story.evidence())["I26"].breaks == ()


def test_figures_say_how_jobs_spread():
    tables = {
        "node": [{"id": 1, "pool_id": 2}, {"id": 2, "pool_id": 9}],
        "pool": [{"id": 2, "name": "default"}, {"id": 9, "name": "pool-2"}],
        "placement": [{"id": n, "node_id": node} for n, node in enumerate((1, 1, 2))],
        "job": [{"id": 1, "pool_choice": ["default", "pool-2"]}, {"id": 2, "pool_choice": None}],
        "jobevent": [{"id": 1, "kind": "moved_to_pool"}, {"id": 2, "kind": "ended"}],
    }
    told = [{"kind": "moved", "at": 1.0, "status": status} for status in (200, 409)]
    assert figures_of_pools(Evidence(told, tables), 2) == {
        "count": 2, "chose": 1, "went": 1, "sent": 1, "in default": 2, "in pool-2": 1,
    }  # fmt: skip


def test_the_bug_in_pools_has_two():
    choice = with_plant(Choice(), "pool-unasked")
    assert choice.pools == 2 and choice.watch == plants.PLANTS["pool-unasked"].shows == ("I38",)
