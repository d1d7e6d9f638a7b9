"""`?sort=` of lists: the orders of the page, by a cursor that belongs to one of them."""

from __future__ import annotations

import base64
from datetime import timedelta

import pytest
from django.urls import reverse

from scheduler.models import Job
from tests import requesting, scenes
from tests.api.conftest import problem_of

pytestmark = pytest.mark.django_db


def test_jobs_by_their_start_through_ties_and_those_without_one(program, cluster, alice, project):
    jobs = [scenes.submit(alice, project) for _ in range(9)]
    for n, job in enumerate(jobs[:6]):
        started = scenes.NOON + timedelta(minutes=n // 3)
        Job.objects.filter(pk=job.pk).update(started_at=started)
    api, found, cursor = program(alice), [], ""
    while cursor is not None:
        more = f"&cursor={cursor}" if cursor else ""
        page = api.get(f"/jobs/?sort=-started&limit=2{more}").json()
        found += [item["id"] for item in page["items"]]
        cursor = page["next_cursor"]
    by_start = [jobs[n].pk for n in (5, 4, 3, 2, 1, 0)]
    assert found == by_start + [jobs[n].pk for n in (8, 7, 6)]


def test_what_is_no_order_and_a_cursor_of_another_are_refused(program, cluster, alice, project):
    for _ in range(3):
        scenes.submit(alice, project)
    api = program(alice)
    problem = problem_of(api.get("/jobs/?sort=colour"), 400, "bad_query")
    assert problem["errors"][0]["field"] == "sort"
    cursor = api.get("/jobs/?sort=-gpus&limit=1").json()["next_cursor"]
    other = api.get(f"/jobs/?sort=gpus&limit=1&cursor={cursor}")
    problem_of(other, 400, "invalid_cursor")


def test_the_audit_from_its_beginning(program, root, project):
    api = program(root)
    newest = [one["id"] for one in api.get("/audit/").json()["items"]]
    oldest = [one["id"] for one in api.get("/audit/?sort=at").json()["items"]]
    assert oldest[: len(newest)] == newest[::-1][: len(oldest)]
    problem_of(api.get("/audit/?sort=actor"), 400, "bad_query")


def test_nodes_in_an_order_of_the_page(program, cluster, root, alice):
    scenes.add_node(cluster, "n0", 4)
    names = [one["name"] for one in program(alice).get("/nodes/").json()["items"]]
    assert names == ["n0", "n1", "n2"]
    falling = program(alice).get("/nodes/?sort=-name").json()["items"]
    assert [one["name"] for one in falling] == names[::-1]
    problem_of(program(alice).get("/nodes/?sort=colour"), 400, "bad_query")


@pytest.mark.parametrize("text", ["\\ud800", "\\u0000"])
def test_a_place_that_is_no_text_is_refused(program, client, cluster, alice, text):
    raw = f'["state","{text}","x"]'.encode()
    mark = base64.urlsafe_b64encode(raw).decode().rstrip("=")
    client.force_login(alice)
    page = client.get(reverse("nodes:list"), {"sort": "state", "after": mark})
    assert page.status_code == 200
    problem_of(program(alice).get(f"/nodes/?sort=state&cursor={mark}"), 400, "invalid_cursor")


def test_requests_in_an_order_of_their_page(program, cluster, alice, lead, project):
    owners = (project, project.team)
    asked = [requesting.ask(alice, owner, now=scenes.at(n)).pk for n, owner in enumerate(owners)]

    def numbers(person, query):
        return [one["id"] for one in program(person).get(f"/requests/{query}").json()["items"]]

    assert numbers(alice, "") == asked[::-1]
    assert numbers(alice, "?sort=asked") == asked
    assert numbers(lead, "?show=inbox&sort=-due") == asked[::-1]
    # What one has asked for oneself is not late.
    problem_of(program(alice).get("/requests/?sort=due"), 400, "bad_query")
