"""How far a program was over time: moments of its log, however long that is."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest
from django.core.files.storage import default_storage
from django.utils import timezone

from scheduler.models import Attempt, LogChunk
from scheduler.selectors.printed import course
from scheduler.selectors.printed.course import course_of
from tests import scenes

pytestmark = pytest.mark.django_db


@pytest.fixture
def now():
    return timezone.now()


@pytest.fixture
def printed(root, alice, project, now):
    """Write pieces, each with the minutes after the begin at which it came, ten hours ago."""
    cluster = scenes.build_cluster(root)
    attempt = scenes.start(scenes.submit(alice, project), cluster.node(1))
    began = now - timedelta(hours=10)
    Attempt.objects.filter(pk=attempt.pk).update(started_at=began)

    def write(*pieces: tuple[float, bytes]):
        scenes.write_log(cluster.node(1), attempt, *(text for _, text in pieces))
        rows = list(LogChunk.objects.filter(placement__attempt=attempt).order_by("offset"))
        for row, (minutes, _) in zip(rows, pieces, strict=True):
            row.created_at = began + timedelta(minutes=minutes)
        LogChunk.objects.bulk_update(rows, ["created_at"], batch_size=200)
        return attempt.placements.select_related("attempt").get()

    return write


def said(found):
    """Minutes since the begin, and what was done then."""
    return [(round((one.at - found.began).total_seconds() / 60), one.done) for one in found.points]


def test_an_even_pace_is_a_straight_line_whose_last_point_is_what_it_says_now(printed, now):
    placement = printed(*((3 * n, b"step %d/900 loss 0.5\n" % (3 * n)) for n in range(200)))
    found = course_of(placement, now=now)
    points = said(found)
    assert found.progress.words == "step 597 of 900" and points[-1] == (597, 597)
    assert all(minutes == done for minutes, done in points)
    assert len(points) == course.MOMENTS
    gaps = [after[0] - one[0] for one, after in pairwise(points)]
    assert points[0][0] == 0 and max(gaps) <= 2 * 600 / course.MOMENTS


def test_moments_are_spread_over_time_however_unevenly_it_wrote(printed, now):
    """Nearly all that it wrote came within the first hour."""
    loud = [(n / 2, b"step %d/5000 %s\n" % (n, b"x" * 900)) for n in range(120)]
    calm = [(60 + 9 * n, b"step %d/5000\n" % (600 + 60 * n)) for n in range(60)]
    points = said(course_of(printed(*loud, *calm), now=now))
    assert sum(minutes > 60 for minutes, _ in points) >= 15


def test_a_standstill_is_seen_from_where_to_where(printed, now):
    """Nothing is written from the second to the sixth hour."""
    before = [(n, b"step %d/900\n" % n) for n in range(120)]
    after = [(360 + n, b"step %d/900\n" % (120 + n)) for n in range(120)]
    points = said(course_of(printed(*before, *after), now=now))
    (stop, done), (again, more) = next(
        (one, other) for one, other in pairwise(points) if other[0] - one[0] > 120
    )
    assert 100 <= stop <= 119 and 360 <= again <= 375
    assert more - done <= 35


def test_a_count_that_began_anew_once_is_shown_since_then(printed, now):
    first = [(n, b"step %d/300\n" % n) for n in range(0, 200, 2)]
    second = [(200 + n, b"%s\nstep %d/300\n" % (b"." * 900, n)) for n in range(0, 200, 2)]
    placement = printed(*first, *second)
    points = said(course_of(placement, now=now))
    assert points[0][0] >= 200 and len(points) >= 8
    assert [done for _, done in points] == sorted(done for _, done in points)


def test_a_count_that_goes_back_time_and_again_is_none(printed, now):
    pieces = [(3 * n, b"%s\nstep %d/90\n" % (b"." * 2000, n % 30)) for n in range(119)]
    assert course_of(printed(*pieces), now=now) is None


def test_epochs_count_before_steps_and_another_total_is_another_count(printed, now):
    pieces = [
        (n, b"epoch %d/50 step %d/9\n eval 7/8 step 3/7\n" % (n // 2, n % 9)) for n in range(90)
    ]
    found = course_of(printed(*pieces), now=now)
    assert found.progress.unit == "epoch"
    assert all(done == minutes // 2 for minutes, done in said(found))


def test_a_report_in_two_pieces_counts_when_it_began_to_come(printed, now):
    pieces = [(0, b"step 1/9\nst"), (10, b"ep 2/9\nste"), (20, b"p 3/9\n"), (30, b"step 4/9\n")]
    assert said(course_of(printed(*pieces), now=now)) == [(0, 2), (10, 3), (30, 4)]


def test_fewer_than_three_points_are_no_picture(printed, now):
    placement = printed((0, b"loading\n"), (5, b"step 1/9\n"), (9, b"step 2/9\n"))
    assert course_of(placement, now=now) is None


def test_what_the_store_has_no_more_is_left_out(printed, now):
    # Longer than what is read for progress itself, so that a piece between is in neither end.
    placement = printed(*((20 * n, b"%s\nstep %d/90\n" % (b"." * 9000, n)) for n in range(24)))
    default_storage.delete(placement.log_chunks.order_by("offset")[12].path)
    counts = [done for _, done in said(course_of(placement, now=now))]
    assert counts == [*range(12), *range(13, 24)]


def test_a_log_of_megabytes_is_asked_for_and_read_as_a_short_one(
    printed, now, django_assert_max_num_queries, monkeypatch
):
    pieces = [(3 * n, b"%s\nstep %d/2000\n" % (b"y" * 40_000, n)) for n in range(199)]
    placement = printed(*pieces)
    assert placement.log_size > 7_000_000
    read = []

    def spied(piece, most, real=course._end_of):
        read.append(real(piece, most))
        return read[-1]

    monkeypatch.setattr(course, "_end_of", spied)
    with django_assert_max_num_queries(5):
        points = said(course_of(placement, now=now))
    assert len(points) >= course.MOMENTS - 1
    assert sum(map(len, read)) <= course.MOMENTS * course.READ_BYTES
