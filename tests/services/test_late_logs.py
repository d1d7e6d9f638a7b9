"""What comes of a log once its attempt has ended here is kept, and moves nothing else."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.models import Attempt, LogChunk, Placement, UsageEntry
from scheduler.selectors.logs import stream_log
from scheduler.services import logs
from scheduler.services.errors import Conflict, LogGap
from scheduler.services.logs import append_log, finish_undrained
from scheduler.services.nodes.power import say_node_is_off
from scheduler.services.reaping import mark_lost, mark_silent
from scheduler.states import EndReason
from tests import scenes
from tests.scenes import NOON, at, ended, running, start, submit, sync
from tests.services.test_logs import stream

pytestmark = pytest.mark.django_db
__all__ = ["stream"]


def _write(stream, offset, body):
    node, attempt, _ = stream
    return append_log(node=node, fence=attempt.pk, rank=0, offset=offset, body=body, now=NOON).size


def _all(stream):
    stream[2].refresh_from_db()
    return b"".join(stream_log(stream[2]))


def test_the_log_of_a_node_that_was_given_up_comes_whole_once_it_is_heard(stream):
    """It is forgotten only then, and neither its end nor what it costs changes by that."""
    node, attempt, placement = stream
    sync(node, running(attempt))
    _write(stream, 0, b"one\n")
    mark_silent(now=at(100))
    mark_lost(now=at(90_000))
    attempt.refresh_from_db()
    before = Attempt.objects.values().get(), list(UsageEntry.objects.values())
    assert (attempt.state, attempt.end_reason) == ("ended", "node_lost")
    # It printed on and was killed by its supervisor; its node calls before it has sent the rest.
    back = at(90_001)
    sync(node, running(attempt), now=back)
    assert _write(stream, 4, b"two\n") == 8
    over = ended(
        attempt,
        reason=EndReason.NODE_LOST,
        started_at=at(1).timestamp(),
        ended_at=at(900).timestamp(),
        log_size=14,
    )
    for _ in range(2):
        assert sync(node, over, now=back).forget == ()
    placement.refresh_from_db()
    assert (placement.log_expected, placement.log_size) == (14, 8), "the page tells what is missing"
    with pytest.raises(LogGap):
        _write(stream, 9, b"ree\n")
    with pytest.raises(Conflict) as caught:
        _write(stream, 4, b"other\n")
    assert caught.value.code == "log_conflict"
    assert _write(stream, 4, b"two\nthree\n") == 14
    assert sync(node, over, now=back).forget == (attempt.pk,)
    assert _all(stream) == b"one\ntwo\nthree\n"
    with pytest.raises(Conflict) as caught:
        _write(stream, 14, b"more")
    assert caught.value.code == "log_closed"
    assert (Attempt.objects.values().get(), list(UsageEntry.objects.values())) == before


def test_the_end_of_a_log_that_was_not_waited_for_is_still_taken(stream):
    node, attempt, _ = stream
    over = ended(attempt, log_size=10)
    sync(node, over, now=at(0))
    assert finish_undrained(now=at(7200)) == 1
    assert sync(node, over, now=at(7201)).forget == ()
    assert _write(stream, 0, b"x" * 10) == 10
    assert sync(node, over, now=at(7202)).forget == (attempt.pk,)
    assert _all(stream) == b"x" * 10
    assert attempt.job.events.filter(kind="log_incomplete").count() == 1


@pytest.mark.parametrize("closes", ["a week", "not kept"])
def test_what_never_comes_is_not_kept_on_its_node_for_ever(stream, closes):
    node, attempt, placement = stream
    over = ended(attempt, log_size=10)
    sync(node, over, now=at(0))
    finish_undrained(now=at(7200))
    later = at(7200 + 7 * 86_400)
    assert sync(node, over, now=later).forget == ()
    if closes == "a week":
        later += timedelta(seconds=1)
    else:
        type(placement).objects.update(log_pruned_at=later)
    assert sync(node, over, now=later).forget == (attempt.pk,)
    with pytest.raises(Conflict) as caught:
        append_log(node=node, fence=attempt.pk, rank=0, offset=0, body=b"x", now=later)
    assert caught.value.code == "log_closed"


def test_a_log_that_is_pruned_meanwhile_stays_empty(monkeypatch, stream):
    node, attempt, placement = stream
    sync(node, ended(attempt, log_size=10), now=at(0))
    finish_undrained(now=at(7200))
    monkeypatch.setattr(
        logs, "reach", lambda _: type(placement).objects.update(log_pruned_at=at(7201))
    )
    assert _write(stream, 0, b"x" * 10) == 0
    assert not LogChunk.objects.exists()


def test_a_given_up_rank_keeps_its_log_though_its_attempt_ends_with_another_call(
    root, alice, project
):
    """Its node is heard again while the other rank is still being stopped."""
    cluster = scenes.build_cluster(root, nodes=2)
    one, two = cluster.nodes
    gang = start(submit(alice, project, nodes=2), one, two)
    sync(one, running(gang, master_port=29500))
    sync(two, running(gang, 1))
    mark_silent(now=at(100))
    sync(one, running(gang), now=at(101))
    two.refresh_from_db()
    operators = [root, type(root).objects.create_superuser("second")]
    for who in operators:
        say_node_is_off(actor=who, node=two, reason="no power", now=at(102))
    gang.refresh_from_db()
    assert gang.state == "stopping"
    over = ended(gang, 1, reason=EndReason.NODE_LOST, exit_code=None, log_size=9)
    assert sync(two, over, now=at(103)).forget == ()
    assert sync(one, ended(gang, reason=EndReason.NODE_LOST), now=at(104)).forget == (gang.pk,)
    assert sync(two, over, now=at(105)).forget == ()
    append_log(node=two, fence=gang.pk, rank=1, offset=0, body=b"x" * 9, now=at(106))
    assert sync(two, over, now=at(107)).forget == (gang.pk,)
    assert Placement.objects.get(rank=1).log_size == 9
