"""Log bytes: by offset, idempotent, never lost, never twice; and reading them by line."""

from __future__ import annotations

import pytest
from django.core.files.storage import default_storage
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.conf import load_conf
from scheduler.models import LogChunk
from scheduler.selectors.logs import read_log_bytes, stream_log
from scheduler.selectors.printed.windows import read_lines
from scheduler.services import logs
from scheduler.services.errors import Conflict, Invalid, LogGap, NotFound
from scheduler.services.logs import append_log, finish_undrained
from tests import scenes
from tests.scenes import NOON, at, ended, start, submit, sync, write_log

pytestmark = pytest.mark.django_db


@pytest.fixture
def stream(root, alice, project, settings, tmp_path):
    """A running attempt on node n1 and its placement."""
    settings.STORAGES = {
        **settings.STORAGES,
        "default": {
            **settings.STORAGES["default"],
            "OPTIONS": {"location": str(tmp_path)},
        },
    }
    cluster = scenes.build_cluster(root)
    attempt = start(submit(alice, project), cluster.node(1))
    return cluster.node(1), attempt, attempt.placements.get()


def _append(stream, offset, body):
    node, attempt, _ = stream
    return append_log(node=node, fence=attempt.pk, rank=0, offset=offset, body=body, now=NOON).size


def _all(stream):
    stream[2].refresh_from_db()
    return b"".join(stream_log(stream[2]))


def test_bytes_come_back_as_they_were_sent(stream):
    assert _append(stream, 0, b"one\n\xff\x00") == 6
    assert _append(stream, 6, b"two\n") == 10
    assert _all(stream) == b"one\n\xff\x00two\n"


def test_repeating_a_chunk_changes_nothing(stream):
    _append(stream, 0, b"one\n")
    assert _append(stream, 0, b"one\n") == 4
    assert (LogChunk.objects.count(), _all(stream)) == (1, b"one\n")


def test_a_late_and_shorter_chunk_takes_nothing_that_was_acknowledged(stream, monkeypatch):
    """The first call hangs before it stores its bytes; meanwhile they come again with more."""
    content, sizes = logs.ContentFile, []

    def late(body):
        monkeypatch.undo()
        sizes.append(_append(stream, 0, b"one\ntwo\n"))
        return content(body)

    monkeypatch.setattr(logs, "ContentFile", late)
    sizes.append(_append(stream, 0, b"one\n"))
    assert (sizes, _all(stream)) == ([8, 8], b"one\ntwo\n")


def test_an_overlapping_chunk_adds_only_its_new_part(stream):
    _append(stream, 0, b"one\n")
    assert _append(stream, 2, b"e\ntwo\n") == 8
    assert _all(stream) == b"one\ntwo\n"


def test_other_bytes_for_what_is_stored_are_refused_and_told(stream):
    """B79."""
    _append(stream, 0, b"one\n")
    _append(stream, 4, b"two\n")
    others = (b"two\n", 0), (b"one\nmore", 4), (b"one\ntwx\n", 0)
    in_part = (b"XX", 2), (b"onX", 0), (b"e\ntwX", 2), (b"XX\nmore", 5)
    for body, offset in (*others, *in_part):
        with pytest.raises(Conflict) as caught:
            _append(stream, offset, body)
        assert caught.value.code == "log_conflict"
    assert _append(stream, 0, b"one\ntwo\nthree\n") == 14
    assert _all(stream) == b"one\ntwo\nthree\n"
    kinds = set(stream[0].events.values_list("kind", flat=True))
    assert "log_conflict" in kinds


def test_a_hole_is_refused_and_the_offset_to_go_on_from_is_told(stream):
    _append(stream, 0, b"one\n")
    with pytest.raises(LogGap) as caught:
        _append(stream, 9, b"late")
    assert (caught.value.expected, _all(stream)) == (4, b"one\n")


def test_a_foreign_node_has_no_such_stream(stream, root):
    _, attempt, _ = stream
    other = scenes.add_node(scenes.Cluster(root, stream[0].pool, []), "n9", 1)
    with pytest.raises(NotFound):
        append_log(node=other, fence=attempt.pk, rank=0, offset=0, body=b"x", now=NOON)


