"""Lists say how many warnings ended jobs have, to who may read their logs, and find them by it."""

from __future__ import annotations

import pytest
from django.urls import reverse
from django.utils import timezone

from portal.terminal.counting import count_warnings
from scheduler.models import Attempt, Job
from tests import scenes
from tests.pages.test_budgets import statements
from tests.pages.yard import build_yard

pytestmark = pytest.mark.django_db


@pytest.fixture
def yard(root, alice, project):
    """Both that ended have warnings, one of them more than are counted."""
    yard = build_yard(root, alice, project)
    count_warnings(now=timezone.now())
    _warn(yard.succeeded, 3)
    _warn(yard.failed, 10_001)
    return yard


def _warn(job: Job, count: int | None) -> None:
    Attempt.objects.filter(job=job).update(warnings=count)


def _tag(job: Job, words: str, route: str = "logs") -> str:
    link = f'<a class="tag" href="{reverse(f"jobs:{route}", args=[job.pk])}?q=warn">{words}'
    return f'{link}<span class="vh"> in the log of #{job.pk}</span></a>'


@pytest.mark.parametrize("address", ["/jobs/", "/"])
def test_a_list_says_how_many_and_leads_to_them(client, alice, yard, address):
    client.force_login(alice)
    page = client.get(address).content.decode()
    assert _tag(yard.succeeded, "3 warnings") in page
    assert _tag(yard.failed, "more than 10,000 warnings") in page
    assert page.count('q=warn"') == 2, "none of others"
    _warn(yard.succeeded, 1)
    Job.objects.filter(pk=yard.failed.pk).update(nodes=2)
    page = client.get(address).content.decode()
    assert _tag(yard.succeeded, "1 warning") in page
    assert _tag(yard.failed, "more than 10,000 warnings", "log_ranks") in page


def test_none_is_said_of_none_of_who_runs_and_of_earlier_attempts(client, alice, yard):
    client.force_login(alice)
    _warn(yard.succeeded, 0)
    _warn(yard.failed, None)
    _warn(yard.running, 5)
    assert "q=warn" not in client.get("/jobs/").content.decode()
    _warn(yard.succeeded, 3)
    again = Attempt.objects.get(job=yard.succeeded)
    again.pk, again.number, again.warnings, again.started_at = None, 2, None, None
    again.save()
    assert "q=warn" not in client.get("/jobs/").content.decode(), "the last one never began"
    assert client.get(f"/api/v1/jobs/{yard.succeeded.pk}/").json()["warnings"] is None
    Attempt.objects.filter(pk=again.pk).update(warnings=7)
    assert _tag(yard.succeeded, "7 warnings") in client.get("/jobs/").content.decode()
    assert client.get(f"/api/v1/jobs/{yard.succeeded.pk}/").json()["warnings"] == 7


def test_the_page_of_the_job_says_it_at_its_log(client, alice, finance, yard):
    client.force_login(alice)
    address = reverse("jobs:detail", args=[yard.succeeded.pk])
    assert (
        f"<h2>Log</h2>{_tag(yard.succeeded, '3 warnings')}" in client.get(address).content.decode()
    )
    client.force_login(finance)
    assert "q=warn" not in client.get(address).content.decode()


def test_who_may_not_read_the_log_learns_nothing_of_it(client, finance, operator, carol, yard):
    for viewer, sees in ((finance, True), (operator, True), (carol, False)):
        client.force_login(viewer)
        for address in ("/jobs/", "/"):
            assert "q=warn" not in client.get(address).content.decode()
        assert not client.get("/jobs/", {"q": "warnings:>0"}).context["rows"]
        assert not client.get("/jobs/", {"q": "warnings:>=0"}).context["rows"]
        items = client.get("/api/v1/jobs/").json()["items"]
        assert bool(items) == sees and not any(item["warnings"] for item in items)
        assert not client.get("/api/v1/jobs/", {"q": "warnings:>0"}).json()["items"]
        one = client.get(f"/api/v1/jobs/{yard.succeeded.pk}/")
        assert one.json()["warnings"] is None if sees else one.status_code == 404


def test_rest_says_it_in_the_list_and_of_one(client, alice, yard):
    client.force_login(alice)
    listed = {one["id"]: one["warnings"] for one in client.get("/api/v1/jobs/").json()["items"]}
    assert listed[yard.succeeded.pk] == 3 and listed[yard.failed.pk] == 10_001
    assert listed[yard.running.pk] is listed[yard.queued.pk] is None
    assert client.get(f"/api/v1/jobs/{yard.succeeded.pk}/").json()["warnings"] == 3
    assert client.get(f"/api/v1/jobs/{yard.queued.pk}/").json()["warnings"] is None


def test_it_is_found_by_how_many(client, alice, yard):
    client.force_login(alice)
    few, many = yard.succeeded.pk, yard.failed.pk
    asked = {">0": {few, many}, ">3": {many}, "3": {few}, "<=3": {few}, "1..9": {few}, "0": set()}
    for value, wanted in asked.items():
        term = {"q": f"warnings:{value}"}
        rows = client.get("/jobs/", term).context["rows"]
        assert {row.job.pk for row in rows} == wanted, value
        found = client.get("/api/v1/jobs/", term).json()
        assert {item["id"] for item in found["items"]} == wanted, value
    (problem,) = client.get("/jobs/", {"q": "warnings:many"}).context["problems"]
    assert problem == "warnings: 'many' is no number of warnings; write it like warnings:>0."
    assert client.get("/api/v1/jobs/", {"q": "warnings:many"}).status_code == 400


@pytest.mark.parametrize("address", ["/jobs/", "/", "/jobs/?q=warnings:>0", "/api/v1/jobs/"])
def test_many_of_them_ask_no_more_of_the_database(client, alice, yard, project, address):
    client.force_login(alice)
    client.get(address)
    with statements() as few:
        client.get(address)
    for number in range(6):
        job = scenes.submit(alice, project, name=f"more-{number}")
        attempt = scenes.start(job, yard.cluster.node(2))
        scenes.sync(yard.cluster.node(2), scenes.running(attempt))
        scenes.sync(yard.cluster.node(2), scenes.ended(attempt))
        _warn(job, number + 1)
    with statements() as many:
        page = client.get(address).content.decode()
    assert "warnings" in page and len(many) == len(few)
