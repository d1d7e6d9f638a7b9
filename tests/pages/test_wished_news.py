"""What a job asks to be told of: in the form, its summary, the job's page and the settings."""

from __future__ import annotations

import pytest
from django.urls import reverse
from django.utils.html import escape

from scheduler.models import Job
from scheduler.states import NOTICE_RULES
from tests import scenes
from tests.pages.test_compose import form_data

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=2)


def test_the_form_takes_it_says_what_it_means_and_keeps_it_for_a_clone(
    client, alice, bob, project, cluster
):
    client.force_login(alice)
    data = form_data(project, notify="end, start")
    shown = client.post(reverse("jobs:submit"), data | {"check": "1"}).content.decode()
    assert "You are told by mail and in the inbox when it starts and when it ends." in shown
    assert client.post(reverse("jobs:submit"), data).status_code == 302
    job = Job.objects.get()
    assert job.notify == job.spec["notify"] == ["start", "end"]
    page = client.get(reverse("jobs:detail", args=[job.pk])).content.decode()
    assert "when it starts and when it ends" in page
    form = client.get(reverse("jobs:submit"), {"clone": job.pk}).context["form"]
    assert form["notify"].value() == "start,end"


def test_a_wrong_word_is_told_at_its_field(client, alice, project, cluster):
    client.force_login(alice)
    form = client.post(reverse("jobs:submit"), form_data(project, notify="begin")).context["form"]
    (error,) = form.errors["notify"]
    assert error.startswith("'begin' is none of start, end, fail")
    assert not Job.objects.exists()


def test_others_see_of_what_the_owner_is_told_and_settings_say_what_goes_first(
    client, alice, lead, project, cluster
):
    job = scenes.submit(alice, project, notify="fail,warn")
    client.force_login(lead)
    page = client.get(reverse("jobs:detail", args=[job.pk])).content.decode()
    assert "Its owner is told of: fail, warn" in page
    settings = client.get(reverse("notification_settings")).content.decode()
    assert "own choice goes first" in settings
    row = settings.partition("Job started")[2].partition("</tr>")[0]
    assert "as asked for" in row and "checkbox" not in row


def test_what_when_and_chats_name_the_same_kinds(client, alice):
    client.force_login(alice)
    words = [rule.words for rule in NOTICE_RULES.values()]
    for route in ("notification_settings", "notification_hours", "channels:list"):
        page = client.get(reverse(route)).content.decode()
        assert [one for one in words if escape(one) not in page] == [], route
