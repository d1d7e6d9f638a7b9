"""Tables in the order of a column: pages through ties, what has no value, and what is no order."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import pytest
from django.urls import reverse
from django.utils import timezone

from portal.pages import nodes as node_pages
from scheduler.models import Job
from scheduler.selectors.saved import visible_views
from scheduler.services.saved import save_view, set_default
from tests import scenes
from tests.pages.test_budgets import statements
from tests.requesting import ask

pytestmark = [pytest.mark.django_db]


@pytest.fixture
def line(root, alice, project):
    """61 jobs: of each ten the first four never started, the others start in pairs."""
    scenes.build_cluster(root)
    now = timezone.now().replace(microsecond=0)
    one = scenes.submit(alice, project)
    values = {
        f.attname: getattr(one, f.attname) for f in Job._meta.concrete_fields if f.name != "id"
    }
    jobs = Job.objects.bulk_create(
        Job(
            **values
            | {
                "gpus_per_node": 1 + n % 2,
                "started_at": now - timedelta(minutes=n // 2) if n % 10 >= 4 else None,
            }
        )
        for n in range(60)
    )
    return Job.objects.filter(pk__in=[one.pk, *(job.pk for job in jobs)])


def _walk(client, url, rows="rows"):
    """Every row of every page, as the links lead."""
    seen = []
    for _ in range(9):
        page = client.get(url)
        assert page.status_code == 200
        seen += [row.job.pk for row in page.context[rows]]
        link = re.search(r'rel="next" href="([^"]+)"(?! hidden)', page.content.decode())
        if not link or "hidden" in page.content.decode()[link.start() : link.end() + 8]:
            return seen
        url = reverse("jobs:list") + unescape(link[1])
    raise AssertionError("the pages have no end")


def _wanted(jobs, sort):
    """What the order means, said once more in plain words."""
    name, falls = sort.removeprefix("-"), sort.startswith("-")
    value = {
        "submitted": lambda j: j.pk,
        "started": lambda j: j.started_at,
        "gpus": lambda j: j.gpus,
    }
    having = [job for job in jobs if value[name](job) is not None]
    lacking = [job for job in jobs if value[name](job) is None]
    having.sort(key=lambda job: (value[name](job), job.pk), reverse=falls)
    lacking.sort(key=lambda job: job.pk, reverse=falls)
    return [job.pk for job in having + lacking]


@pytest.mark.parametrize(
    "sort", ["submitted", "-submitted", "started", "-started", "gpus", "-gpus"]
)
def test_pages_in_any_order_hold_every_job_once(client, alice, line, sort):
    client.force_login(alice)
    assert _walk(client, f"{reverse('jobs:list')}?sort={sort}&per=50") == _wanted(line, sort)


def test_the_heads_say_the_order_and_turn_it_around(client, alice, line):
    client.force_login(alice)
    page = client.get(reverse("jobs:list"), {"sort": "-gpus", "q": "user:me"}).content.decode()
    assert page.count("aria-sort") == 1 and '<th scope="col" aria-sort="descending">' in page
    assert "?sort=gpus&amp;q=user%3Ame" in page and "sort=-submitted" in page
    assert '<input type="hidden" name="sort" value="-gpus">' in page
    usual = client.get(reverse("jobs:list"), {"q": ""}).content.decode()
    assert 'class="hide-m" aria-sort="descending"' in usual


def test_live_rows_keep_the_order_and_new_jobs_are_announced(client, alice, project, line):
    client.force_login(alice)
    page = client.get(reverse("jobs:list"), {"sort": "-gpus"})
    part = unescape(re.search(r'"job-rows"[^>]+hx-get="([^"]+)"', page.content.decode())[1])
    scenes.submit(alice, project, gpus_per_node=2)
    again = client.get(reverse("jobs:list") + part)
    assert [row.job.pk for row in again.context["rows"]] == _wanted(line, "-gpus")[:50]
    assert "1 new job — show" in again.content.decode()


def test_the_file_of_a_filter_has_the_order_of_its_table(client, alice, line):
    client.force_login(alice)
    reply = client.get(reverse("jobs:list"), {"sort": "started", "part": "csv"})
    lines = b"".join(reply.streaming_content).decode().splitlines()[1:]
    assert [int(one.split(",")[0]) for one in lines] == _wanted(line, "started")


def test_a_saved_view_keeps_its_order(client, alice, line):
    client.force_login(alice)
    sent = {"table": "jobs", "name": "Largest", "query": "sort=-gpus&cursor=x"}
    assert client.post(reverse("views:save"), sent).url.endswith("?sort=-gpus")


def test_a_saved_view_of_everything_opens_beside_a_default_one(client, alice, line):
    client.force_login(alice)
    save_view(actor=alice, table="jobs", name="Mine", query="q=user%3Ame")
    set_default(actor=alice, view=visible_views(alice).get(), is_default=True)
    made = client.post(reverse("views:save"), {"table": "jobs", "name": "All", "query": ""})
    page = client.get(made.url)
    assert page.status_code == 200
    (tab,) = [tab for tab in page.context["views"].tabs if tab.view.name == "All"]
    assert tab.is_current and client.get(tab.url).status_code == 200


@pytest.mark.parametrize("wrong", ["colour", "--gpus", "-", "<b>", "submitted;", "\x00"])
def test_what_is_no_order_is_named_and_the_table_stays(client, alice, root, line, wrong):
    for who, route in (
        (alice, "jobs:list"),
        (alice, "nodes:list"),
        (alice, "requests:list"),
        (root, "approvals"),
        (root, "audit:list"),
    ):
        client.force_login(who)
        page = client.get(reverse(route), {"sort": wrong})
        assert page.status_code == 200 and "here is no order" in page.content.decode()
    assert len(client.get(reverse("audit:list"), {"sort": wrong}).context["rows"]) > 0


def test_a_place_of_another_order_is_refused_in_words(client, alice, line):
    client.force_login(alice)
    first = client.get(reverse("jobs:list"), {"sort": "-started"})
    mark = first.context["next_cursor"]
    page = client.get(reverse("jobs:list"), {"sort": "gpus", "cursor": mark})
    assert page.status_code == 200 and "cursor: is not a place" in page.content.decode()


def test_orders_cost_no_more_statements(client, alice, line):
    client.force_login(alice)
    taken = {}
    for sort in ("-submitted", "-started", "ended", "gpus"):
        client.get(reverse("jobs:list"), {"sort": sort})
        with statements() as seen:
            client.get(reverse("jobs:list"), {"sort": sort})
        taken[sort] = len(seen)
    assert len(set(taken.values())) == 1, taken


def test_nodes_by_name_state_what_is_free_and_when_they_were_heard(
    client, root, alice, project, monkeypatch
):
    cluster = scenes.build_cluster(root, nodes=4, gpus=2)
    for node, held in ((2, 2), (3, 1)):
        for _ in range(held):
            scenes.start(scenes.submit(alice, project), cluster.node(node))
    names = [node.name for node in cluster.nodes]
    monkeypatch.setattr(node_pages, "PAGE_SIZE", 2)
    client.force_login(alice)

    def walk(sort):
        seen, url = [], f"{reverse('nodes:list')}?sort={sort}"
        while True:
            page = client.get(url)
            seen += [row.view.node.name for row in page.context["rows"]]
            if not page.context["following"]:
                return seen
            link = re.search(r'rel="next" href="([^"]+)"', page.content.decode())
            url = reverse("nodes:list") + unescape(link[1])

    assert walk("-name") == names[::-1] and walk("state") == names
    assert walk("free") == [names[1], names[2], names[0], names[3]]
    assert walk("-seen") == walk("seen")[::-1]


def test_the_audit_from_its_beginning(client, root, project):
    client.force_login(root)
    newest = client.get(reverse("audit:list")).context["rows"]
    oldest = client.get(reverse("audit:list"), {"sort": "at"})
    assert len(newest) > 2
    assert [row["event"].pk for row in oldest.context["rows"]] == [
        row["event"].pk for row in newest[::-1]
    ]
    assert 'aria-sort="ascending"' in oldest.content.decode()


def test_requests_by_age_team_and_due(client, root, alice, carol, lead, project, other_project):
    first = ask(alice, project)
    second = ask(carol, other_project)
    third = ask(alice, project, pool=scenes.build_cluster(root).pool)
    client.force_login(root)

    def shown(sort):
        page = client.get(reverse("approvals"), {"sort": sort, "state": "all"})
        return [row.request.pk for row in page.context["rows"]]

    assert shown("asked") == [first.pk, second.pk, third.pk] == shown("-asked")[::-1]
    teams = sorted([(one.team.slug, one.pk) for one in (first, second, third)])
    assert shown("team") == [pk for _, pk in teams]
    assert shown("due") == shown("")
    client.force_login(alice)
    mine = client.get(reverse("requests:list"), {"sort": "asked"}).context["rows"]
    assert [one.pk for one, _ in mine] == [first.pk, third.pk]
