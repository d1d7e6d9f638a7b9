"""Retry rules in the form, on the job's page, and tried on a clone's origin."""

from __future__ import annotations

import pytest
from django.urls import reverse

from scheduler.models import Job
from scheduler.states import EndReason
from tests import scenes
from tests.pages.test_compose import form_data
from tests.scenes import at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db

RULES = "exit=75:2:wait=1m..1h\r\nfailure=user_resource:stop"


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=2)


def fail(cluster, job, code):
    attempt = start(job, cluster.node(1), now=at(60))
    sync(cluster.node(1), running(attempt), now=at(61))
    end = ended(attempt, reason=EndReason.EXIT_CODE, exit_code=code)
    sync(cluster.node(1), end, now=at(70))
    job.refresh_from_db()


def test_rules_are_written_a_line_each_and_kept_in_their_order(client, alice, project, cluster):
    client.force_login(alice)
    page = client.post(reverse("jobs:submit"), form_data(project, retry_rules=RULES))
    assert page.status_code == 302
    job = Job.objects.latest("pk")
    assert job.spec["retry_rules"] == [
        {"exit": "75", "max": 2, "wait": "1m..1h"},
        {"failure": "user_resource", "action": "stop"},
    ]
    form = client.get(reverse("jobs:submit"), {"clone": job.pk}).context["form"]
    assert form["retry_rules"].value() == RULES.replace("\r", "")


def test_a_wrong_rule_is_told_at_its_field_with_the_remedy(client, alice, project, cluster):
    client.force_login(alice)
    data = form_data(project, retry_rules="exit=75:2\nexit=0:1")
    form = client.post(reverse("jobs:submit"), data).context["form"]
    (error,) = form.errors["retry_rules"]
    assert error == (
        "Has a fault in rule 2: '0' is no exit code; write 1 to 255, or a range such as 64..78."
    )
    assert not Job.objects.exists()


def test_the_page_says_which_rule_acted_and_until_when_it_waits(
    client, alice, finance, project, cluster
):
    job = submit(alice, project, retry_rules="exit=9:1\nexit=75:2:wait=1m..1h\n1:log=secret words")
    fail(cluster, job, 75)
    client.force_login(alice)
    text = client.get(reverse("jobs:detail", args=[job.pk])).content.decode()
    said = "Tries again at 20 Nov 2026, 12:02:10 UTC, after a wait of 1 min; rule 2: exit code 75."
    assert said in text and "release it to try at once" in text and "not before" in text
    assert text.count("Rule 2 (exit code 75) tries it again, 1 of 2.") >= 2
    assert "exit code 75: tried again after 1m, twice as long each time up to 1h, twice" in text
    assert "secret words" in text and "3 retry rules" in text
    events = client.get(reverse("jobs:events", args=[job.pk])).content.decode()
    assert "Rule 2 (exit code 75) tries it again, 1 of 2." in events
    client.force_login(finance)
    text = client.get(reverse("jobs:detail", args=[job.pk])).content.decode()
    assert "Rule 2 (exit code 75) tries it again" in text and "secret words" not in text


def test_a_clones_summary_says_what_its_rules_would_have_made_of_the_last_attempt(
    client, alice, project, cluster
):
    job = submit(alice, project)
    fail(cluster, job, 75)
    address = reverse("jobs:submit") + "?part=summary"
    data = form_data(project, cloned_from=job.pk, retry_rules="exit=1:1\nexit=75:stop")
    client.force_login(alice)
    text = client.post(address, data).content.decode()
    origin = reverse("jobs:detail", args=[job.pk])
    assert f'Of attempt 1 of <a href="{origin}">#{job.pk}</a>' in text
    assert "Rule 2 (exit code 75): not tried again." in text
    text = client.post(address, data | {"retry_rules": ""}).content.decode()
    assert "would have made" not in text
