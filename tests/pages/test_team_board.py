"""The board of a team: figures that add up, evidence, no more statements for many than for few."""

from __future__ import annotations

import gzip
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from html import unescape

import pytest
from django.db import connection
from django.db.models import Avg
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.services import create_project, create_team
from portal.pages.people.board import HEIGHT, WIDTH, draw
from scheduler.models import Attempt, Budget, DeviceSample, Job, UsageEntry
from scheduler.models.telemetry import UNKNOWN_USE
from scheduler.selectors.sharing.boards.board import team_board
from scheduler.selectors.sharing.boards.little import IDLE_OVER, LOW_PERCENT
from scheduler.selectors.sharing.budgets import budget_views
from scheduler.services.sharing.budgets import set_budget
from scheduler.services.sharing.limits import set_quota
from tests.factories import member
from tests.scenes import build_cluster, running, start, submit, sync

pytestmark = pytest.mark.django_db
URL = "/teams/vision/"


@pytest.fixture
def now():
    return timezone.now()


@pytest.fixture
def board_scene(root, team, alice, project, now):
    """A quota of 3 of 4 GPUs, a budget, a job that idles, one that works, one that waits."""
    cluster = build_cluster(root, nodes=1, gpus=4)
    set_quota(actor=root, owner=team, guaranteed=3, maximum=4)
    set_budget(
        actor=root,
        owner=team,
        gpu_hours=100,
        valid_from=now - timedelta(days=10),
        valid_until=now + timedelta(days=20),
    )
    for name, percent in (("sleepy", 1.0), ("busy", 95.0)):
        works(cluster, alice, project, name, percent, now)
    submit(alice, project, name="next", gpus_per_node=4, now=now)
    return cluster


def works(cluster, owner, project, name, percent, now, since=timedelta(hours=1)):
    job = submit(owner, project, name=name, time_limit="9h", now=now - since)
    attempt = start(job, cluster.node(1), now=now - since)
    sync(cluster.node(1), running(attempt), now=now - since)
    device = attempt.placements.get().allocations.get().device
    DeviceSample.objects.filter(attempt=attempt).delete()
    DeviceSample.objects.bulk_create(
        DeviceSample(
            device=device,
            attempt=attempt,
            at=now - timedelta(minutes=minute, microseconds=attempt.pk),
            gpu_percent=percent,
            memory_used_mib=1000,
            power_watts=100,
            temperature_c=50,
        )
        for minute in range(1, 29)
    )
    return attempt


def spend(attempt, hours, day):
    allocation = attempt.placements.get().allocations.get()
    UsageEntry.objects.create(
        kind="adjustment",
        allocation=allocation,
        attempt=attempt,
        job=attempt.job,
        project=attempt.job.project,
        device_model="x",
        period_start=day,
        period_end=day,
        gpu_seconds=hours * 3600,
        unit_price=Decimal("3.6"),
        currency="EUR",
        cost=Decimal("3.6") * hours,
    )


def test_the_lead_sees_what_idles_with_its_evidence_and_stops_it(
    client, board_scene, alice, lead, root
):
    client.force_login(lead)
    page = client.get(URL).content.decode()
    assert "sleepy" in page
    assert "1 % on average, at most 1 %" in page
    assert "28 readings" in page
    assert "mailto:alice@example.org" in page
    assert page.count("Stop job") == 1
    assert "busy" not in page
    assert "2 own, 1 free" in page and "added by whole hours" in page
    assert "Lasts: about" in page
    sleepy = Job.objects.get(name="sleepy")
    assert client.post(f"/jobs/{sleepy.pk}/cancel/", {"reason": "idle"}).status_code == 302
    sleepy.refresh_from_db()
    assert sleepy.state == "stopping"


def test_more_idle_jobs_than_are_shown_are_counted(
    client, board_scene, alice, lead, project, now, monkeypatch
):
    monkeypatch.setattr("scheduler.selectors.sharing.boards.activity.MOST_SHOWN", 1)
    works(board_scene, alice, project, "drowsy", 2.0, now)
    client.force_login(lead)
    page = client.get(URL).content.decode()
    assert "These 1 of 2 do least." in page and "drowsy" not in page


