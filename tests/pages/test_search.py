"""The palette's answers: places by right, things by name, nothing of anybody else's."""

from __future__ import annotations

import pytest
from django.urls import reverse

from portal.pages.help import glossary
from scheduler.selectors.cluster import visible_nodes
from scheduler.states import WaitReason
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


def test_where_more_was_found_it_is_said(client, alice, project, yard):
    client.force_login(alice)
    for q, is_cut in (("e", True), ("visi", False), ("", False)):
        for part in ({}, {"part": "results"}):
            page = client.get(reverse("search"), {"q": q, **part}).content.decode()
            assert ("More was found" in page) is is_cut, (q, part)
            assert ("all that match" in page) is (is_cut and not part)


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


def acts(client, q: str) -> list[tuple[str, str]]:
    answer = client.get(reverse("search"), {"q": q})
    assert answer.status_code == 200
    return [(hit.title, hit.url) for hit in answer.context["results"] if hit.kind == "action"]


def test_an_action_and_its_job_lead_to_where_it_is_confirmed(client, alice, project, yard):
    job = scenes.submit(alice, project, name="train-llm")
    client.force_login(alice)
    here = reverse("jobs:detail", args=[job.pk])
    assert acts(client, f"cancel {job.pk}") == [(f"Cancel job #{job.pk}", here + "#cancel-now")]
    assert acts(client, f"Hold #{job.pk}") == [(f"Hold job #{job.pk}", here)]
    assert ("job", "train-llm") in hits(client, f"cancel {job.pk}")
    # Only what runs is paused, and only what is held is released.
    assert acts(client, f"pause {job.pk}") == acts(client, f"release {job.pk}") == []
    page = client.get(here).content.decode()
    assert 'id="cancel-now"' in page
    job.refresh_from_db()
    assert job.state == "queued"


def test_actions_on_foreign_and_missing_jobs_look_the_same(client, alice, carol, project, yard):
    job = scenes.submit(alice, project, name="secret-run")
    client.force_login(carol)
    for which in (job.pk, job.pk + 1_000_000, "9" * 40, "x", "-1", "\x00"):
        for verb in ("cancel", "pause", "clone", "resume"):
            assert hits(client, f"{verb} {which}") == [], (verb, which)


def test_nodes_are_drained_by_who_operates(client, alice, operator, yard):
    name = visible_nodes(operator).values_list("name", flat=True)[0]
    here = reverse("nodes:detail", args=[name])
    client.force_login(operator)
    assert acts(client, f"drain {name}") == [(f"Drain {name}", here + "#drain-now")]
    assert 'id="drain-now"' in client.get(here).content.decode()
    assert acts(client, f"resume {name}") == acts(client, "drain nowhere") == []
    client.force_login(alice)
    assert acts(client, f"drain {name}") == []


def test_words_of_help_are_found_by_name_and_by_what_they_say(client, alice, yard):
    client.force_login(alice)
    assert ("help", str(WaitReason.CAPACITY_BUSY)) in hits(client, "capacity busy")
    assert ("help", str(WaitReason.POOL_CLOSED)) in hits(client, "paused the queue")
    answer = client.get(reverse("search"), {"q": "capacity busy"})
    url = next(hit.url for hit in answer.context["results"] if hit.kind == "help")
    place = url.partition("#")[2]
    assert f'id="{place}"' in client.get(reverse("help")).content.decode()


def test_an_action_costs_as_many_statements_whatever_it_is_about(
    client, alice, project, yard, django_assert_max_num_queries
):
    job = scenes.submit(alice, project, name="train-llm")
    client.force_login(alice)
    for q in (f"cancel {job.pk}", f"cancel {job.pk + 999}", "drain n1"):
        with django_assert_max_num_queries(6):
            client.get(reverse("search"), {"q": q, "part": "results"})


def test_help_tells_of_every_reason_in_the_order_in_which_the_scheduler_asks():
    nowhere = {
        WaitReason.POLICY_DENIED,
        WaitReason.APPROVAL_WAIT,
        WaitReason.DATA_STAGING,
        WaitReason.AUTOSCALE_PROVISIONING,
    }
    told = [word for word, _ in glossary() if word in set(WaitReason)]
    assert told == [str(reason) for reason in WaitReason if reason not in nowhere]


def test_every_page_that_menus_lead_to_is_found_by_what_people_call_it(client, root, alice, yard):
    client.force_login(alice)
    for q, title in (
        ("notebook", "Start session"),
        ("jupyter", "Sessions"),
        ("my jobs", "Jobs"),
        ("secret", "Secrets"),
        ("password", "Change password"),
    ):
        assert ("page", title) in hits(client, q)
    assert ("page", "Assets") not in hits(client, "assets")
    assert ("page", "First steps") not in hits(client, "first steps")
    client.force_login(root)
    for q, title in (
        ("bought", "Assets"),
        ("recovery", "Costs and recovery"),
        ("first steps", "First steps"),
    ):
        assert ("page", title) in hits(client, q)


def test_reports_are_found_by_who_reads_the_books(client, root, alice, yard):
    client.force_login(alice)
    assert not [hit for hit in hits(client, "capacity") if hit[0] == "report"]
    client.force_login(root)
    found = client.get(reverse("search"), {"q": "capacity"}).context["results"]
    report = next(hit for hit in found if hit.kind == "report")
    assert report.url == reverse("finance:report", args=["capacity"])
    assert client.get(report.url).status_code == 200


def test_a_thing_that_is_called_so_comes_before_places_that_are_only_akin(
    client, alice, project, yard
):
    for number in range(6):
        scenes.submit(alice, project, name=f"resnet-{number}")
    client.force_login(alice)
    found = hits(client, "res")
    jobs = [number for number, (kind, _) in enumerate(found) if kind == "job"]
    # What is called otherwise by a word that begins so, before what only has it within a word.
    bookings, templates = found.index(("page", "Bookings")), found.index(("page", "Templates"))
    assert jobs[0] == 0 and max(jobs) < bookings < templates
    # A place called so is still the first.
    assert hits(client, "temp")[0] == ("page", "Templates")
