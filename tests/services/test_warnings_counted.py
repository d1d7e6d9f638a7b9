"""Warnings of ended attempts are counted as the page of their log finds them, in turns."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import reverse

from portal.terminal import counting
from scheduler.models import Attempt
from scheduler.selectors import logs
from scheduler.services import history
from scheduler.services.kept import warned
from scheduler.services.kept.pruning import prune_kept
from scheduler.services.logs import append_log
from scheduler.services.reaping import mark_lost, mark_silent
from scheduler.states import EndReason
from tests import scenes
from tests.scenes import NOON, at, ended, running, start, submit, sync, write_log

pytestmark = pytest.mark.django_db
LOG = b"Warning: one\nfine\nuserwarn\x1b[31mING two\nwarn, overwritten\rfine\nWARN without an end"


@pytest.fixture
def cluster(root, settings, tmp_path):
    storage = {**settings.STORAGES["default"], "OPTIONS": {"location": str(tmp_path)}}
    settings.STORAGES = {**settings.STORAGES, "default": storage}
    return scenes.build_cluster(root, nodes=2, gpus=4)


@pytest.fixture
def run(cluster, alice, project):
    """Runs a job of so many nodes, each of which prints a log, to its end."""

    def run(*printed: bytes) -> Attempt:
        job = submit(alice, project, nodes=len(printed))
        attempt = start(job, *(cluster.node(n + 1) for n in range(len(printed))))
        for placement in attempt.placements.select_related("node"):
            rank, log = placement.rank, printed[placement.rank]
            sync(placement.node, running(attempt, rank))
            if log:
                write_log(placement.node, attempt, log[:20], log[20:], rank=rank)
            over = ended(attempt, rank, log_size=len(log))
            sync(placement.node, over, now=NOON)
        attempt.refresh_from_db()
        assert attempt.state == "ended"
        return attempt

    return run


def counted(attempt: Attempt, **turn: object) -> int | None:
    counting.count_warnings(now=at(60), **turn)
    attempt.refresh_from_db()
    return attempt.warnings


def found(client, attempt: Attempt, rank: int) -> int:
    """What *Find warnings* answers of a rank."""
    url = reverse("jobs:log_find", args=[attempt.job_id])
    asked = {"attempt": attempt.number, "rank": rank, "q": counting.WORD}
    return len(client.get(url, asked).json()["lines"])


def test_it_is_what_the_page_of_the_log_finds_of_all_ranks(client, alice, run):
    client.force_login(alice)
    attempt = run(LOG, b"warn\n" * 3 + b"nothing\n")
    assert attempt.warnings is None and attempt.warnings_at is None
    assert counted(attempt) == 6 == found(client, attempt, 0) + found(client, attempt, 1)
    assert attempt.warnings_at == at(60)


def test_empty_logs_are_settled_without_reading_them(run, django_assert_max_num_queries):
    attempts = [run(b"") for _ in range(3)]
    with django_assert_max_num_queries(3):
        assert counting.count_warnings(now=at(60)) == 3
    for attempt in attempts:
        assert counted(attempt) == 0 and attempt.warnings_at == at(60)
    assert counting.count_warnings(now=at(90)) == 0, "nothing is counted twice"


def test_live_attempts_are_left_alone(cluster, alice, project):
    attempt = start(submit(alice, project), cluster.node(1))
    sync(cluster.node(1), running(attempt))
    write_log(cluster.node(1), attempt, b"warn\n")
    assert counting.count_warnings(now=at(9_000)) == 0 and counted(attempt) is None


def test_what_was_pruned_before_has_no_count_and_what_was_counted_stays(run):
    before, after = run(b"warn\n"), run(b"warn\n")
    later = NOON + timedelta(days=400)
    Attempt.objects.filter(pk=before.pk).update(warnings=1, warnings_at=NOON)
    assert prune_kept(now=later).logs == 2
    assert counting.count_warnings(now=later) == 1
    assert counted(before) == 1
    assert counted(after) is None and after.warnings_at == later
    assert counting.count_warnings(now=later) == 0


def test_open_lists_are_told_of_a_count_that_is_news(run, monkeypatch, django_assert_num_queries):
    told: list[str] = []
    quiet = run(b"all is well\n")
    monkeypatch.setattr(history.events, "publish_on_commit", lambda topic, *_: told.append(topic))
    assert (counted(quiet), told) == (0, [])
    loud = run(b"warn\nwarn\n")
    told.clear()
    job = loud.job
    topics = [f"job:{job.pk}", f"project:{job.project_id}", f"queue:{job.pool.name}"]
    assert (counted(loud), told) == (2, topics)
    # What is found again is none.
    Attempt.objects.filter(pk=loud.pk).update(warnings_at=None)
    assert (counted(loud), told) == (2, topics)
    Attempt.objects.filter(pk=loud.pk).update(warnings=None, warnings_at=None)
    (due,) = warned.attempts_to_count(now=at(60))
    with django_assert_num_queries(1):
        warned.keep_count(due, 2, now=at(60))


def test_a_log_that_is_pruned_while_it_is_read_is_not_counted(run):
    attempt = run(b"warn\n")
    (due,) = warned.attempts_to_count(now=at(60))
    prune_kept(now=NOON + timedelta(days=400))
    warned.keep_count(due, 0, now=at(60))
    attempt.refresh_from_db()
    assert attempt.warnings_at is None
    assert counted(attempt) is None and attempt.warnings_at is not None


def test_an_unreadable_log_is_passed_by_for_a_day_and_then_left(run, monkeypatch):
    broken, whole = run(b"warn\n"), run(b"warn\n")
    lost = set(broken.placements.values_list("log_chunks__path", flat=True))
    read = logs.bytes_of

    def bytes_of(piece):
        if piece.path in lost:
            raise PermissionError("not now")
        return read(piece)

    monkeypatch.setattr(logs, "bytes_of", bytes_of)
    assert counting.count_warnings(now=at(60)) == 1
    assert counted(whole) == 1 and counted(broken) is None and broken.warnings_at is None
    assert list(warned.attempts_to_count(now=at(90))) == [broken]
    counting.count_warnings(now=NOON + timedelta(days=2))
    broken.refresh_from_db()
    assert broken.warnings is None and broken.warnings_at == NOON + timedelta(days=2)
    assert not list(warned.attempts_to_count(now=NOON + timedelta(days=3)))


def test_a_turn_is_bounded_and_the_next_one_goes_on(run):
    """However small the turns, the count is that of the whole."""
    attempt = run(b"warn me\n" * 40_000 + b"fine\n" * 90_000, b"warn\n" * 7)
    turns = _turns_for(attempt)
    assert attempt.warnings == warned.MORE, "more than are counted, and the rest is not read"
    assert turns < 4 and attempt.warnings_from is None
    plain = run(b"fine\n" * 200_000 + b"warn\n" * 5, b"x\nwarn\n")
    assert _turns_for(plain) > 2 and plain.warnings == 6


def _turns_for(attempt: Attempt) -> int:
    turns = 1
    while counted(attempt, most_bytes=1) is None:
        assert attempt.warnings_from and turns < 20
        turns += 1
    return turns


def test_oldest_first_and_no_more_than_there_is_time_for(run):
    first, second = run(b"warn\n"), run(b"warn\n")
    Attempt.objects.filter(pk=second.pk).update(ended_at=NOON - timedelta(hours=1))
    assert [one.pk for one in warned.attempts_to_count(now=at(60))] == [second.pk, first.pk]
    assert counted(second, within_s=-1) is None, "there is no time"
    assert counted(second, most_bytes=1) is None and second.warnings_from == [0, 2, 1]
    assert counted(second, most_bytes=1) == 1 and counted(first, within_s=-1) is None
    assert counted(first) == 1


def test_what_may_still_come_is_waited_for_and_then_counted_again(cluster, alice, project):
    node = cluster.node(1)
    attempt = start(submit(alice, project), node)
    sync(node, running(attempt))
    write_log(node, attempt, b"warn\n")
    mark_silent(now=at(100))
    mark_lost(now=at(90_000))
    attempt.refresh_from_db()
    assert attempt.end_reason == EndReason.NODE_LOST
    assert counting.count_warnings(now=at(90_060)) == 0, "its node may come back any moment"
    for _ in range(2):
        counting.count_warnings(now=at(91_000))
    attempt.refresh_from_db()
    assert (attempt.warnings, attempt.warnings_at) == (1, None)

    over = ended(
        attempt,
        reason=EndReason.NODE_LOST,
        started_at=at(1).timestamp(),
        ended_at=at(900).timestamp(),
        log_size=10,
    )
    sync(node, over, now=at(92_000))
    append_log(node=node, fence=attempt.pk, rank=0, offset=5, body=b"warn\n", now=at(92_001))
    sync(node, over, now=at(92_002))
    assert counting.count_warnings(now=at(92_010)) == 1
    attempt.refresh_from_db()
    assert (attempt.warnings, attempt.warnings_at) == (2, at(92_010))


def test_one_whose_node_never_comes_back_is_settled_by_age(cluster, alice, project):
    attempt = start(submit(alice, project), cluster.node(1))
    sync(cluster.node(1), running(attempt))
    write_log(cluster.node(1), attempt, b"warn\n")
    mark_silent(now=at(100))
    mark_lost(now=at(90_000))
    counting.count_warnings(now=at(90_000) + timedelta(days=8))
    attempt.refresh_from_db()
    assert attempt.warnings == 1 and attempt.warnings_at is not None


def test_more_than_a_thousand_empty_ones_go_on_at_once(run, monkeypatch):
    monkeypatch.setattr(warned, "_SETTLED_AT_ONCE", 2)
    attempts = [run(b"") for _ in range(5)]
    assert warned.settle_unread(now=at(60)) == 5
    assert all(counted(attempt) == 0 for attempt in attempts)
