"""One read of a log for all who watch it: nothing lost, nothing twice, nothing for strangers."""

from __future__ import annotations

import asyncio
import re

import pytest
from asgiref.sync import sync_to_async
from django.db import OperationalError

from portal.live import consumer, log_feed, log_stream, watches
from portal.live.log_feed import LogFeed, feed_of
from tests import scenes
from tests.live.test_socket import follow, hint, opened
from tests.pages.yard import build_yard

pytestmark = [pytest.mark.asyncio, pytest.mark.django_db(transaction=True)]

_ROW = re.compile(r'id="L(\d+)".*?<span>([^<]*)</span>')


@pytest.fixture
def yard(root, alice, project):
    return build_yard(root, alice, project)


class Log:
    """The running attempt's log, which has three lines already."""

    def __init__(self, yard) -> None:
        self.yard = yard
        self.topic = f"log:{yard.attempt.pk}:0"
        self.lines = 3

    async def grow(self, count: int) -> int:
        """Append lines that say their number; returns the size in bytes."""

        def append():
            placement = self.yard.attempt.placements.get(rank=0)
            numbers = range(self.lines + 1, self.lines + count + 1)
            ack = scenes.append_log(
                node=self.yard.cluster.node(1),
                fence=self.yard.attempt.pk,
                rank=0,
                offset=placement.log_size,
                body="".join(f"line {number}\n" for number in numbers).encode(),
            )
            self.lines += count
            return ack.size

        return await sync_to_async(append)()


async def lines_until(live, last: int) -> list[tuple[int, str]]:
    """Numbers and texts of all rows up to line `last`, as they came."""
    rows: list[tuple[int, str]] = []
    while not rows or rows[-1][0] < last:
        frame = await live.frame()
        assert frame["kind"] == "lines"
        found = [(int(number), text) for number, text in _ROW.findall(frame["html"])]
        assert [number for number, _ in found] == list(
            range(frame["from_line"], frame["next_line"])
        )
        rows += found
    return rows


def expected(first: int, last: int) -> list[tuple[int, str]]:
    return [(number, f"line {number}") for number in range(first, last + 1)]


@pytest.fixture
def reads(monkeypatch):
    """The first lines of all reads of a log."""
    begun = []
    real = log_feed.read_lines

    def counted(placement, *, from_line, count):
        begun.append(from_line)
        return real(placement, from_line=from_line, count=count)

    monkeypatch.setattr(log_feed, "read_lines", counted)
    return begun


async def test_many_sockets_cost_one_read_and_each_gets_every_line_once(alice, yard, reads):
    log = Log(yard)
    sockets = [await opened(alice) for _ in range(200)]
    for live in sockets:
        await live.send({"subscribe": [{"topic": log.topic, "after": 3}, "nodes"]})
    for live in sockets:
        assert (await live.next_frame(timeout=20))["topic"] == "nodes"
    await asyncio.sleep(0.3)
    reads.clear()
    for _ in range(5):
        await hint(log.topic, "grown", await log.grow(4))
        await asyncio.sleep(watches.COALESCE_LOG_S * 1.5)
    for live in sockets:
        assert await lines_until(live, 23) == expected(4, 23)
        await live.leave()
    # Two hundred sockets, five times: a thousand reads if each read for itself.
    assert 1 <= len(reads) <= 25


async def test_who_may_not_read_it_gets_nothing_of_what_is_kept(alice, carol, finance, yard):
    log = Log(yard)
    member = await opened(alice)
    await member.send({"subscribe": [{"topic": log.topic, "after": 3}]})
    await hint(log.topic, "grown", await log.grow(2))
    await lines_until(member, 5)
    for person in (carol, finance):
        other = await opened(person)
        await other.send({"subscribe": [{"topic": log.topic, "after": 0}]})
        assert (await other.frame())["kind"] == "refused"
        await hint(log.topic, "grown", await log.grow(1))
        assert await other.receive_nothing(0.4)
        await other.leave()
    await member.leave()


async def test_a_burst_comes_in_frames_of_bounded_size(alice, yard, reads):
    log = Log(yard)
    ahead, behind = await opened(alice), await opened(alice)
    await follow(ahead, {"topic": log.topic, "after": 3})
    await follow(behind, {"topic": log.topic, "after": 1})
    await hint(log.topic, "grown", await log.grow(1200))
    assert (await lines_until(behind, 1203))[-1200:] == expected(4, 1203)
    assert await lines_until(ahead, 1203) == expected(4, 1203)
    await ahead.leave()
    await behind.leave()