def test_its_links_lead_to_what_it_counts(client, board_scene, root, team, lead, alice, now):
    failed = Job.objects.get(name="sleepy")
    old = Job.objects.get(name="busy")
    Job.objects.filter(pk=failed.pk).update(state="failed", ended_at=now - timedelta(days=2))
    Job.objects.filter(pk=old.pk).update(state="failed", ended_at=now - timedelta(days=9))
    client.force_login(lead)
    page = client.get(URL).content.decode()
    (href,) = re.findall(r'href="([^"]+)">The failed jobs<', page)
    listed = client.get(unescape(href)).content.decode()
    assert "sleepy" in listed and "busy" not in listed and "Not known here" not in listed
    (costs,) = re.findall(r'href="([^"]+)">Costs<', page)
    answer = client.get(unescape(costs))
    assert answer.status_code == 200 and "Not known here" not in answer.content.decode()
    assert "scope=team:vision" in costs


def test_a_job_that_works_again_is_no_longer_named(client, board_scene, lead, now):
    """However little it did before: the mean of the half hour alone would name it."""
    attempt = Attempt.objects.get(job__name="sleepy")
    device = attempt.placements.get().allocations.get().device
    DeviceSample.objects.bulk_create(
        DeviceSample(
            device=device,
            attempt=attempt,
            at=now - timedelta(seconds=seconds),
            gpu_percent=90,
            memory_used_mib=1000,
            power_watts=100,
            temperature_c=50,
        )
        for seconds in (1, 11, 21)
    )
    samples = DeviceSample.objects.filter(attempt=attempt, at__gte=now - IDLE_OVER)
    assert samples.aggregate(mean=Avg("gpu_percent"))["mean"] < LOW_PERCENT
    client.force_login(lead)
    page = client.get(URL).content.decode()
    assert "sleepy" not in page
    assert "mean of the last 30 minutes below 20 %" in page


def test_a_job_that_has_just_begun_is_not_named(client, board_scene, lead, now):
    """However many readings there are: eight GPUs give them eight at a time."""
    client.force_login(lead)
    attempts = Attempt.objects.filter(job__name="sleepy")
    attempts.update(started_at=now - timedelta(minutes=4))
    assert "sleepy" not in client.get(URL).content.decode()
    attempts.update(started_at=now - timedelta(minutes=6))
    assert "sleepy" in client.get(URL).content.decode()


def test_a_job_whose_cards_do_not_tell_their_use_is_not_named(client, board_scene, lead):
    client.force_login(lead)
    DeviceSample.objects.filter(attempt__job__name="sleepy").update(gpu_percent=UNKNOWN_USE)
    assert "sleepy" not in client.get(URL).content.decode()


def test_others_see_no_more_than_their_role_shows(client, board_scene, alice, finance, carol):
    client.force_login(alice)
    page = client.get(URL).content.decode()
    assert "Who uses GPUs" in page
    assert "Stop job" not in page
    client.force_login(finance)
    assert "sleepy" not in client.get(URL).content.decode()
    client.force_login(carol)
    assert client.get(URL).status_code == 404


def test_people_of_a_team_below_are_for_who_leads(
    client, board_scene, root, team, alice, lead, operator, now
):
    below = create_team(actor=root, name="Vision below", parent=team)
    theirs = create_project(actor=root, team=below, name="Theirs")
    dora = member("dora", below, by=root)
    spend(works(board_scene, dora, theirs, "deep", 90.0, now), 5, now - timedelta(days=2))
    for viewer, sees in ((alice, False), (lead, True), (operator, True)):
        board = team_board(viewer, team, now=now)
        assert ("Dora" in [one.name for one in board.people]) is sees
        assert board.states["running"] == (3 if sees else 2)
        # What a budget has left says nothing of who used it.
        assert board.budgets[0].left == team_board(root, team, now=now).budgets[0].left


