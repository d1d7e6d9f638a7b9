"""Schedules on pages: from the composer to the list, and what stands on one's own page."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.services import remove_member
from scheduler.models import Job, JobSchedule
from scheduler.services.recurring.running import submit_due
from tests import scenes
from tests.composing import make_template
from tests.recurring import schedule_of

pytestmark = pytest.mark.django_db
SPEC = "name: nightly\nproject: vision/digits\nscript: 'true'\n"
FORM = {
    "name": "Nightly",
    "rule": "30 2 * * mon-fri",
    "zone": "Europe/Berlin",
    "overlap": "skip",
    "most_open": "3",
    "late_within_s": "3600",
    "pause_after": "5",
    "spec": SPEC,
}


@pytest.fixture
def cluster(root, project):
    return scenes.build_cluster(root, nodes=1, gpus=4)


def test_what_the_composer_says_is_repeated(client, cluster, alice, lead, team):
    client.force_login(alice)
    client.cookies["zone"] = "Europe/Berlin"
    slug = make_template(lead, team)
    composer = client.get(f"/jobs/new/?template={slug}")
    assert "Repeat…" in composer.content.decode()
    sent = {"name": "ddp", "project": "vision/digits", "script": "true", "template": f"{slug}@1"}
    shown = client.post("/schedules/new/", sent).content.decode()
    assert "project: vision/digits" in shown and 'value="Europe/Berlin"' in shown
    assert f'value="{slug}@1"' in shown
    kept = client.post("/schedules/new/", FORM, follow=True)
    page = kept.content.decode()
    schedule = JobSchedule.objects.get()
    assert kept.redirect_chain[-1][0] == f"/schedules/{schedule.pk}/"
    assert "Nightly is kept." in page and page.count("<time") >= 5
    assert "Nightly" in client.get("/schedules/").content.decode()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rule": "61 * * * *"}, "as minute; write 0 to 59"),
        ({"zone": "Mars"}, "write its name, such as Europe/Berlin"),
        ({"spec": SPEC + "gpus_per_node: 9\n"}, "Gpus_per_node"),
        ({"spec": SPEC + "begin: 2026-12-31T08:00Z\n"}, "the rule of time says when"),
        ({"spec": ": :"}, "YAML"),
        ({"late_within_s": "90000"}, "86400"),
        ({"late_within_s": "soon"}, "is not a duration"),
        ({"ends_at": "2020-01-01T00:00"}, "lies before the schedule begins"),
        ({"template": "none@1"}, "is no template for you"),
    ],
)
def test_what_is_wrong_is_said_beside_its_field(client, cluster, alice, changes, words):
    client.force_login(alice)
    page = client.post("/schedules/new/", {**FORM, **changes})
    assert words in page.content.decode()
    assert not JobSchedule.objects.exists()


def test_it_begins_and_ends_when_its_form_says(client, cluster, alice):
    client.force_login(alice)
    client.cookies["zone"] = "Europe/Berlin"
    span = {"starts_at": "2030-07-01T00:00", "ends_at": "2030-07-31T00:00"}
    made = client.post("/schedules/new/", {**FORM, "late_within_s": "2h", **span})
    (schedule,) = JobSchedule.objects.all()
    assert (schedule.late_within_s, schedule.starts_at.isoformat()) == (
        7200,
        "2030-06-30T22:00:00+00:00",
    )
    form = client.get(f"{made.url}change/").content.decode()
    assert 'value="2h"' in form and 'value="2030-07-01T00:00"' in form


def test_its_owner_runs_changes_pauses_resumes_and_deletes_it(client, cluster, alice, project):
    client.force_login(alice)
    one = f"/schedules/{schedule_of(alice, project, now=timezone.now()).pk}/"
    job = client.post(f"{one}run/", follow=True)
    number = Job.objects.get().pk
    assert f"Job {number} is submitted." in job.content.decode()
    assert "By hand." in client.get(one).content.decode()
    side = client.get(f"/jobs/{number}/").content.decode()
    assert f'<a href="{one}">' in side
    form = client.get(f"{one}change/").content.decode()
    assert "name: nightly" in form
    client.post(f"{one}change/", {**FORM, "rule": "@hourly"})
    assert JobSchedule.objects.get().rule == "@hourly"
    assert "Paused" in client.post(f"{one}pause/", follow=True).content.decode()
    client.post(f"{one}resume/")
    assert JobSchedule.objects.get().paused_at is None
    client.post(f"{one}delete/")
    assert not JobSchedule.objects.exists()
    assert Job.objects.count() == 1


def test_who_leads_gives_a_reason_and_strangers_find_nothing(
    client, cluster, alice, lead, carol, project
):
    schedule = schedule_of(alice, project)
    one = f"/schedules/{schedule.pk}/"
    client.force_login(lead)
    assert "Reason, which its owner reads" in client.get(one).content.decode()
    client.post(f"{one}pause/", {"reason": "<b>too dear</b>"})
    assert "&lt;b&gt;too dear&lt;/b&gt;" in client.get(one).content.decode()
    assert client.post(f"{one}resume/").status_code == 403
    client.force_login(carol)
    assert client.get(one).status_code == 404
    assert client.post(f"{one}pause/").status_code == 404
    assert "Nightly" not in client.get("/schedules/").content.decode()


def test_pages_ask_as_much_with_many(
    client, cluster, alice, project, django_assert_max_num_queries
):
    client.force_login(alice)
    for number in range(4):
        schedule_of(alice, project, name=f"N{number}", now=timezone.now())
    JobSchedule.objects.update(next_due_at=timezone.now())
    assert submit_due(now=timezone.now()) == 4
    client.get("/schedules/")
    with django_assert_max_num_queries(10):
        client.get("/schedules/")
    with django_assert_max_num_queries(14):
        client.get(f"/schedules/{JobSchedule.objects.latest('pk').pk}/")


def test_what_has_changed_since_the_form_was_opened_is_not_set_back(
    client, cluster, alice, project
):
    schedule = schedule_of(alice, project)
    url = f"/schedules/{schedule.pk}/change/"
    client.force_login(alice)
    opened = client.get(url)
    version = opened.context["schedule"].version
    assert f'name="version" value="{version}"' in opened.content.decode()
    form = opened.context["form"]
    sent = {name: form[name].value() or "" for name in form.fields} | {"version": version}
    assert client.post(url, sent | {"rule": "@hourly"}).status_code == 302
    # The other tab still says what it said.
    refused = client.post(url, sent | {"late_within_s": "7200"})
    errors = refused.context["form"].errors
    assert "By now it says: @hourly." in errors["rule"] and "late_within_s" in errors
    assert "was changed since you opened this page" in errors["__all__"][0]
    schedule.refresh_from_db()
    assert schedule.rule == "@hourly" and schedule.late_within_s != 7200
    again = sent | {"late_within_s": "7200", "rule": "@hourly"}
    again["version"] = refused.context["schedule"].version
    assert client.post(url, again).status_code == 302
    schedule.refresh_from_db()
    assert (schedule.rule, schedule.late_within_s) == ("@hourly", 7200)


def test_a_lead_takes_it_over_on_its_page(client, cluster, root, alice, lead, team, project):
    schedule = schedule_of(alice, project)
    url = f"/schedules/{schedule.pk}/"
    client.force_login(lead)
    assert "Take over" not in client.get(url).content.decode()
    remove_member(actor=root, team=team, user=alice)
    shown = client.get(url).content.decode()
    assert "Its owner may not submit here any more" in shown and ">Take over</button>" in shown
    said = client.post(f"{url}take-over/", {"reason": "hers no more"}, follow=True).content.decode()
    assert "Nightly is yours, and paused" in said and "hers no more" in said
    assert "Taken over" in said and ">Resume</button>" in said


def test_its_history_says_how_many_times_a_pause_has_left_out(client, cluster, alice, project):
    schedule = schedule_of(alice, project, now=timezone.now())
    url = f"/schedules/{schedule.pk}/"
    client.force_login(alice)
    client.post(f"{url}pause/")
    JobSchedule.objects.update(paused_at=timezone.now() - timedelta(hours=1))
    said = client.post(f"{url}resume/", follow=True).content.decode()
    assert 'times skipped: <bdi class="name">6</bdi>' in said