async def test_who_is_further_behind_than_what_is_kept_reads_alone(alice, yard, monkeypatch):
    monkeypatch.setattr(log_feed, "KEPT_LINES", 10)
    log = Log(yard)
    ahead = await opened(alice)
    await follow(ahead, {"topic": log.topic, "after": 3})
    for _ in range(6):
        await hint(log.topic, "grown", await log.grow(8))
        await lines_until(ahead, log.lines)
    late = await opened(alice)
    await late.send({"subscribe": [{"topic": log.topic, "after": 5}]})
    assert await lines_until(late, 51) == expected(6, 51)
    await hint(log.topic, "grown", await log.grow(2))
    assert await lines_until(late, 53) == expected(52, 53)
    await ahead.leave()
    await late.leave()


async def test_who_is_very_far_behind_goes_on_at_the_end(alice, yard, monkeypatch):
    monkeypatch.setattr(log_stream, "MOST_BEHIND", 600)
    log = Log(yard)
    await log.grow(700)
    near, far = await opened(alice), await opened(alice)
    await near.send({"subscribe": [{"topic": log.topic, "after": 150}]})
    await far.send({"subscribe": [{"topic": log.topic, "after": 3}]})
    assert await lines_until(near, 703) == expected(151, 703)
    assert await lines_until(far, 703) == expected(204, 703)
    await near.leave()
    await far.leave()


async def test_a_log_that_cannot_be_read_takes_no_other_topic_along(alice, yard, monkeypatch):
    monkeypatch.setattr(consumer, "UNREADABLE_S", 0.1)
    log = Log(yard)
    real, calls = log_feed.read_lines, []

    def fails_once(placement, *, from_line, count):
        calls.append(from_line)
        if len(calls) == 1:
            raise PermissionError("the store is away")
        return real(placement, from_line=from_line, count=count)

    monkeypatch.setattr(log_feed, "read_lines", fails_once)
    live = await opened(alice)
    await follow(live, {"topic": log.topic, "after": 3}, "nodes")
    await hint("nodes")
    assert (await live.frame())["topic"] == "nodes"
    assert calls
    await hint(log.topic, "grown", await log.grow(2))
    assert await lines_until(live, 5) == expected(4, 5)
    await live.leave()


async def test_from_now_on_means_from_now_on(alice, yard):
    log = Log(yard)
    live = await opened(alice)
    await follow(live, log.topic)
    await hint(log.topic, "grown", await log.grow(2))
    assert await lines_until(live, 5) == expected(4, 5)
    await live.leave()


async def test_hints_in_the_wrong_order_lose_no_line(alice, yard):
    log = Log(yard)
    live = await opened(alice)
    await follow(live, {"topic": log.topic, "after": 3})
    sizes = [await log.grow(1), await log.grow(1)]
    for size in reversed(sizes):
        await hint(log.topic, "grown", size)
    assert await lines_until(live, 5) == expected(4, 5)
    await live.leave()


async def test_a_lost_hint_is_made_good_by_the_next_look(alice, yard, monkeypatch):
    monkeypatch.setattr(consumer, "RECHECK_S", 0.4)
    log = Log(yard)
    live = await opened(alice)
    await follow(live, {"topic": log.topic, "after": 3})
    await log.grow(2)
    assert await lines_until(live, 5) == expected(4, 5)
    await live.leave()


async def test_a_read_that_fails_serves_nobody(yard, monkeypatch):
    feed = LogFeed(yard.attempt.pk, 0)
    real, calls = log_feed.placement_of_stream, []

    def fails_once(attempt_id, rank):
        calls.append(attempt_id)
        if len(calls) == 1:
            raise OperationalError("gone for a moment")
        return real(attempt_id, rank)

    monkeypatch.setattr(log_feed, "placement_of_stream", fails_once)
    outcomes = await asyncio.gather(*(feed.refresh() for _ in range(3)), return_exceptions=True)
    assert [type(each) for each in outcomes] == [OperationalError, type(None), type(None)]
    assert (len(calls), feed.next_line) == (2, 4)


async def test_a_feed_goes_with_its_last_socket(yard):
    feed = feed_of(yard.attempt.pk, 0)
    assert feed_of(yard.attempt.pk, 0) is feed
    mark = id(feed)
    feed.mark = mark
    del feed
    assert not hasattr(feed_of(yard.attempt.pk, 0), "mark")