def test_an_ended_attempt_takes_no_more(stream):
    node, attempt, _ = stream
    _append(stream, 0, b"one\n")
    sync(node, ended(attempt, log_size=4))
    assert _append(stream, 0, b"one\n") == 4
    with pytest.raises(Conflict) as caught:
        _append(stream, 4, b"more")
    assert caught.value.code == "log_closed"


def test_a_log_that_still_comes_is_waited_for_but_not_for_ever(stream):
    node, attempt, placement = stream
    sync(node, ended(attempt, log_size=2048), now=at(0))
    _append(stream, 0, b"x" * 1024)
    newest = LogChunk.objects.filter(placement=placement)
    newest.update(created_at=at(50))
    assert finish_undrained(now=at(62)) == 0
    _append(stream, 1024, b"x" * 512)
    newest.filter(offset=1024).update(created_at=at(1795))
    assert finish_undrained(now=at(1799)) == 0
    newest.filter(offset=1024).update(created_at=at(1800))
    assert finish_undrained(now=at(1801)) == 1
    assert attempt.job.events.get(kind="log_incomplete").detail == {"missing_bytes": 512}


@pytest.mark.once
@pytest.mark.skipif(connection.vendor != "sqlite", reason="SQLite counts its own steps")
def test_of_a_log_that_still_comes_the_newest_piece_alone_is_looked_at(stream):
    node, attempt, placement = stream
    sync(node, ended(attempt, log_size=99_999), now=at(0))
    steps, taken = [], []
    connection.connection.set_progress_handler(lambda: taken.append(1), 50)
    try:
        for upto in (10, 2_000):
            numbers = range(placement.log_chunks.count(), upto)
            piece = {"placement": placement, "size": 1, "first_line": 1, "lines": 0}
            LogChunk.objects.bulk_create(LogChunk(offset=n, path="p", **piece) for n in numbers)
            placement.log_chunks.update(created_at=at(0))
            placement.log_chunks.filter(offset=upto - 1).update(created_at=at(100))
            taken.clear()
            assert finish_undrained(now=at(120)) == 0
            steps.append(len(taken))
    finally:
        connection.connection.set_progress_handler(None, 0)
    assert steps[1] <= steps[0] + 10


def test_a_log_that_never_comes_does_not_keep_a_job_from_ending(stream):
    node, attempt, _ = stream
    sync(node, ended(attempt, log_size=999), now=at(1))
    patience = load_conf().log_drain_s
    assert finish_undrained(now=at(patience)) == 0
    assert finish_undrained(now=at(patience + 2)) == 1
    attempt.job.refresh_from_db()
    assert attempt.job.state == "succeeded"
    assert attempt.job.events.get(kind="log_incomplete").detail == {"missing_bytes": 999}


def test_a_log_that_comes_no_more_is_not_waited_for(stream):
    node, attempt, placement = stream
    sync(node, ended(attempt, log_size=2048), now=at(0))
    _append(stream, 0, b"x" * 1024)
    LogChunk.objects.filter(placement=placement).update(created_at=at(50))
    assert finish_undrained(now=at(111)) == 1


def test_the_cap_cuts_and_then_refuses(stream, settings):
    settings.TRAINYARD = {**settings.TRAINYARD, "log_cap_mib": 1}
    full = 1024 * 1024
    assert _append(stream, 0, b"x" * (full - 2)) == full - 2
    assert _append(stream, full - 2, b"abcd") == full
    with pytest.raises(Conflict) as caught:
        _append(stream, full, b"more")
    assert caught.value.code == "log_full"


@pytest.mark.parametrize(("offset", "size"), [(-1, 1), (0, 1024 * 1024 + 1)])
def test_odd_sizes_are_refused(stream, offset, size):
    with pytest.raises(Invalid):
        _append(stream, offset, b"x" * size)


