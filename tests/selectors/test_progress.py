"""How far a program is by its own log, and when it ends at that pace."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest
from django.db import connection
from django.utils import timezone

from scheduler.models import LogChunk, Placement
from scheduler.selectors.printed.progress import pieces_telling, progress_of, reports_in
from scheduler.selectors.printed.windows import pieces_of_window
from tests import scenes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"epoch  3/30 loss 2.1\n", ("epoch", 3, 30)),
        (b"\x1b[1mEpoch\x1b[0m [3/10]\n", ("epoch", 3, 10)),
        (b"step 41,245 of 60,000\n", ("step", 41245, 60000)),
        (b"Iteration: 7 / 9\n", ("iteration", 7, 9)),
        (b" 45%|####  | 450/1000 [00:10<00:12, 44.9it/s]\r", ("", 450, 1000)),
        (b"epoch 2/5\nstep 10/90\nstep 20/90\n", ("epoch", 2, 5)),
        (b"step 80/90\nstep 10/90\n", None),
        (b"step 9/3, epoch 1/1, 2026-11/22, loss 0.3/1.5\n", None),
        (b"step 3/4.5\n", None),
    ],
)
def test_what_counts_as_progress(text, said):
    found = reports_in(text)
    assert (found[-1].unit, found[-1].done, found[-1].total) == said if said else found == []


@pytest.mark.django_db
def test_the_pace_is_that_of_this_attempt_and_ends_when_it_is_behind(root, alice, project):
    now = timezone.now()
    cluster = scenes.build_cluster(root)
    attempt = scenes.start(scenes.submit(alice, project), cluster.node(1))
    node = cluster.node(1)
    scenes.write_log(node, attempt, b"resumed\nstep 400/1000\n", b"ste", b"p 600/1000\n")
    pieces = LogChunk.objects.order_by("offset")
    for piece, minutes in zip(pieces, (30, 12, 10), strict=True):
        LogChunk.objects.filter(pk=piece.pk).update(created_at=now - timedelta(minutes=minutes))
    placement = attempt.placements.get()
    found = progress_of(placement, now=now)
    # 200 steps took 18 minutes, from the piece in which the report begins; 400 are left.
    assert found.words == "step 600 of 1,000"
    assert found.ends_at == now - timedelta(minutes=12) + timedelta(minutes=36)
    assert progress_of(placement, now=now + timedelta(hours=1)).ends_at is None


@pytest.fixture
def long_log(root, alice, project):
    """Brings the log of a running job to so many pieces of a kibibyte, of ten lines each."""
    cluster = scenes.build_cluster(root)
    attempt = scenes.start(scenes.submit(alice, project), cluster.node(1))
    placement = attempt.placements.get()

    def grow(many: int) -> Placement:
        same = {"placement": placement, "size": 1024, "lines": 10, "path": "none"}
        LogChunk.objects.bulk_create(
            (
                LogChunk(offset=1024 * n, first_line=10 * n + 1, digest=str(n), **same)
                for n in range(placement.log_chunks.count(), many)
            ),
            batch_size=5_000,
        )
        size = {"log_size": 1024 * many, "log_lines": 10 * many}
        Placement.objects.filter(pk=placement.pk).update(**size)
        placement.refresh_from_db()
        return placement

    return grow


def _asked(placement: Placement) -> int:
    """Alone, beside the window that a page shows, and a window at the begin; how many pieces all
    three have."""
    window = pieces_of_window(placement, placement.log_lines - 48, 50)
    found = [pieces_telling(placement), pieces_telling(placement, window)]
    found.append(list(pieces_of_window(placement, 1, 50)))
    assert all(one.offset < other.offset for rows in found for one, other in pairwise(rows))
    return sum(map(len, found))


@pytest.mark.once
@pytest.mark.django_db
def test_of_a_long_log_its_begin_and_its_end_alone_are_looked_at(long_log):
    """SQLite counts its own steps."""
    steps, taken = [], []
    for many in (200, 20_000):
        placement = long_log(many)
        taken.clear()
        connection.connection.set_progress_handler(lambda: taken.append(1), 50)
        try:
            assert _asked(placement) == 2 * (16 + 48) + 5
        finally:
            connection.connection.set_progress_handler(None, 0)
        steps.append(len(taken))
    assert steps[1] <= steps[0] + 20


@pytest.mark.postgres
@pytest.mark.django_db
def test_postgresql_reads_no_more_of_it(long_log):
    placement = long_log(20_000)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE scheduler_logchunk")
        before = _read(cursor)
        _asked(placement)
        assert _read(cursor) - before < 1_000


def _read(cursor) -> int:
    """Of what the transaction has read of pieces of logs."""
    cursor.execute(
        "SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)"
        " FROM pg_stat_xact_user_tables WHERE relname = 'scheduler_logchunk'"
    )
    return int(cursor.fetchone()[0])
