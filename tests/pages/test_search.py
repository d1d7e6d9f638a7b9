"""The palette's answers: places by right, things by name, nothing of anybody else's."""

from __future__ import annotations

import pytest
from django.urls import reverse

from tests import scenes
from tests.pages.yard import build_yard

pytestmark = pytest.mark.django_db


@pytest.fixture
def yard(root, alice, project):
    return build_yard(root, alice, project)


def hits(client, q: str) -> list[tuple[str, str]]:
    answer = client.get(reverse("search"), {"q": q})
    assert answer.status_code == 200
    return [(hit.kind, hit.title) for hit in answer.context["results"]]


def test_jobs_by_number_and_by_part_of_their_name(client, alice, project, yard):
    job = scenes.submit(alice, project, name="train-llm")
    client.force_login(alice)
    assert ("job", "train-llm") in hits(client, f"#{job.pk}")
    assert ("job", "train-llm") in hits(client, "N-LL")
    assert ("project", "vision/digits") in hits(client, "vision/dig")
    assert ("team", "Vision") in hits(client, "visi")


def test_nobody_finds_what_is_another_teams(client, carol, alice, project, yard):
    job = scenes.submit(alice, project, name="secret-run")
    client.force_login(carol)
    assert not [hit for hit in hits(client, "secret") if hit[0] == "job"]
    assert not hits(client, str(job.pk))
    assert not [hit for hit in hits(client, "vision") if hit[0] in {"team", "project"}]


def test_places_follow_rights(client, alice, operator, yard):
    client.force_login(alice)
    assert ("page", "Add node") not in hits(client, "node")
    client.force_login(operator)
    assert ("page", "Add node") in hits(client, "node")
    assert ("page", "Nodes") in hits(client, "pool")


def test_the_rail_leads_operators_to_what_they_look_after(client, alice, operator):
    for who, is_there in ((alice, False), (operator, True)):
        client.force_login(who)
        page = client.get(reverse("home")).content.decode()
        assert ('href="/ops/health/"' in page, 'href="/cluster/simulator/"' in page) == (
            is_there,
            is_there,
        )


def test_the_job_lists_own_language_is_offered(client, alice, yard):
    client.force_login(alice)
    assert ("filter", "Jobs with state:running user:me") in hits(client, "state:running user:me")
    assert not [hit for hit in hits(client, "state:flying") if hit[0] == "filter"]


@pytest.mark.parametrize("q", ["\x00", "%", "_", "9" * 40, "<b>x</b>", "'; drop", "/", "a/b/c"])
def test_odd_texts_find_nothing_and_break_nothing(client, alice, yard, q):
    client.force_login(alice)
    assert not [hit for hit in hits(client, q) if hit[0] == "job" and q != "_"]
    assert "<b>x</b>" not in client.get(reverse("search"), {"q": q}).content.decode()


def test_too_long_and_unknown_are_said(client, alice, yard):
    client.force_login(alice)
    text = client.get(reverse("search"), {"q": "x" * 201, "color": "red"}).content.decode()
    assert "more than 200 characters" in text and "color" in text


def test_as_many_statements_for_many_as_for_few(
    client, alice, project, yard, django_assert_num_queries, django_assert_max_num_queries
):
    client.force_login(alice)
    reverse_of = reverse("search")
    with django_assert_max_num_queries(4) as few:
        client.get(reverse_of, {"q": "train", "part": "results"})
    for number in range(7):
        scenes.submit(alice, project, name=f"train-{number}")
    with django_assert_num_queries(len(few)):
        client.get(reverse_of, {"q": "train", "part": "results"})


def test_single_keys_are_switched_off_in_this_browser(client, alice, yard):
    client.force_login(alice)
    assert 'data-keys="on"' in client.get(reverse("home")).content.decode()
    client.post(reverse("keys"), {"keys": "off"})
    assert 'data-keys="off"' in client.get(reverse("home")).content.decode()
