"""The table of jobs: columns of one's own, marked jobs, what a filter adds up to."""

from __future__ import annotations

import pytest
from django.urls import reverse

from accounts.services import create_project
from scheduler.models import Job
from scheduler.selectors.jobs import visible_jobs
from scheduler.selectors.tables.totals import Totals, totals_of
from tests import scenes
from tests.pages.yard import build_yard

pytestmark = [pytest.mark.django_db, pytest.mark.once]


@pytest.fixture
def yard(root, alice, project):
    return build_yard(root, alice, project)


def test_columns_are_kept_and_the_address_goes_before(client, alice, yard):
    client.force_login(alice)
    home = reverse("jobs:list")
    usual = client.get(home, {"q": "user:me"})
    assert "Cost so far</th>" in usual.content.decode()
    sent = {"column": ["tier", "position"], "query": "q=user%3Ame&cursor=x"}
    kept = client.post(reverse("jobs:columns"), sent)
    assert kept.url == f"{home}?q=user%3Ame"
    assert client.get(kept.url).context["columns"].names == ("position", "tier")
    asked = client.get(home, {"q": "", "columns": "cost,gpus"})
    assert asked.context["columns"].names == ("gpus", "cost")
    wrong = client.get(home, {"q": "", "columns": "<b>"})
    assert wrong.status_code == 200 and "there is no column" in wrong.content.decode()
    assert len(wrong.context["rows"]) == 5


def test_the_foot_adds_the_filter_up(client, alice, yard):
    client.force_login(alice)
    page = client.get(reverse("jobs:list"), {"q": "state:waiting"}).content.decode()
    assert "2 jobs, filtered" in page
    assert "1 GPU asked for by one queued job, 1 by one held job" in page
    assert "taken now" not in page


def test_the_foot_adds_up_what_is_held_now_and_what_waits_with_all_tasks_of_sets(
    client, alice, project, yard
):
    client.force_login(alice)
    scenes.submit(alice, project, name="sweep", array="0-1199%2", gpus_per_node=2)
    page = client.get(reverse("jobs:list"), {"q": "state:waiting"}).content.decode()
    assert page.count("<tr id=") == 3
    assert "more than 1,000 jobs, filtered" in page
    assert "5 GPUs asked for by queued jobs, 2,397 by held jobs" in page
    # One runs on one GPU; those that have ended hold none.
    all_ = client.get(reverse("jobs:list"), {"q": ""}).content.decode()
    assert "1 GPU taken now, 5 asked for by queued jobs, 2,397 by held jobs; last checked" in all_
    over = client.get(reverse("jobs:list"), {"q": "state:finished"}).content.decode()
    assert "2 jobs, filtered" in over
    assert "taken now" not in over and "asked for by" not in over


def test_the_foot_counts_what_the_viewer_may_see(client, alice, carol, project, yard):
    for person, held in ((alice, 1), (carol, 0)):
        totals = totals_of(visible_jobs(person))
        assert (totals.count, totals.held) == ("5" if held else "0", held)
    assert totals_of(visible_jobs(alice).none()) == Totals()


def test_of_a_long_line_a_part_is_added_up_and_the_foot_says_so(client, alice, yard, monkeypatch):
    monkeypatch.setattr("scheduler.selectors.tables.totals.WAITING_AT_MOST", 0)
    client.force_login(alice)
    page = client.get(reverse("jobs:list"), {"q": "state:waiting"}).content.decode()
    assert "more than 1 GPU asked for by one queued job, more than 1 by one held job" in page
    held = client.get(reverse("jobs:list"), {"q": "state:held"}).content.decode()
    assert "more than 1 GPU asked for by one held job" in held


def test_marked_jobs_are_acted_on_one_by_one(client, alice, carol, project, yard):
    client.force_login(alice)
    url = reverse("jobs:marked")
    marked = [yard.queued.pk, yard.succeeded.pk]
    page = client.post(url, {"act": "cancel", "job": marked, "query": "q=x"}, follow=True)
    text = page.content.decode()
    assert "1 job cancelled" in text and f"#{yard.succeeded.pk}: It has ended." in text
    yard.queued.refresh_from_db()
    assert yard.queued.state == "cancelled"
    page = client.get("/jobs/?q=")
    again = {"act": "rerun", "job": [yard.failed.pk], "key": page.context["key"]}
    assert f'name="key" value="{again["key"]}"' in page.content.decode()
    # A double click sends the same form twice.
    for _ in range(2):
        client.post(url, again)
    assert Job.objects.filter(cloned_from=yard.failed).count() == 1
    client.force_login(carol)
    assert client.post(url, {"act": "hold", "job": [yard.running.pk]}).status_code == 404


def test_a_job_that_cannot_be_submitted_again_says_why_and_the_others_are(
    client, root, alice, project, yard
):
    letters = create_project(actor=root, team=project.team, name="Letters")
    other = scenes.submit(type(alice).objects.get(pk=alice.pk), letters)
    Job.objects.filter(pk=other.pk).update(state="failed", end_reason="exit_code")
    type(project).objects.filter(pk=project.pk).update(is_archived=True)
    client.force_login(alice)
    sent = {"act": "rerun", "job": [yard.failed.pk, other.pk]}
    back = client.post(reverse("jobs:marked"), sent)
    assert back.status_code == 302
    text = client.get(back.url).content.decode()
    assert f"#{yard.failed.pk}: project: {project.path} is archived" in text
    assert "1 job submitted again" in text
    assert Job.objects.filter(cloned_from=other).count() == 1


def test_above_ten_their_number_is_typed(client, alice, project, root):
    scenes.build_cluster(root)
    jobs = [scenes.submit(alice, project).pk for _ in range(11)]
    client.force_login(alice)
    sent = {"act": "cancel", "job": jobs}
    first = client.post(reverse("jobs:marked"), sent)
    assert "Cancel 11 jobs?" in first.content.decode()
    again = client.post(reverse("jobs:marked"), sent | {"typed": "12"}).content.decode()
    assert "another number" in again and Job.objects.filter(state="queued").count() == 11
    client.post(reverse("jobs:marked"), sent | {"typed": "11"})
    assert Job.objects.filter(state="cancelled").count() == 11