def test_a_burn_down_names_the_day_on_which_a_budget_is_used_up(
    board_scene, team, lead, alice, now
):
    attempt = Attempt.objects.get(job__name="busy")
    for days in range(1, 28):
        spend(attempt, 5, now - timedelta(days=days))
    Budget.objects.update(spent_s=50 * 3600)
    [one] = team_board(lead, team, now=now).budgets
    # 5 hours a day take what is left of 100 within three weeks.
    assert one.foresight.out_on is not None
    assert now.date() < one.foresight.out_on < now.date() + timedelta(days=21)
    lefts = [left for _, left in one.left]
    assert lefts == sorted(lefts, reverse=True)
    assert lefts[-1] == one.budget.limit - one.standing.used
    drawn = draw(one, now)
    points = [tuple(map(float, pair.split(","))) for pair in drawn.past.split()]
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert drawn.ahead.split()[0] == drawn.past.split()[-1]
    [person] = team_board(lead, team, now=now).people
    assert (person.used_gpu_s, person.gpus, person.waiting) == (27 * 5 * 3600, 2, 1)


def test_what_is_not_charged_yet_was_used_today(board_scene, team, lead, now):
    Budget.objects.update(spent_s=40 * 3600)
    [one] = team_board(lead, team, now=now).budgets
    assert len(one.left) > 1 and {left for _, left in one.left[:-1]} == {one.budget.limit}


def test_it_foresees_what_the_page_of_budgets_does(root, team, lead, alice, project):
    """And late in the day as at its begin: by whole days. Ten hours a day make 3650 a year."""
    cluster = build_cluster(root, nodes=1, gpus=4)
    midnight = datetime(2026, 11, 20, tzinfo=UTC)
    for hour in (1, 23):
        attempt = works(cluster, alice, project, f"at {hour}", 95.0, midnight)
        for days in range(29):
            spend(attempt, 5, midnight - timedelta(days=days) + timedelta(hours=hour, minutes=-30))
    year = set_budget(
        actor=root, owner=team, gpu_hours=10_000, valid_from=midnight - timedelta(days=40),
        valid_until=midnight + timedelta(days=325), now=midnight,
    )  # fmt: skip
    Budget.objects.update(spent_s=0)
    for hour in (1, 23):
        now = midnight + timedelta(hours=hour)
        (shown,) = team_board(lead, team, now=now).budgets
        (view,) = budget_views(lead, now=now, only=[year.pk])
        assert shown.foresight == view.foresight
        ahead = shown.foresight.low - shown.standing.used
        assert ahead == pytest.approx(10 * 3600 * (325 - hour / 24), abs=1)


def test_many_take_as_many_statements_as_few(client, board_scene, root, team, project, lead, now):
    def seen():
        client.force_login(lead)
        client.get(URL)
        with CaptureQueriesContext(connection) as captured:
            answer = client.get(URL)
        assert answer.status_code == 200
        assert len(gzip.compress(answer.content)) < 30_000
        return len(captured)

    few = seen()
    people = [member(f"person{number}", team, by=root) for number in range(12)]
    works(board_scene, people[0], project, "third", 3.0, now)
    for person in people:
        submit(person, project, now=now)
        failed = submit(person, project, now=now)
        Job.objects.filter(pk=failed.pk).update(
            state="failed", end_reason="exit_code", ended_at=now
        )
    attempt = Attempt.objects.get(job__name="third")
    for days in range(1, 20):
        spend(attempt, days, now - timedelta(days=days))
    assert seen() == few <= 10
    assert "program error" in client.get(URL).content.decode()


def test_the_board_renews_itself_without_its_frame(client, board_scene, lead):
    client.force_login(lead)
    whole = client.get(URL).content.decode()
    assert f'hx-get="{URL}?part=board"' in whole and 'data-every-s="30"' in whole
    part = client.get(URL, {"part": "board"}).content.decode()
    assert "sleepy" in part and "as of" in part
    assert "<html" not in part and "<h1>" not in part
    assert "sleepy" in client.get(URL, {"part": "zzz"}).content.decode()
