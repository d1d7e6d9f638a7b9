"""Parts of pages that are asked for again and again are sent once while they say the same."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from portal.serving.unchanged import unless_unchanged
from tests import scenes
from tests.scenes import submit

pytestmark = pytest.mark.django_db
LISTS = "/?part=lists"


def ask(client, where, tag=""):
    return client.get(where, headers={"if-none-match": tag} if tag else {})


def test_a_part_that_says_the_same_comes_without_its_text(client, root, alice, project):
    scenes.build_cluster(root, nodes=0)
    client.force_login(alice)
    first = ask(client, LISTS)
    assert first.status_code == 200 and first["Cache-Control"] == "private, no-cache"
    again = ask(client, LISTS, first["ETag"])
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"])
    assert again["Cache-Control"] == "private, no-cache" and "Cookie" in again["Vary"]
    submit(alice, project, now=timezone.now())
    changed = ask(client, LISTS, first["ETag"])
    assert changed.status_code == 200 and changed["ETag"] != first["ETag"]


def test_tokens_of_its_forms_are_drawn_anew_and_do_not_count(client, root, alice, project):
    scenes.build_cluster(root, nodes=0)
    job = submit(alice, project, now=timezone.now() - timedelta(hours=30))
    head = f"/jobs/{job.pk}/?part=head"
    client.force_login(alice)
    client.get("/jobs/")
    first, other = ask(client, head), ask(client, head)
    assert first.content != other.content and b"csrfmiddlewaretoken" in first.content
    assert ask(client, head, first["ETag"]).status_code == 304
    # Elsewhere the same person has another secret: a kept token would be refused there.
    elsewhere = Client()
    elsewhere.force_login(alice)
    elsewhere.get("/jobs/")
    assert ask(elsewhere, head, first["ETag"]).status_code == 200


def test_who_is_signed_out_is_not_told_that_it_is_the_same(client, alice, project):
    client.force_login(alice)
    tag = ask(client, LISTS)["ETag"]
    client.logout()
    assert ask(client, LISTS, tag).status_code == 302


def test_keys_that_let_a_form_act_once_are_never_an_old_ones(client, root, alice, project):
    """A list sent again as it was would bring the key of a form that was sent meanwhile."""
    scenes.build_cluster(root, nodes=0)
    submit(alice, project, now=timezone.now())
    client.force_login(alice)
    tags = {ask(client, "/jobs/?part=rows")["ETag"] for _ in range(2)}
    assert len(tags) == 2


def test_whole_pages_and_refusals_have_no_tag(client, alice):
    client.force_login(alice)
    for where in ("/", reverse("jobs:list"), "/jobs/999999/?part=live"):
        assert not client.get(where).has_header("ETag"), where


def test_what_its_headers_alone_say_is_a_change(rf):
    """A part that asks for a new page with the same text: by 304 the browser would not hear it."""
    plain = unless_unchanged(rf.get("/x/?part=head"), HttpResponse("same"))
    again = rf.get("/x/?part=head", headers={"if-none-match": plain["ETag"]})
    assert unless_unchanged(again, HttpResponse("same")).status_code == 304
    anew = unless_unchanged(again, HttpResponse("same", headers={"HX-Refresh": "true"}))
    assert anew.status_code == 200 and anew["HX-Refresh"] == "true"
