"""A job beside the list: what it says to whom, and that its buttons lead back to the list."""

from __future__ import annotations

import pytest
from django.urls import reverse
from django.utils import timezone

from portal.pages.samples import SAMPLE
from scheduler.models import Job
from scheduler.selectors.jobs import wait_sentence_of
from tests import scenes
from tests.pages.yard import LOG, build_yard

pytestmark = [pytest.mark.django_db, pytest.mark.once]


@pytest.fixture
def yard(root, alice, project):
    return build_yard(root, alice, project)


def glance(client, job, **headers):
    return client.get(reverse("jobs:glance", args=[job.pk]), headers=headers)


def test_rows_of_jobs_have_the_button_and_the_page_one_panel(client, alice, project, yard):
    scenes.submit(alice, project, name="many", array="0-2")
    client.force_login(alice)
    page = client.get(reverse("jobs:list"), {"q": ""}).content.decode()
    assert page.count('id="glance"') == 1
    # Five jobs; an array opens by its own page.
    assert page.count('class="peek') == 5
    assert f'hx-get="{reverse("jobs:glance", args=[yard.queued.pk])}"' in page


def test_it_says_what_the_row_has_no_room_for(client, alice, yard):
    scenes.write_log(yard.cluster.node(1), yard.attempt, LOG + b"x" * 500 + b"\nepoch 3/12\n")
    client.force_login(alice)
    running = glance(client, yard.running).content.decode()
    assert "25 %, epoch 3 of 12" in running and ">n1</a>" in running
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\nlast line\n" in running
    assert "x" * 160 in running and "x" * 161 not in running
    assert 'data-key="l"' in running and 'data-key="e"' in running
    assert 'data-topic="job:' in running and "<html" not in running
    waiting = glance(client, yard.queued).content.decode()
    assert "Expected start" in waiting and "Start sooner" in waiting and "<pre" not in waiting
    assert wait_sentence_of(yard.queued) in waiting
    failed = glance(client, yard.failed).content.decode()
    assert "exit code 3" in failed.lower() and "Cancel job" not in failed


def test_each_sees_as_much_as_on_its_page(client, finance, bob, carol, yard):
    client.force_login(finance)
    told = glance(client, yard.running).content.decode()
    assert "Cost so far" in told and "last line" not in told and "Log</a>" not in told
    client.force_login(bob)
    told = glance(client, yard.running).content.decode()
    assert "last line" in told and 'value="cancel"' not in told
    client.force_login(carol)
    assert glance(client, yard.running).status_code == 404
    assert client.get(reverse("jobs:glance", args=[10**9])).status_code == 404


def test_its_buttons_lead_back_to_the_list_as_it_was(client, alice, yard):
    client.force_login(alice)
    here = "http://testserver/jobs/?q=state%3Awaiting&sort=-gpus"
    page = glance(client, yard.queued, **{"HX-Current-URL": here})
    assert page.context["query"] == "q=state%3Awaiting&sort=-gpus"
    sent = {"act": "hold", "job": yard.queued.pk, "query": page.context["query"]}
    answer = client.post(reverse("jobs:marked"), sent)
    assert answer.url == "/jobs/?q=state%3Awaiting&sort=-gpus"
    yard.queued.refresh_from_db()
    assert yard.queued.state == "held"
    odd = glance(client, yard.queued, **{"HX-Current-URL": 'javascript:"><b>?"><i>'})
    assert odd.status_code == 200 and "<i>" not in odd.content.decode()


def test_a_log_that_is_no_longer_kept_is_not_shown(client, alice, yard):
    yard.attempt.placements.update(log_pruned_at=timezone.now())
    client.force_login(alice)
    told = glance(client, yard.running)
    assert told.status_code == 200 and "last line" not in told.content.decode()


def test_a_filter_that_finds_nothing_says_of_how_many_and_clears_itself(client, alice, yard):
    client.force_login(alice)
    page = client.get(reverse("jobs:list"), {"q": "state:starting gpus:>=64"})
    text = page.content.decode()
    assert "0 of 5 jobs match" in text and "clear all 2 conditions" in text
    one = client.get(reverse("jobs:list"), {"q": "gpus:>=64", "per": "100"}).content.decode()
    assert 'href="/jobs/?q=&amp;per=100">clear the filter</a>' in one
    narrow = client.get(reverse("jobs:list"), {"q": "gpus:>=64", "scope": "team:vision"})
    assert "look outside of" in narrow.content.decode()


def test_a_jobs_page_copies_its_link_and_draws_when_so_much_is_free(client, alice, yard):
    client.force_login(alice)
    page = client.get(reverse("jobs:detail", args=[yard.queued.pk])).content.decode()
    assert f'data-copy="http://testserver/jobs/{yard.queued.pk}/"' in page
    url = "/cluster/free/?pool=default&amp;span=24h&amp;need=1"
    assert f'hx-get="{url}&amp;part=job"' in page and f'href="{url}"' in page
    assert 'id="job-room"' not in client.get(f"/jobs/{yard.held.pk}/").content.decode()
    asked = {"pool": "default", "span": "24h", "need": "1", "part": "job"}
    drawn = client.get(reverse("cluster_room"), asked).content.decode()
    assert "<html" not in drawn and drawn.count("<section") == 1 and "<svg" in drawn
    assert "1 is free now." in drawn and "needs 1" in drawn
    home = client.get(reverse("home")).content.decode()
    assert f'href="/jobs/{yard.queued.pk}/why/options/"' in home
    assert f'href="/jobs/{yard.held.pk}/why/options/"' not in home
    assert f'href="/jobs/{yard.failed.pk}/logs/"' in home


def test_who_ran_the_sample_is_shown_what_there_is_to_see(client, alice, bob, yard):
    Job.objects.filter(pk__in=(yard.succeeded.pk, yard.running.pk)).update(name=SAMPLE)
    client.force_login(alice)
    page = client.get(reverse("jobs:detail", args=[yard.succeeded.pk])).content.decode()
    hint = page.partition("What there is to see:")[2].partition("</div>\n")[0]
    for route in ("logs", "metrics", "cost"):
        assert f'href="{reverse(f"jobs:{route}", args=[yard.succeeded.pk])}"' in hint
    assert f"?clone={yard.succeeded.pk}" in hint
    # Not while it runs, not of other jobs, and not to others.
    for job, who in ((yard.running, alice), (yard.failed, alice), (yard.succeeded, bob)):
        client.force_login(who)
        told = client.get(reverse("jobs:detail", args=[job.pk])).content.decode()
        assert "What there is to see" not in told


def test_warnings_of_a_log_are_looked_for_with_one_press(client, alice, yard):
    client.force_login(alice)
    path = reverse("jobs:logs", args=[yard.running.pk])
    page = client.get(path).content.decode()
    assert f'href="{path}?attempt=1&amp;rank=0&amp;q=warn"' in page
