"""Progress over time on a job's page: drawn from its log, for those who may read that."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from portal.pages.logs.course import course_summary, shown_course
from scheduler.models import Attempt, LogChunk
from scheduler.selectors.printed.course import Course, Point
from scheduler.selectors.printed.progress import Progress
from tests import scenes
from tests.pages.yard import build_yard

pytestmark = pytest.mark.django_db


@pytest.fixture
def yard(root, alice, project):
    return build_yard(root, alice, project)


def print_steps(yard, count: int = 20) -> None:
    """A step of 40 every three minutes, the last of them now."""
    now = timezone.now()
    placement = yard.attempt.placements.get()
    LogChunk.objects.filter(placement=placement).delete()
    type(placement).objects.filter(pk=placement.pk).update(log_size=0, log_lines=0)
    pieces = [b"epoch %d/40\n" % n for n in range(1, count + 1)]
    scenes.write_log(yard.cluster.node(1), yard.attempt, *pieces)
    Attempt.objects.filter(pk=yard.attempt.pk).update(started_at=now - timedelta(hours=1))
    for number, piece in enumerate(LogChunk.objects.filter(placement=placement).order_by("-pk")):
        at = now - timedelta(seconds=1, minutes=3 * number)
        LogChunk.objects.filter(pk=piece.pk).update(created_at=at)


def test_the_page_of_a_running_job_fetches_a_picture_of_its_progress(client, alice, yard):
    print_steps(yard)
    url = reverse("jobs:progress", args=[yard.running.pk])
    client.force_login(alice)
    page = client.get(reverse("jobs:detail", args=[yard.running.pk])).content.decode()
    assert f'id="job-progress" hx-get="{url}" hx-trigger="load"' in page
    text = client.get(url).content.decode()
    assert "<b>epoch 20 of 40</b>, ends about" in text and "as of" in text
    assert text.count("<circle") == 20 and 'class="rm-need"' in text and ">now</text>" in text
    assert re.search(r'aria-label="Of 40: epoch 1 after 2 min \d+ s, .*epoch 20 after', text)
    rows = re.findall(r'<tr><th scope="row">[^<]+</th><td class="num">(\d+)</td>', text)
    assert rows == [str(n) for n in range(1, 21)]
    assert f'data-topic="job:{yard.running.pk}"' in text and 'hx-trigger="live"' in text


def test_where_the_log_says_too_little_nothing_shows_and_it_is_asked_again(client, alice, yard):
    client.force_login(alice)
    page = client.get(reverse("jobs:detail", args=[yard.running.pk])).content.decode()
    assert 'id="job-progress" hidden' in page
    url = reverse("jobs:progress", args=[yard.running.pk])
    text = client.get(url).content.decode()
    assert "<svg" not in text and 'id="job-progress" hidden data-topic' in text


def test_too_few_reports_are_said_in_a_sentence_as_high_as_it_is(client, alice, yard):
    print_steps(yard, 2)
    client.force_login(alice)
    text = client.get(reverse("jobs:progress", args=[yard.running.pk])).content.decode()
    assert "<svg" not in text and "roomy" not in text and "hidden" not in text
    assert "tells too little yet to draw it: epoch 2 of 40" in text and 'hx-trigger="live"' in text
    # Room is kept for a picture where there is a pace, and none before.
    address = reverse("jobs:detail", args=[yard.running.pk])
    assert 'class="panel loads roomy" id="job-progress"' in client.get(address).content.decode()
    print_steps(yard, 1)
    assert 'class="panel loads" id="job-progress"' in client.get(address).content.decode()


def test_what_is_over_has_none_and_asks_no_more(client, alice, yard):
    client.force_login(alice)
    page = client.get(reverse("jobs:detail", args=[yard.succeeded.pk])).content.decode()
    assert "job-progress" not in page
    for job in (yard.succeeded, yard.queued):
        text = client.get(reverse("jobs:progress", args=[job.pk])).content.decode()
        assert '<section id="job-progress" hidden></section>' in text


def test_who_may_not_read_the_log_sees_none_of_it(client, carol, finance, yard):
    print_steps(yard)
    url = reverse("jobs:progress", args=[yard.running.pk])
    client.force_login(finance)
    assert client.get(url).status_code == 403
    page = client.get(reverse("jobs:detail", args=[yard.running.pk])).content.decode()
    assert "job-progress" not in page
    client.force_login(carol)
    assert client.get(url).status_code == 404
    assert client.get(reverse("jobs:progress", args=[10**9])).status_code == 404


def test_it_costs_as_many_statements_however_much_was_printed(
    client, alice, yard, django_assert_max_num_queries
):
    client.force_login(alice)
    for count in (4, 39):
        print_steps(yard, count)
        with django_assert_max_num_queries(9):
            text = client.get(reverse("jobs:progress", args=[yard.running.pk])).content.decode()
        assert "<svg" in text


NOW = timezone.now()


def made(*points: tuple[int, int], total: int = 100, ends_min: int | None = None) -> Course:
    """Points by the minute before now."""
    told = tuple(Point(NOW - timedelta(minutes=minute), done) for minute, done in points)
    ends_at = None if ends_min is None else NOW + timedelta(minutes=ends_min)
    last = told[-1]
    return Course(told[0].at, Progress("step", last.done, total, last.at, ends_at), told)


def test_it_says_how_long_it_stood_still_and_how_fast_it_is_lately():
    stood = shown_course(made((100, 0), (90, 20), (50, 20), (40, 21), (20, 41), (0, 61)), now=NOW)
    assert stood.stood == timedelta(minutes=50) - timedelta(minutes=10)
    assert stood.stood_since == NOW - timedelta(minutes=90)
    assert stood.lately == timedelta(minutes=40) and round(stood.pace) == 164
    even = shown_course(made((30, 0), (20, 10), (10, 20), (0, 30)), now=NOW)
    assert even.stood is None and round(even.pace) == 100


def test_one_that_never_moved_says_so_and_one_without_an_end_has_no_dashed_line():
    still = shown_course(made((30, 0), (20, 0), (0, 0)), now=NOW)
    assert still.lately is None and "rm-need" not in still.picture
    assert course_summary(still.course) == (
        "Of 100: step 0 after 0 s, step 0 after 10 min, step 0 after 30 min. The table has all."
    )


def test_a_far_end_leaves_room_for_what_was_done():
    """It is drawn up to five times the time so far, and as high as it is then."""
    far = shown_course(made((10, 0), (5, 1), (0, 2), total=1000, ends_min=5000), now=NOW)
    x = [float(at) for at in re.findall(r'<circle class="b-used" cx="([\d.]+)"', far.picture)]
    assert x[0] == 28 and 60 < x[-1] < 63
    assert ">1 %<" in far.picture or ">0.6 %<" in far.picture
