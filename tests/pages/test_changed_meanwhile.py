"""Two who change one job at once: each changes what they meant to, or is told of the other."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.urls import reverse

from scheduler.loop.changing import change_job, read_change
from scheduler.models import Job, JobEvent
from scheduler.services.changing.limits import set_time_limit
from tests import scenes
from tests.pages.yard import build_yard
from tests.scenes import at

pytestmark = pytest.mark.django_db
_INPUT = re.compile(r"<input[^>]*>")
_ATTRIBUTE = re.compile(r' (name|value)="([^"]*)"')
_SELECT = re.compile(r'<select[^>]* name="([^"]+)"(.*?)</select>', re.DOTALL)


def fields_of(page, *, method):
    """What a browser sends of the page's form as it is."""
    text = page.content.decode()
    marks = {"get": 'class="row ends"', "post": 'method="post"'}[method]
    forms = re.findall(r'<form[^>]*action="/jobs/\d+/change/"[^>]*>.*?</form>', text, re.DOTALL)
    [form] = [one for one in forms if marks in one[: one.index(">")]]
    inputs = (dict(_ATTRIBUTE.findall(one)) for one in _INPUT.findall(form))
    found = {one["name"]: unescape(one["value"]) for one in inputs}
    for name, options in _SELECT.findall(form):
        values = re.findall(r'value="([^"]*)"', options)
        found[name] = next(iter(re.findall(r'value="([^"]*)" selected', options)), values[0])
    return {name: value for name, value in found.items() if name != "csrfmiddlewaretoken"}


@pytest.fixture
def job(root, alice, project):
    build_yard(root, alice, project)
    return scenes.submit(alice, project, time_limit="6h", max_cost="5", hold=True)


@pytest.fixture
def url(client, alice, job):
    client.force_login(alice)
    return reverse("jobs:change", args=[job.pk])


def changed(lead, job, **asked):
    job = Job.objects.get(pk=job.pk)
    change_job(actor=lead, job=job, change=read_change(**asked), now=at(50))


def test_what_somebody_else_changed_meanwhile_stays(client, lead, job, url):
    opened = fields_of(client.get(url), method="get")
    assert (opened["was_time_limit"], opened["was_max_cost"]) == ("6h", "5.00")
    changed(lead, job, max_cost="9", gpus_per_node="2")
    seen = client.get(url, opened | {"time_limit": "8h"})
    assert (seen.context["max_cost"], seen.context["gpus"]) == ("9.00", "2")
    sent = fields_of(seen, method="post")
    assert sent == {"time_limit": "8h", "was_time_limit": "6h"}
    # And between the look and the button.
    changed(lead, job, max_cost="7")
    assert client.post(url, sent).status_code == 302
    job.refresh_from_db()
    assert (job.time_limit_s, job.max_cost, job.gpus) == (8 * 3600, 7, 2)
    kinds = JobEvent.objects.filter(job=job, actor=job.owner).values_list("kind", flat=True)
    assert "limit_changed" in kinds and "max_cost_changed" not in kinds


def test_two_who_change_the_same_are_told_of_each_other(client, lead, job, url):
    opened = fields_of(client.get(url), method="get")
    changed(lead, job, time_limit="7h", max_cost="none")
    for asked, words in (
        ({"time_limit": "8h"}, "Time limit: somebody has changed it from 6h to 7h since"),
        ({"max_cost": "6"}, "Highest price: somebody has changed it from 5.00 to nothing since"),
    ):
        for call, status in ((client.get, 200), (client.post, 422)):
            refused = call(url, opened | asked)
            assert refused.status_code == status
            assert words in unescape(refused.content.decode())
            assert refused.context["wrong"] in asked
    job.refresh_from_db()
    assert (job.time_limit_s, job.max_cost) == (7 * 3600, None)
    # Who has seen it and asks for the same once more gets it.
    again = fields_of(client.get(url, opened | {"time_limit": "8h"}), method="get")
    assert (again["time_limit"], again["was_time_limit"]) == ("8h", "7h")
    assert client.post(url, again).status_code == 302
    job.refresh_from_db()
    assert (job.time_limit_s, job.max_cost) == (8 * 3600, None)


def test_who_asks_for_what_it_has_by_now_is_told_that(client, lead, job, url):
    opened = fields_of(client.get(url), method="get")
    changed(lead, job, time_limit="8h")
    done = client.post(url, opened | {"time_limit": "8h"}, follow=True)
    assert "asks for just that" in done.content.decode()
    assert "asks for just that" in client.post(url, opened, follow=True).content.decode()


def test_who_may_not_see_costs_learns_no_price_from_two_that_differ(client, operator, job, url):
    client.force_login(operator)
    blind = client.get(url)
    assert "max_cost" not in fields_of(blind, method="get")
    assert "was_max_cost" not in blind.content.decode()
    for was in ("1", "5.00"):
        refused = client.post(url, {"max_cost": "3", "was_max_cost": was}, follow=True)
        assert "5.00" not in refused.content.decode()
        assert "but not what it may cost" in refused.content.decode()


def test_a_change_between_the_look_and_the_lock_is_refused(client, monkeypatch, lead, job, url):
    from portal.pages.changing import job_change

    def late(**asked):
        found = Job.objects.get(pk=job.pk)
        set_time_limit(actor=lead, job=found, time_limit_s=5 * 3600, now=at(60))
        return change_job(**asked)

    monkeypatch.setattr(job_change, "change_job", late)
    opened = fields_of(client.get(url), method="get")
    refused = client.post(url, opened | {"time_limit": "8h"})
    assert refused.status_code == 422 and refused.context["problems"]
    job.refresh_from_db()
    assert job.time_limit_s == 5 * 3600