def test_bytes_from_the_middle(stream):
    node, attempt, _ = stream
    write_log(node, attempt, b"0123", b"4567", b"89")
    assert read_log_bytes(attempt.pk, 0, 3, 4) == b"3456"
    assert read_log_bytes(attempt.pk, 0, 8, 100) == b"89"
    assert read_log_bytes(attempt.pk, 0, 10, 100) == b""


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    pieces=st.lists(st.text("ab\n", max_size=12).map(str.encode), max_size=8),
    from_line=st.integers(1, 30),
    count=st.integers(1, 12),
)
def test_windows_equal_the_lines_of_the_whole(stream, pieces, from_line, count):
    """Any window over any chunking is the slice of the log split at line ends."""
    node, attempt, placement = stream
    LogChunk.objects.all().delete()
    type(placement).objects.filter(pk=placement.pk).update(log_size=0, log_lines=0)
    write_log(node, attempt, *[piece for piece in pieces if piece])
    placement.refresh_from_db()
    placement.attempt = attempt
    whole = b"".join(pieces)
    lines = whole[: whole.rfind(b"\n") + 1].splitlines(keepends=True)
    window = read_lines(placement, from_line=from_line, count=count)
    expected = lines[from_line - 1 : from_line - 1 + count]
    assert window.raw == b"".join(expected)
    assert window.next_line == from_line + len(expected)
    assert window.total_lines == len(lines)
    assert window.offset == (
        len(b"".join(lines[: from_line - 1])) if from_line <= len(lines) + 1 else len(whole)
    )


def test_the_last_line_without_an_end_shows_once_the_log_is_complete(stream):
    node, attempt, placement = stream
    write_log(node, attempt, b"one\ntw")
    placement.refresh_from_db()
    assert read_lines(placement, from_line=1, count=9).raw == b"one\n"
    sync(node, ended(attempt, log_size=6))
    placement.refresh_from_db()
    window = read_lines(placement, from_line=1, count=9)
    assert (window.raw, window.next_line, window.is_complete) == (b"one\ntw", 3, True)


def test_a_line_longer_than_any_window_is_passed(stream):
    node, attempt, placement = stream
    long = [b"x" * 1024 * 1024] * 3
    write_log(node, attempt, b"one\n", *long, b"\nthree\n")
    placement.refresh_from_db()
    first = read_lines(placement, from_line=1, count=9)
    assert (first.raw, first.next_line) == (b"one\n", 2)
    second = read_lines(placement, from_line=2, count=9)
    assert second.next_line == 3
    assert 1024 * 1024 <= len(second.raw) <= 3 * 1024 * 1024
    assert read_lines(placement, from_line=3, count=9).raw == b"three\n"


def test_the_last_bytes_of_a_rank_that_has_just_ended_end_it(monkeypatch, stream):
    """The end came after the rank was read, before its bytes were noted."""
    node, attempt, rank = stream
    todo = [lambda: sync(node, ended(attempt, log_size=5), now=at(60))]

    def reach(point: str) -> None:
        if point == "portal.log-stored" and todo:
            todo.pop()()

    monkeypatch.setattr(logs, "reach", reach)
    assert _append(stream, 0, b"hello") == 5
    attempt.refresh_from_db()
    assert (attempt.state, rank.log_chunks.count()) == ("ended", 1)


@pytest.mark.parametrize(
    "gone", [b"two\nthree\n\nfour\n", b"no end of a line", b"\n\n\n", b"x" * 200]
)
def test_a_piece_that_the_store_has_lost_is_a_gap_of_its_size_and_lines(stream, gone):
    """As after a restore with older files: what lies behind it keeps its numbers and offsets."""
    _append(stream, 0, b"one\n")
    _append(stream, 4, gone)
    end = _append(stream, 4 + len(gone), b"five\nsix\n")
    default_storage.delete(LogChunk.objects.get(offset=4).path)
    text = _all(stream)
    assert (len(text), text.count(b"\n")) == (end, 3 + gone.count(b"\n"))
    assert text.startswith(b"one\n") and text.endswith(b"five\nsix\n")
    assert len(gone) < 100 or b"200 bytes of the log are missing here" in text
    window = read_lines(stream[2], from_line=1, count=100)
    assert window.raw == text[: text.rfind(b"\n") + 1] and window.total_lines == text.count(b"\n")
    last = text.count(b"\n")
    assert read_lines(stream[2], from_line=last, count=1).raw == b"six\n"
    assert read_log_bytes(stream[1].pk, 0, end - 4, 100) == b"six\n"
    # Who sends a part of it again is neither refused nor believed.
    assert _append(stream, 4, gone[:1]) == end
