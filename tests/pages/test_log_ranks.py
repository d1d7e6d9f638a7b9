"""The log of all ranks by time: order, lines that came in two pieces, turning back, finding."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from portal.pages.logs import ranks
from scheduler.models import LogChunk, NodeEvent
from scheduler.selectors.printed import merging
from scheduler.states import AttemptState
from tests import scenes

pytestmark = pytest.mark.django_db
_ROW = re.compile(r"<b>(\d)</b> (\d+)</a><span>([^<]*)</span>")


@pytest.fixture
def job(root, alice, project):
    """Two ranks whose pieces came in turn, a second apart; a line of rank 0 in two of them."""
    cluster = scenes.build_cluster(root, nodes=2)
    job = scenes.submit(alice, project, nodes=2)
    attempt = scenes.start(job, *cluster.nodes)
    scenes.write_log(cluster.node(1), attempt, b"a1\na", b"2\na3 <b>x</b>\n", b"open")
    scenes.write_log(cluster.node(2), attempt, b"b1\n", b"b2 error\n", rank=1)
    began = timezone.now() - timedelta(minutes=1)
    order = [(0, 0), (1, 0), (0, 4), (1, 3), (0, 18)]
    for number, (rank, offset) in enumerate(order):
        piece = LogChunk.objects.filter(placement__rank=rank, offset=offset)
        assert piece.update(created_at=began + timedelta(seconds=number)) == 1
    return job


def lines(client, job, **query):
    page = client.get(reverse("jobs:log_ranks", args=[job.pk]), query)
    assert page.status_code == 200
    return page, _ROW.findall(page.content.decode())


def test_lines_of_all_ranks_stand_by_time(
    client, alice, job, monkeypatch, django_assert_max_num_queries
):
    client.force_login(alice)
    with django_assert_max_num_queries(25):
        page, found = lines(client, job)
    a3 = ("0", "3", "a3 &lt;b&gt;x&lt;/b&gt;")
    first, second = ("0", "1", "a1"), ("0", "2", "a2")
    assert found == [first, ("1", "1", "b1"), second, a3, ("1", "2", "b2 error")]
    assert "Earlier" not in page.content.decode() and "renewed" in page.content.decode()
    monkeypatch.setattr(ranks, "WINDOW", 2)
    page, found = lines(client, job)
    assert found == [second, a3, ("1", "2", "b2 error")], "the begin of a2 came earlier"
    before = re.search(r"before=([\d.]+)", page.content.decode())[1]
    page, found = lines(client, job, before=before)
    assert found == [first, ("1", "1", "b1")]
    assert "Latest" in page.content.decode()


def test_ranks_stand_side_by_side_in_one_span(client, alice, job, django_assert_max_num_queries):
    client.force_login(alice)
    own = f"{reverse('jobs:logs', args=[job.pk])}?attempt=1&amp;rank="
    for page in (lines(client, job)[0], client.get(reverse("jobs:logs", args=[job.pk]))):
        assert "ranks=0,1" in page.content.decode()
    with django_assert_max_num_queries(25):
        page, _ = lines(client, job, ranks="0-1", q="b2")
    text = page.content.decode()
    first, second = (one.rows for one in page.context["columns"])
    assert [re.findall(r"<span>([^<]*)<", rows) for rows in (first, second)] == [
        ["a1", "a2", "a3 &lt;b&gt;x&lt;/b&gt;"],
        ["b1", "b2 error"],
    ]
    assert f'<a href="{own}1#L2">2</a>' in second and "<b>" not in second
    assert re.findall(r'class="ln hit"[^>]*><a href="([^"]*)"', text) == [f"{own}1#L2"]
    # What renews it, and turns to earlier lines, keeps the ranks.
    assert "&amp;ranks=0,1&amp;q=b2&amp;part=rows" in text
    page, _ = lines(client, job, ranks="0,1", q="b2", part="rows")
    assert page.content.count(b"ln hit") == 1 and b"the first is" not in page.content
    # So does another attempt, and a pattern stays one.
    text = lines(client, job, ranks="0,1", q="b[0-9]", mode="regex")[0].content.decode()
    assert "&amp;q=b%5B0-9%5D&amp;mode=regex&amp;part=rows" in text
    assert 'name="mode" value="regex" checked' in text
    page, _ = lines(client, job, ranks="1")
    assert [one.placement.rank for one in page.context["columns"]] == [1]
    assert "a3" not in page.context["columns"][0].rows


def test_of_thousands_of_lines_at_once_the_last_are_shown(client, alice, job, monkeypatch):
    monkeypatch.setattr(merging, "_MOST_LINES", 2)
    monkeypatch.setattr(merging, "_LEAST_OF_RANK", 1)
    client.force_login(alice)
    page, found = lines(client, job)
    assert found == [("0", "3", "a3 &lt;b&gt;x&lt;/b&gt;"), ("1", "2", "b2 error")]
    # It is said within the first line of each rank that is shown, and leads to the rest.
    own = f"{reverse('jobs:logs', args=[job.pk])}?attempt=1&amp;rank="
    said = re.findall(r'<p class="gap">([^<]*)<a href="([^"]*)">', page.content.decode())
    assert said == [
        ("Before it 2 lines of rank 0 came in the same time: ", f"{own}0#L1"),
        ("Before it 1 line of rank 1 came in the same time: ", f"{own}1#L1"),
    ]


def test_a_text_is_found_in_its_ranks_and_wrong_values_are_said(client, alice, job):
    client.force_login(alice)
    page, _ = lines(client, job, q="error")
    search = page.context["search"]
    assert [(one.rank, one.count, one.first) for one in search.found] == [(1, 1, 2)]
    assert not search.unsearched
    strange = ("0-4", "x", "3-1", "9", "0-999999", "٣")
    for wrong in (
        *({"attempt": "9"}, {"before": "noon"}, {"before": "9e99"}, {"q": "(", "mode": "regex"}),
        *({"ranks": one} for one in strange),
    ):
        page, found = lines(client, job, **wrong)
        assert page.context["problems"] and found


def test_ranks_for_which_there_was_no_time_are_named(client, alice, job, monkeypatch):
    client.force_login(alice)
    monkeypatch.setattr(ranks, "LONGEST_S", -1.0)
    page, _ = lines(client, job, q="error")
    assert page.context["search"].unsearched == [0, 1]
    text = page.content.decode()
    assert "no time to search all of ranks 0, 1" in text and "No line matches so far." in text
    assert "No line of any rank" not in text


def test_the_silence_of_a_node_stands_among_the_lines_of_all(client, alice, job):
    """Above what came first after it; one that lasts is said below."""
    node = job.attempts.get().placements.get(rank=1).node
    last = LogChunk.objects.filter(placement__rank=1).latest("created_at")
    later = last.created_at + timedelta(seconds=30)
    assert LogChunk.objects.filter(pk=last.pk).update(created_at=later)
    for seconds, came, to in ((20, "ready", "silent"), (30, "silent", "ready")):
        NodeEvent.objects.create(
            node=node,
            at=last.created_at + timedelta(seconds=seconds),
            kind=to,
            from_state=came,
            to_state=to,
        )
    type(job.attempts.get()).objects.update(assigned_at=last.created_at - timedelta(hours=1))
    client.force_login(alice)
    text = lines(client, job)[0].content.decode()
    gap = re.search(r'<p class="gap">([^<]*)</p><a[^>]*><b>1</b> 2</a><span>b2 error', text)
    assert gap and gap[1].startswith(f"{node.name} was not heard")
    assert text.count('class="gap"') == 1 and 'class="gaps"' not in text
    beside = lines(client, job, ranks="0,1")[0]
    assert ["gap" in one.rows for one in beside.context["columns"]] == [False, True]
    NodeEvent.objects.create(
        node=node, at=timezone.now(), kind="silent", from_state="ready", to_state="silent"
    )
    text = lines(client, job)[0].content.decode()
    assert f"{node.name} (rank 1) was not heard since" in text and "has not come back" in text


def test_a_group_is_named_and_its_end_is_no_line(client, root, alice, project):
    cluster = scenes.build_cluster(root, nodes=1)
    job = scenes.submit(alice, project)
    attempt = scenes.start(job, cluster.node(1))
    scenes.write_log(cluster.node(1), attempt, b"::group::set up <b>\nready\n::endgroup::\nover\n")
    client.force_login(alice)
    page, found = lines(client, job)
    assert [words for _, _, words in found] == ["set up &lt;b&gt;", "ready", "", "over"]
    assert page.content.decode().count('<div class="ln le"') == 1


def test_what_renews_itself_says_so_no_longer_once_it_is_over(client, alice, job):
    client.force_login(alice)
    part = lines(client, job, part="rows")[0].content.decode()
    assert "renewed every few seconds" in part and "data-every-s" in part
    job.attempts.update(state=AttemptState.ENDED)
    part = lines(client, job, part="rows")[0].content.decode()
    assert "complete" in part and "renewed" not in part and "hx-get" not in part
