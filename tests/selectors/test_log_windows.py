"""Windows on a log whose lines are longer than they hold."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.models import LogChunk
from scheduler.selectors.kept.pieces import bytes_of
from scheduler.selectors.printed import windows
from scheduler.selectors.printed.windows import read_last_lines, read_lines
from tests import scenes
from tests.scenes import ended, start, submit, sync, write_log

pytestmark = pytest.mark.django_db


@pytest.fixture
def stream(root, alice, project):
    """A running attempt on node n1 and its placement."""
    cluster = scenes.build_cluster(root)
    attempt = start(submit(alice, project), cluster.node(1))
    return cluster.node(1), attempt, attempt.placements.get()


BAR = b"".join(b"\r%3d%% of it %s" % (part // 300, b"." * 90) for part in range(30_001))
MIB = 1024 * 1024


def _in_pieces(text: bytes) -> list[bytes]:
    return [text[at : at + MIB] for at in range(0, len(text), MIB)]


@pytest.mark.parametrize("back", [b"\r", b"\x1b[1G"])
def test_a_bar_longer_than_any_window_is_what_it_was_last(stream, back):
    node, attempt, placement = stream
    text = BAR.replace(b"\r", back)
    write_log(node, attempt, b"one\n", *_in_pieces(text + b"\nthree\n"))
    placement.refresh_from_db()
    assert read_lines(placement, from_line=1, count=9).next_line == 2
    bar = read_lines(placement, from_line=2, count=9)
    assert (bar.raw.endswith(text[-150:] + b"\n"), bar.next_line, bar.offset) == (True, 3, 4)
    assert (bar.total_lines, len(bar.raw) <= 3 * MIB) == (3, True)
    last = read_last_lines(placement, from_line=1, count=9)
    assert (last.raw, last.first_line, last.next_line) == (b"three\n", 3, 4)
    # Upwards, nothing is left out between two windows.
    above = read_last_lines(placement, from_line=1, count=2)
    assert (above.raw, above.first_line, above.next_line) == (bar.raw, 2, 3)


def test_a_bar_that_is_not_over_is_no_line_until_the_log_is(stream):
    node, attempt, placement = stream
    size = write_log(node, attempt, b"one\n", *_in_pieces(BAR))
    placement.refresh_from_db()
    for read in (read_lines, read_last_lines):
        window = read(placement, from_line=1, count=9)
        assert (window.raw, window.next_line, window.total_lines) == (b"one\n", 2, 1)
    window = read_lines(placement, from_line=2, count=9)
    assert (window.raw, window.next_line) == (b"", 2)
    sync(node, ended(attempt, log_size=size))
    placement.refresh_from_db()
    window = read_lines(placement, from_line=1, count=9)
    # It is not cut in the midst, but told of, and comes next.
    assert (window.raw, window.next_line, window.total_lines) == (b"one\n", 2, 2)
    for window in (
        read_lines(placement, from_line=2, count=9),
        read_last_lines(placement, from_line=1, count=9),
    ):
        assert window.raw.endswith(BAR[-150:])
        assert (window.first_line, window.next_line) == (2, 3)


def test_a_line_that_is_being_written_is_not_read_each_time_it_grows(
    stream, django_assert_num_queries, monkeypatch
):
    node, attempt, placement = stream
    write_log(node, attempt, b"one\n", *[b"." * 200] * 200)
    placement.refresh_from_db()
    placement.attempt = attempt
    opened = []
    monkeypatch.setattr(windows, "bytes_of", lambda piece: opened.append(piece) or bytes_of(piece))
    for read in (read_lines, read_last_lines):
        with django_assert_num_queries(0):
            window = read(placement, from_line=2, count=500)
        assert (window.raw, window.first_line, window.next_line) == (b"", 2, 2)
        assert (window.total_lines, window.size, window.is_complete) == (1, 40_004, False)
        assert (window.arrivals, opened) == ((), [])
        # Who asks for it goes on reading there.
        assert (window.offset, len(opened)) == (4, 1)
        opened.clear()


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    pieces=st.lists(st.text("ab\n", max_size=12).map(str.encode), max_size=8),
    from_line=st.integers(1, 30),
    count=st.integers(1, 12),
    is_over=st.booleans(),
)
def test_the_last_lines_that_fit_end_where_they_were_asked_to(
    stream, monkeypatch, pieces, from_line, count, is_over
):
    """However little a window holds, its rows are those of the log, and the last ones asked for."""
    node, attempt, placement = stream
    LogChunk.objects.all().delete()
    type(placement).objects.filter(pk=placement.pk).update(log_size=0, log_lines=0)
    write_log(node, attempt, *[piece for piece in pieces if piece])
    placement.refresh_from_db()
    placement.attempt = attempt
    whole = b"".join(pieces)
    placement.log_expected = len(whole) if is_over else None
    lines = whole.splitlines(keepends=True)
    if not is_over and lines and not lines[-1].endswith(b"\n"):
        lines.pop()
    wanted = lines[from_line - 1 : from_line - 1 + count]
    # As many bytes as the longest piece, at least.
    monkeypatch.setattr(windows, "MAX_WINDOW_BYTES", 12)
    window = read_last_lines(placement, from_line=from_line, count=count)
    shown = window.raw.splitlines(keepends=True)
    assert bool(shown) == bool(wanted)
    if shown:
        assert window.next_line == min(from_line + count, len(lines) + 1)
        assert window.next_line == window.first_line + len(shown)
        for row, line in zip(shown, lines[window.first_line - 1 :], strict=False):
            assert row == line or (line.startswith(row.rstrip(b"\n")) and len(shown) == 1)
        assert window.total_lines <= len(lines)
