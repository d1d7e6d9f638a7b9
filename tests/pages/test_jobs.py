"""The pages of jobs: happy path first, stranger second, then bad input."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from scheduler.models import Attempt
from scheduler.states import JobState
from tests import scenes
from tests.pages.yard import build_yard

pytestmark = pytest.mark.django_db

DETAIL_TABS = ("detail", "why", "events", "metrics", "spec", "cost", "logs")


@pytest.fixture
def yard(root, alice, project):
    return build_yard(root, alice, project)


def test_owner_sees_every_tab_of_every_job(client, alice, yard):
    client.force_login(alice)
    for job in (yard.running, yard.queued, yard.held, yard.succeeded, yard.failed):
        for tab in DETAIL_TABS:
            page = client.get(reverse(f"jobs:{tab}", args=[job.pk]))
            assert page.status_code == 200, (tab, job.name)
            if tab != "why":
                assert job.name in page.content.decode()


@pytest.mark.parametrize("part", ["head", "live", "side"])
def test_parts_are_fragments(client, alice, yard, part):
    client.force_login(alice)
    url = reverse("jobs:detail", args=[yard.running.pk])
    page = client.get(url, {"part": part, "attempt": yard.attempt.pk}, HTTP_HX_REQUEST="true")
    assert page.status_code == 200
    assert "<html" not in page.content.decode()
    assert "HX-Refresh" not in page.headers


def test_a_new_attempt_asks_for_a_new_page(client, alice, yard):
    client.force_login(alice)
    url = reverse("jobs:detail", args=[yard.running.pk])
    assert client.get(url, {"part": "live", "attempt": ""}).headers["HX-Refresh"] == "true"


def test_a_log_opened_before_the_start_begins_and_a_later_attempt_is_offered(client, alice, yard):
    client.force_login(alice)
    waits, runs = (reverse("jobs:detail", args=[job.pk]) for job in (yard.queued, yard.running))
    opened = client.get(reverse("jobs:logs", args=[yard.queued.pk])).content.decode()
    assert f'hx-get="{waits}?part=head&amp;tab=logs&amp;attempt=0"' in opened
    ask = {"part": "head", "tab": "logs"}
    assert "HX-Refresh" not in client.get(waits, ask | {"attempt": "0"}).headers
    assert client.get(runs, ask | {"attempt": "0"}).headers["HX-Refresh"] == "true"
    for known in ("1", "2", "no-number", ""):
        head = client.get(runs, ask | {"attempt": known})
        assert head.status_code == 200 and "HX-Refresh" not in head.headers
        assert "began." not in head.content.decode(), known
    Attempt.objects.filter(pk=yard.attempt.pk).update(number=2)
    for tab in ("logs", "metrics"):
        head = client.get(runs, ask | {"attempt": "1", "tab": tab}).content.decode()
        assert "Attempt 2 began." in head
        assert f'href="{reverse(f"jobs:{tab}", args=[yard.running.pk])}">Show it' in head
        # It goes on to know what it was opened with.
        assert f"tab={tab}&amp;attempt=1" in head


def test_jobs_are_counted_in_words_of_their_number(client, alice, yard, monkeypatch):
    client.force_login(alice)
    one, all_ = reverse("jobs:list") + "?q=state:held", reverse("jobs:list")
    assert "1 job, filtered" in client.get(one).content.decode()
    assert "5 jobs" in client.get(all_).content.decode()
    monkeypatch.setattr("scheduler.selectors.tables.totals.COUNTED_AT_MOST", 2)
    assert "more than 2 jobs" in client.get(all_).content.decode()


def test_what_would_help_is_a_page_and_a_list(client, alice, yard):
    client.force_login(alice)
    wide = scenes.submit(alice, yard.queued.project, nodes=2, gpus_per_node=2)
    url = reverse("jobs:options", args=[wide.pk])
    assert url in client.get(reverse("jobs:detail", args=[wide.pk])).content.decode()
    whole = client.get(url).content.decode()
    part = client.get(url, {"part": "answer"}).content.decode()
    for text in (whole, part):
        assert "Free GPUs" in text
        assert "Held by, until" in text
    assert "<html" in whole
    assert "<html" not in part
    held = client.get(reverse("jobs:options", args=[yard.held.pk])).content.decode()
    assert "does not wait for the scheduler" in held


def test_stranger_gets_the_404_of_a_missing_job(client, carol, yard):
    client.force_login(carol)
    for tab in (*DETAIL_TABS, "series", "log_lines", "log_download"):
        foreign = client.get(reverse(f"jobs:{tab}", args=[yard.running.pk]))
        missing = client.get(reverse(f"jobs:{tab}", args=[yard.running.pk + 10_000]))
        assert foreign.status_code == missing.status_code == 404, tab
        assert foreign.content == missing.content.replace(
            str(yard.running.pk + 10_000).encode(), str(yard.running.pk).encode()
        )
    for action in ("cancel", "hold", "release"):
        assert client.post(reverse(f"jobs:{action}", args=[yard.queued.pk])).status_code == 404
    yard.queued.refresh_from_db()
    assert yard.queued.state == JobState.QUEUED
    assert "running" not in [row.job.name for row in client.get("/jobs/").context["rows"]]


def test_anonymous_is_sent_to_sign_in(client, yard):
    for name in ("list", "submit"):
        page = client.get(reverse(f"jobs:{name}"))
        assert page.status_code == 302
        assert reverse("account_login") in page.url


def test_finance_sees_cost_but_neither_log_nor_spec(client, finance, yard):
    client.force_login(finance)
    assert client.get(reverse("jobs:cost", args=[yard.succeeded.pk])).status_code == 200
    assert client.get(reverse("jobs:detail", args=[yard.running.pk])).status_code == 200
    for tab in ("logs", "spec", "log_lines", "log_download"):
        assert client.get(reverse(f"jobs:{tab}", args=[yard.running.pk])).status_code == 403, tab


def test_why_panel_says_the_engines_own_figures(client, alice, yard):
    client.force_login(alice)
    text = client.get(reverse("jobs:why", args=[yard.queued.pk])).content.decode()
    assert "Needs 1 GPU; 0 of 4 GPUs in pool default are free." in text
    assert "GPUs in the pool" in text
    assert "Place in default" in text


def test_cost_lines_tie_to_the_total(client, alice, yard):
    client.force_login(alice)
    cost = client.get(reverse("jobs:cost", args=[yard.succeeded.pk])).context["cost"]
    assert cost.cost == sum(line.cost for line in cost.lines) > 0
    assert cost.gpu_seconds == sum(line.gpu_seconds for line in cost.lines) == 92


HOSTILE = (
    "\u202egpj.exe",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{7*7}}",
    "{% debug %}",
    "👨‍👩‍👧‍👦 family",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_shown_as_text(client, alice, project, yard, name):
    job = scenes.submit(alice, project, name=name)
    client.force_login(alice)
    pages = [
        reverse("jobs:list"),
        reverse("jobs:detail", args=[job.pk]),
        reverse("jobs:spec", args=[job.pk]),
        reverse("jobs:submit") + f"?clone={job.pk}",
        reverse("queue:list"),
    ]
    for url in pages:
        text = client.get(url).content.decode()
        assert "<script>alert" not in text
        assert "<img src=x" not in text
        title = text.partition("<title>")[2].partition("</title>")[0]
        assert "\u202e" not in title
    assert '<bdi class="name">' in client.get(pages[1]).content.decode()


def test_buttons_move_the_job_and_say_so(client, alice, yard):
    client.force_login(alice)
    client.post(reverse("jobs:hold", args=[yard.queued.pk]))
    yard.queued.refresh_from_db()
    assert yard.queued.state == JobState.HELD
    client.post(reverse("jobs:release", args=[yard.queued.pk]))
    yard.queued.refresh_from_db()
    assert yard.queued.state == JobState.QUEUED
    page = client.post(reverse("jobs:cancel", args=[yard.queued.pk]), follow=True)
    yard.queued.refresh_from_db()
    assert yard.queued.state == JobState.CANCELLED
    assert f"Job #{yard.queued.pk} is cancelled." in page.content.decode()
    page = client.post(reverse("jobs:hold", args=[yard.queued.pk]), follow=True)
    assert "Only a queued job can be held" in page.content.decode()


def test_list_filters_by_its_words(client, alice, yard):
    client.force_login(alice)

    def names(query):
        return {r.job.name for r in client.get("/jobs/", {"q": query}).context["rows"]}

    assert names("") == {"running", "queued", "held", "done", "broken"}
    assert names("state:running") == {"running"}
    assert names("state:waiting user:me") == {"queued", "held"}
    assert names("team:vision broken") == {"broken"}
    assert names("team:speech") == set()
    assert names(f"#{yard.failed.pk}") == {"broken"}
    assert {r.job.name for r in client.get("/jobs/?state=held").context["rows"]} == {"held"}


@pytest.mark.parametrize(
    "query",
    [
        "state:dancing",
        "state:",
        "user:<script>",
        "created:soon",
        "state:held state:held",
        "x" * 600,
    ],
)
def test_wrong_filters_are_a_page_with_a_word(client, alice, yard, query):
    client.force_login(alice)
    page = client.get("/jobs/", {"q": query})
    assert page.status_code == 200
    assert page.context["problems"]
    assert "<script>" not in page.content.decode().replace("<script src=", "").replace(
        "<script defer", ""
    )


def test_unknown_parameters_are_ignored_with_a_notice(client, alice, yard):
    client.force_login(alice)
    page = client.get("/jobs/", {"flavour": "x"})
    assert page.status_code == 200
    assert "Not known here" in page.content.decode()
    assert len(page.context["rows"]) == 5


@pytest.mark.parametrize("cursor", ["zzz", "YmVmb3JlOi0x", "9" * 400, "\x00"])
def test_a_cursor_that_is_not_ours_is_named(client, alice, yard, cursor):
    client.force_login(alice)
    page = client.get("/jobs/", {"cursor": cursor})
    assert page.status_code == 200
    assert page.context["problems"]


def test_list_pages_and_announces_new_jobs(client, alice, project, yard):
    for number in range(60):
        scenes.submit(alice, project, name=f"more-{number}")
    client.force_login(alice)
    first = client.get("/jobs/")
    second = client.get("/jobs/", {"cursor": first.context["next_cursor"]})
    shown = [row.job.pk for page in (first, second) for row in page.context["rows"]]
    assert len(shown) == len(set(shown)) == 65
    scenes.submit(alice, project, name="newest")
    again = client.get(
        "/jobs/", {"top": first.context["top"], "part": "rows"}, HTTP_HX_REQUEST="true"
    )
    text = again.content.decode()
    assert "1 new job — show" in text
    assert "newest" not in text
    assert [r.job.pk for r in again.context["rows"]] == shown[:50]
    older = text.partition('rel="next" href="')[2].partition('"')[0]
    assert "cursor=" in older and "part=" not in older and "top=" not in older


def test_queries_do_not_grow_with_rows(client, alice, project, yard):
    client.force_login(alice)

    def count(url):
        client.get(url)
        with CaptureQueriesContext(connection) as seen:
            assert client.get(url).status_code == 200
        return len(seen)

    few = {url: count(url) for url in ("/jobs/", "/queue/", "/cluster/nodes/", "/usage/")}
    for number in range(45):
        scenes.submit(alice, project, name=f"more-{number}")
    for number in range(3, 13):
        scenes.add_node(yard.cluster, f"n{number}", 2)
    assert {url: count(url) for url in few} == few
    assert few["/jobs/"] <= 16


def test_an_empty_list_stays_a_fragment_and_then_shows_the_first_job(client, alice, root, project):
    client.force_login(alice)
    page = client.get("/jobs/").content.decode()
    assert "Nothing has run yet" in page and "part=rows" in page
    part = client.get("/jobs/", {"top": "", "part": "rows"}).content.decode()
    assert "<html" not in part and "Nothing has run yet" in part
    scenes.build_cluster(root)
    scenes.submit(alice, project, name="first")
    assert "first" in client.get("/jobs/", {"top": "", "part": "rows"}).content.decode()


def test_a_filter_as_a_file_has_all_its_jobs_and_no_formula(client, alice, yard, project):
    scenes.submit(alice, project, name="=cmd()")
    client.force_login(alice)
    url = reverse("jobs:list")
    page = client.get(url, {"part": "csv", "q": "state:waiting", "per": "100"})
    lines = page.getvalue().decode("utf-8-sig").splitlines()
    assert lines[0].startswith("number,name,state")
    assert [line.split(",")[1] for line in lines[1:]] == ["'=cmd()", "held", "queued"]
    assert client.get(url, {"per": "100"}).context["per"] == 100
    wrong = client.get(url, {"per": "7"})
    assert wrong.status_code == 200 and "per: choose" in wrong.content.decode()
