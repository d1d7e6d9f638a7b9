"""What a person sees when something is missing, refused or broken."""

from __future__ import annotations

import re

import pytest
from django.db import OperationalError
from django.test import Client
from django.urls import reverse

from tests import scenes

pytestmark = pytest.mark.django_db


def _text(answer):
    return answer.content.decode()


def test_missing_and_foreign_are_the_same_page(client, carol, team):
    client.force_login(carol)
    foreign = client.get("/teams/vision/")
    missing = client.get("/teams/nowhere/")
    assert foreign.status_code == missing.status_code == 404
    assert _text(foreign) == _text(missing)
    assert "vision" not in _text(foreign).lower()


@pytest.mark.parametrize(
    "path",
    [
        "/no/such/page",
        "/teams/..%2f..%2fetc%2fpasswd/",
        "/jobs/99999999999999999999999/",
        "/cluster/nodes/%00/",
        "/cluster/nodes/%ff%fe/",
        "/invitations/%00/",
        "/invitations/%F0%9F%92%A9/",
        "/invitations/" + "x" * 5000 + "/",
        "/teams/%00/",
    ],
)
def test_odd_addresses_are_not_found(client, alice, path):
    client.force_login(alice)
    answer = client.get(path)
    assert answer.status_code in (400, 404)
    assert "<html" in _text(answer)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/?scope=team:%00", 200),
        ("/jobs/?scope=team:%00", 200),
        (f"/cluster/free/?need={'1' * 5000}", 200),
        ("/cluster/nodes/n1/series/?since=0001-01-01T00:00:00%2B14:00", 400),
        ("/cluster/nodes/n1/series/?since=9999-12-31T23:59:59-14:00", 400),
        ("/api/v1/costs/?from=9999-12-31T01:00:00Z&to=9999-12-31T02:00:00Z", 400),
    ],
)
def test_values_that_no_clock_or_database_takes_are_no_fault(client, root, path, status):
    scenes.build_cluster(root, nodes=1)
    client.force_login(root)
    assert client.get(path).status_code == status


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/views/save/", "team"),
        ("/teams/vision/move/", "parent"),
        ("/notifications/mute/", "subject"),
        ("/settings/preview/", "team"),
    ],
)
def test_a_null_in_a_form_is_no_fault(client, root, team, path, field):
    client.force_login(root)
    answer = client.post(path, {field: "a\x00b", "name": "x", "table": "jobs", "role": "lead"})
    assert answer.status_code == 400 and f"{field}: take the null" in _text(answer)


def test_a_refusal_says_why(client, alice):
    client.force_login(alice)
    answer = client.get(reverse("nodes:enrol"))
    assert answer.status_code == 403
    assert "Only operators enrol nodes." in _text(answer)


def test_without_its_database_a_page_is_back_soon_and_a_fault_is_ours(client, alice, monkeypatch):
    client.force_login(alice)
    client.raise_request_exception = False
    for error, status in (
        (OperationalError("the connection is closed"), 503),
        (KeyError("x"), 500),
    ):

        def fails(*_, error=error, **__):
            raise error

        monkeypatch.setattr("portal.pages.help.render", fails)
        answer = client.get(reverse("help"))
        assert (answer.status_code, answer.get("Retry-After")) == (
            status,
            "2" if status == 503 else None,
        )
        assert f"Error {status}" in _text(answer) and "Reference" in _text(answer)


def test_a_wrong_method_is_a_page_too(client, alice):
    client.force_login(alice)
    answer = client.delete(reverse("help"))
    assert answer.status_code == 405
    assert "GET" in answer["Allow"]
    assert "<html" in _text(answer)


def test_too_much_is_said_to_be_too_much(client, alice):
    client.force_login(alice)
    answer = client.post(reverse("profile"), {"display_name": "x" * (3 * 1024 * 1024)})
    assert answer.status_code == 413
    assert "2 MiB" in _text(answer)


def test_a_fault_has_a_reference_that_the_log_has_too(client, alice, monkeypatch, caplog):
    from portal.pages import home

    def broken(*args, **kwargs):
        raise RuntimeError("secret detail")

    monkeypatch.setattr(home, "home_jobs", broken)
    careful = Client(raise_request_exception=False)
    careful.force_login(alice)
    answer = careful.get("/")
    assert answer.status_code == 500
    assert "secret detail" not in _text(answer)
    reference = re.search(r"\b[0-9a-f]{12}\b", _text(answer)).group(0)
    assert reference in caplog.text


def test_a_foreign_host_is_refused(client, alice):
    client.force_login(alice)
    answer = client.get("/", HTTP_HOST="evil.example")
    assert answer.status_code == 400
    assert "evil.example" not in _text(answer)


@pytest.mark.parametrize("back", ["//evil.example", "https://evil.example", "home", "x", "", "\n"])
def test_the_theme_button_leads_home_from_anywhere_odd(client, alice, back):
    client.force_login(alice)
    answer = client.post(reverse("theme"), {"theme": "dark", "next": back})
    assert (answer.status_code, answer.url) == (302, "/")
    assert answer.cookies["theme"].value == "dark"
    assert 'data-bs-theme="dark"' in _text(client.get("/help/"))


def test_a_theme_that_does_not_exist_changes_nothing(client, alice):
    client.force_login(alice)
    client.post(reverse("theme"), {"theme": '"><script>', "next": "/help/"})
    client.cookies["theme"] = '"><script>alert(1)</script>'
    page = _text(client.get("/help/"))
    assert "<script>alert" not in page
    assert "data-bs-theme" not in page


@pytest.mark.parametrize(
    "path", ["/", "/teams/", "/settings/tokens/", "/settings/profile/", "/help/"]
)
def test_pages_obey_a_strict_policy(client, alice, path):
    client.force_login(alice)
    answer = client.get(path)
    policy = answer["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer["X-Content-Type-Options"] == "nosniff"
    page = _text(answer)
    assert not re.search(
        r"<style|\sstyle=|\son\w+=|<script(?![^>]*(\ssrc=|application/json))", page
    )
    assert not re.search(r"(src|href)=.https?://(?!testserver)", page)
