"""What is counted beside the broker: told together, by all processes, and to monitors."""

from __future__ import annotations

from collections import Counter

import pytest

from scheduler import tallies
from scheduler.loop import cycle as loop_cycle
from scheduler.loop.cycle import Scheduler
from scheduler.models import SchedulerLease
from scheduler.services.logs import finish_undrained
from scheduler.tallies import Tally, tally
from tests import scenes
from tests.api.test_agent import call, enrolled, refusal
from tests.scenes import at, ended, running, start, submit, sync

__all__ = ["enrolled"]

pytestmark = pytest.mark.django_db


class Store:
    """As much of one as counts need; `is_away` refuses."""

    def __init__(self) -> None:
        self.kept: Counter[str] = Counter()
        self.is_away = False

    def __enter__(self) -> Store:
        if self.is_away:
            raise OSError("refused")
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def pipeline(self) -> Store:
        return self

    def hincrby(self, _key: str, what: str, times: int) -> None:
        self.kept[what] += times

    def execute(self) -> None:
        pass

    def hgetall(self, _key: str) -> dict[bytes, bytes]:
        return {what.encode(): str(times).encode() for what, times in self.kept.items()}


@pytest.fixture
def store(monkeypatch):
    made = Store()
    monkeypatch.setattr(tallies, "_store", lambda: made)
    tallies._untold.clear()
    yield made
    tallies._untold.clear()


def counted() -> dict[str, int]:
    return {str(what): times for what, times in (tallies.tallies() or {}).items() if times}


def test_what_has_come_together_is_told_once_and_kept_while_the_store_is_away(store):
    for _ in range(3):
        tally(Tally.GAP_REFUSED)
    assert not store.kept, "nobody waits for the store"
    store.kept[Tally.GAP_REFUSED] = 10  # by other processes
    assert counted() == counted() == {"gap_refused": 13}
    store.is_away = True
    tally(Tally.GAP_REFUSED)
    tallies.tell()
    assert tallies.tallies() is None
    store.is_away = False
    tally(Tally.GAP_REFUSED)
    assert counted() == {"gap_refused": 15}


def test_what_a_node_says_of_attempts_that_are_over_and_of_bytes_too_far_on(
    client, enrolled, alice, project, store
):
    node, secret = enrolled
    attempt = start(submit(alice, project), node)
    place = f"/attempts/{attempt.pk}/log?rank=0&offset=9"
    refusal(call(client, place, b"x", secret), 409, "log_gap")
    sync(node, running(attempt))
    assert counted() == {"gap_refused": 1}
    sync(node, ended(attempt), now=at(5))
    attempt.refresh_from_db()
    assert attempt.state == "ended"
    sync(node, running(attempt), now=at(6))
    foreign = f"/attempts/{10**9}/log?rank=0&offset=0"
    refusal(call(client, foreign, b"x", secret), 404, "not_found")
    assert counted() == {"gap_refused": 1, "stale_node": 2}


def test_a_log_whose_end_never_came(cluster, alice, project, store):
    node = cluster.node(1)
    attempt = start(submit(alice, project), node)
    sync(node, ended(attempt, log_size=10))
    assert finish_undrained(now=at(7200)) == 1
    assert counted() == {"gap_recorded": 1}


def test_a_plan_of_a_scheduler_that_lost_its_lease(cluster, alice, project, store, monkeypatch):
    submit(alice, project)
    real = loop_cycle.load_snapshot

    def slow(now, **more):
        SchedulerLease.objects.update(token=99, holder="other", expires_at=at(1000))
        return real(now, **more)

    SchedulerLease.objects.update(expires_at=scenes.NOON)
    monkeypatch.setattr(loop_cycle, "load_snapshot", slow)
    assert not Scheduler(holder="test").run_cycle(at(1)).has_lease
    assert counted() == {"stale_scheduler": 1}


def test_monitors_read_them_and_nothing_where_the_store_is_away(client, program, operator, store):
    headers = program(operator, ["nodes:read"]).headers
    for what, times in ((Tally.STALE_NODE, 2), (Tally.GAP_RECORDED, 1), (Tally.SOCKET_RESYNC, 4)):
        for _ in range(times):
            tally(what)
    lines = client.get("/metrics", **headers).content.decode().splitlines()
    for line in (
        'trainyard_stale_fences_refused_total{of="node"} 2.0',
        'trainyard_stale_fences_refused_total{of="scheduler"} 0.0',
        'trainyard_log_gaps_total{what="recorded"} 1.0',
        'trainyard_log_gaps_total{what="refused"} 0.0',
        "trainyard_socket_resyncs_total 4.0",
    ):
        assert line in lines
    store.is_away = True
    text = client.get("/metrics", **headers).content.decode()
    assert "log_gaps" not in text and "trainyard_jobs" in text
