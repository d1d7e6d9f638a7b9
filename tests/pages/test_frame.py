"""The frame around pages: errors when everything is broken, the theme, sign-in and its mails."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.core import mail
from django.template.loader import render_to_string
from django.test import Client

from tests import factories
from tests.pages.test_matrix import people

__all__ = ["people"]

SHEETS = sorted((Path(__file__).parents[2] / "static/css").glob("*.css"))
# What is no part of pages but one page's own, by style sheet: frames, columns, lines of a log, and
# drawings that a legend beside them explains. Everything else stands in the guide.
SHOWN_ELSEWHERE = {
    "base": "clip js mono only-m only-s waittxt",
    "cluster": "chips compare differs gmap js pre roomy",
    # Marks of scripts: that there is one, that a region waits with its news; what one did just now.
    "components": "changed has-changed messages who-line",
    "forms": "big blk c2 c4 c6 mono remarks sum",
    "log": "at beside by2 by3 by4 col dur fold gaps hit l2 le lg no-lines note-line plain ranked "
    "ranks timed",
    "pages": "al fix hair k-alloc k-util map na no point scatterlayer scatterpts shapelayer when",
    "palette": "finds grow",
    "sessions": "kinds of-job of-program of-served of-session session-cards shell-cursor "
    "shell-head shell-keys shell-out shell-page shell-screen shell-view",
    "shell": "asked bell card code-no dot hot in-team links plain preview scope scopes split stick "
    "titl who",
    "small": "ask1 bulk c-gpu c-job c-prog c-st c-win c2 c4 charts fix hide-m lists na noprint "
    "only-m only-s plain ranks scope second shell-page split stick tick",
    "tables": "area b-free b-tick base big c-gpu c-job c-prog c-st c-win charts f1 f2 f3 f4 f5 f6 "
    "f7 f8 hi inv js key lbl need prog rule w50 w90 win wl",
    "work": "cardlist charts checks chips evidence filter-words gpu-map gpu-no in-team inbox keep "
    "lbl links lk low new newrow one own report scope section sq sum views why-cell why-facts",
}
# Session, burn-down, three ways to begin, to-do list, attempts.
PARTS = ('class="panel session"', "panel burn", 'class="trio"', 'class="todo"', 'class="attempts"')
# Colours of terminals; `test_front_end.py` holds each of them.
TERMINAL = re.compile(r"t-(fg|bg)\d+|t-(bold|dim|italic|underline|strike|inverse|cut)")


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
    address = re.search(rf"{settings.PUBLIC_URL}(/\S+)", letter.body)
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
    assert [part for part in PARTS if part not in html] == []
    # Every part that has a style stands there, but for what shows in its own place alone.
    shown = {word for each in re.findall(r'class="([^"]*)"', html) for word in each.split()}
    missing = {path.stem: " ".join(sorted(styled_in(path) - shown)) for path in SHEETS}
    assert {name: words for name, words in missing.items() if words} == {}
    for theme in ("light", "dark"):
        assert f'data-bs-theme="{theme}"><h3>' in html


def styled_in(path: Path) -> set[str]:
    """Classes of a style sheet that belong to parts."""
    text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    words = re.findall(r"\.([a-z][\w-]*)", re.sub(r"\{[^{}]*\}", " ", text))
    its_own = SHOWN_ELSEWHERE.get(path.stem, "").split()
    return {word for word in words if not TERMINAL.fullmatch(word)} - {*its_own}


@pytest.mark.django_db
def test_a_browser_keeps_its_habits_and_nothing_else(client: Client, alice) -> None:
    client.force_login(alice)
    page = client.get("/settings/profile/").content.decode()
    assert 'data-updates="live"' in page and "data-rail" not in page
    asked = {"updates": "manual", "rail": "narrow", "keys": "off", "next": "/queue/?pool=a"}
    answer = client.post("/settings/keys/", asked)
    assert (answer.status_code, answer["Location"]) == (302, "/queue/?pool=a")
    page = client.get("/settings/profile/").content.decode()
    assert 'data-updates="manual" data-rail="narrow"' in page and 'data-keys="off"' in page
    for wrong in ({"updates": 'x"><b>'}, {"rail": ""}, {"updates": "", "next": "//evil.example/"}):
        answer = client.post("/settings/keys/", wrong)
        assert (answer.status_code, answer["Location"]) == (302, "/settings/profile/")
    client.cookies["updates"] = 'x"><b>'
    assert 'data-updates="live" data-rail="narrow"' in client.get("/").content.decode()


@pytest.mark.django_db
def test_the_rail_names_what_there_is_for_the_viewer(client: Client, project, people) -> None:
    """Costs for who is in a team, books for who may read some, approvals for who may
    decide on requests or on cancels of many jobs."""
    places = ("usage", "finance", "approvals")
    expected = {
        "alice": {"usage"},
        "lead": {"usage", "finance", "approvals"},
        "finance": {"usage", "finance"},
        "operator": {"usage", "finance", "approvals"},
        "carol": {"usage"},
        "newcomer": set(),
        "root": {"usage", "finance", "approvals"},
    }
    everybody = {**people, "newcomer": factories.person("newcomer")}
    for who, shown in expected.items():
        client.force_login(everybody[who])
        rail = client.get("/jobs/").content.decode().partition('<main class="page"')[0]
        found = {name for name in places if f'href="/{name}/"' in rail}
        assert found == shown, who
        for name in places:
            assert client.get(f"/{name}/").status_code == 200


@pytest.mark.django_db
def test_menus_name_the_offices_that_are_open_to_the_viewer_and_no_others(
    client: Client, project, people
) -> None:
    """On the screen of a desk and on that of a phone; each that is named answers."""
    offices = {
        "/ops/users/": {"root"},
        "/settings/roles/": {"root", "operator"},
        "/audit/": {"root", "operator", "lead"},
        "/announcements/": {"root", "operator"},
        "/ops/webhooks/": {"root"},
        "/settings/preview/": {"root"},
    }
    for who, person in people.items():
        client.force_login(person)
        page = client.get("/jobs/").content.decode()
        for place, whose in offices.items():
            assert page.count(f'href="{place}"') == 2 * (who in whose), (who, place)
            if who in whose:
                assert client.get(place).status_code == 200


def test_every_page_says_where_it_is() -> None:
    """The last crumb of each is the page itself."""
    pages = sorted((Path(__file__).parents[2] / "templates").rglob("*.html"))
    for path in pages:
        text = path.read_text(encoding="utf-8")
        if '{% extends "base.html" %}' in text:
            crumbs = text.partition("{% block crumbs %}")[2].partition("{% endblock %}")[0]
            last = re.findall(r"<li>(.*?)</li>", crumbs)[-1:]
            assert last and 'aria-current="page"' in last[0], path.name
