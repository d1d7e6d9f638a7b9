"""The frame around pages: errors when everything is broken, the theme, sign-in and its mails."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.core import mail
from django.template.loader import render_to_string
from django.test import Client

from tests import factories

HOST = "http://testserver"
PARTS = (Path(__file__).parents[2] / "static/css/components.css").read_text(encoding="utf-8")
# Marks of scripts: that there is one, that a region waits with its news; and what one did just now.
SHOWN_ELSEWHERE = {"js", "changed", "has-changed", "messages"}


@pytest.mark.parametrize("status", [500, 503])
def test_the_last_pages_need_nothing(status: int) -> None:
    """No request, no user, no database: pytest-django refuses any query here."""
    html = render_to_string(f"errors/{status}.html", {"reference": "abc123"})
    assert f"Error {status}" in html
    assert "abc123" in html
    assert 'href="/"' in html


@pytest.mark.parametrize("status", [400, 403, 404, 405, 413, 429])
def test_error_pages_say_what_the_view_said(status: int, rf) -> None:
    html = render_to_string(f"errors/{status}.html", {"detail": "Only <leads>."}, rf.get("/x"))
    assert f"Error {status}" in html
    assert "Only &lt;leads&gt;." in html or status in {404, 405}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("cookie", "attribute"),
    [
        ("dark", 'data-bs-theme="dark"'),
        ("light", 'data-bs-theme="light"'),
        ('x"><b>', ""),
        ("", ""),
    ],
)
def test_the_theme_is_set_by_the_server(client: Client, cookie: str, attribute: str) -> None:
    client.cookies["theme"] = cookie
    head = client.get("/accounts/login/").content.decode().partition("<head>")[0]
    assert (attribute in head) if attribute else ("data-bs-theme" not in head)


@pytest.mark.django_db
def test_a_forgotten_password_is_set_anew_by_mail(client: Client) -> None:
    user = factories.person("zoe")
    user.email = "zoe@example.org"
    user.save()
    client.post("/accounts/password/reset/", {"email": "zoe@example.org"})
    (letter,) = mail.outbox
    assert letter.subject == "Trainyard: Set a new password"
    address = re.search(rf"{HOST}(\S+)", letter.body)
    assert address is not None
    page = client.get(address[1], follow=True)
    fields = {"password1": "correct-horse-7", "password2": "correct-horse-7"}
    done = client.post(page.request["PATH_INFO"], fields, follow=True)
    assert "Password set" in done.content.decode()
    user.refresh_from_db()
    assert user.check_password("correct-horse-7")
    again = Client().get(address[1], follow=True).content.decode()
    assert "This link is used up" in again


@pytest.mark.django_db
def test_a_reset_never_tells_whether_an_address_is_known(client: Client) -> None:
    factories.person("zoe")
    answer = client.post("/accounts/password/reset/", {"email": "nobody@example.org"}, follow=True)
    assert "If the address belongs to an account" in answer.content.decode()
    assert mail.outbox[-1].subject == "Trainyard: No account with this address"


@pytest.mark.django_db
def test_a_refused_sign_in_keeps_the_name_and_names_the_remedy(client: Client) -> None:
    answer = client.post("/accounts/login/", {"login": "zoe", "password": "wrong"})
    html = answer.content.decode()
    assert "Not signed in." in html
    assert 'value="zoe"' in html
    assert 'value="wrong"' not in html


@pytest.mark.django_db
def test_sign_up_is_closed(client: Client) -> None:
    html = client.get("/accounts/signup/").content.decode()
    assert "No sign-up here" in html
    assert "<form" not in html


@pytest.mark.django_db
def test_the_style_guide_is_for_staff_and_whole(client: Client) -> None:
    client.force_login(factories.person("zoe"))
    assert client.get("/styleguide/").status_code == 404
    client.force_login(factories.person("root", is_superuser=True))
    html = client.get("/styleguide/").content.decode()
    for part in ("st-running", "figure class", "data-log", "form-errors", 'class="pager"'):
        assert part in html, part
    # Every part that has a style stands there, but for what shows in its own place alone.
    shown = {word for each in re.findall(r'class="([^"]*)"', html) for word in each.split()}
    styled = set(re.findall(r"\.([a-z][\w-]*)", re.sub(r"\{[^{}]*\}", " ", PARTS)))
    assert sorted(styled - shown - SHOWN_ELSEWHERE) == []
