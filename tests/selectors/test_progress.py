"""How far a program is by its own log, and when it ends at that pace."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from scheduler.models import LogChunk
from scheduler.selectors.printed.progress import progress_of, reports_in
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
