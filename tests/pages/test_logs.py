"""A job's log: window, lines, download; hostile bytes and wrong numbers."""

from __future__ import annotations

import pytest
from django.urls import reverse

from tests import scenes
from tests.pages.yard import LOG, build_yard

pytestmark = pytest.mark.django_db


@pytest.fixture
def yard(root, alice, project):
    return build_yard(root, alice, project)


@pytest.fixture
def long_log(yard, alice, project):
    """A running job whose rank 0 wrote 1,250 lines."""
    job = scenes.submit(alice, project, name="long")
    attempt = scenes.start(job, yard.cluster.node(1))
    scenes.sync(yard.cluster.node(1), scenes.running(attempt))
    scenes.write_log(
        yard.cluster.node(1), attempt, b"".join(b"line %d\n" % n for n in range(1, 1251))
    )
    return job


def test_page_shows_colours_and_escapes_the_rest(client, alice, yard):
    client.force_login(alice)
    text = client.get(reverse("jobs:logs", args=[yard.running.pk])).content.decode()
    assert '<span class="t-fg2">ok</span>' in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<script>alert" not in text
    assert 'id="L3"' in text


def test_download_is_every_byte_as_a_file(client, alice, yard):
    client.force_login(alice)
    page = client.get(reverse("jobs:log_download", args=[yard.running.pk]))
    assert page.getvalue() == LOG
    assert page["Content-Type"].startswith("text/plain")
    assert page["Content-Disposition"].startswith("attachment;")
    assert page["X-Content-Type-Options"] == "nosniff"


def test_opens_at_the_end_and_pages_without_a_script(client, alice, long_log):
    client.force_login(alice)
    url = reverse("jobs:logs", args=[long_log.pk])
    page = client.get(url)
    assert 'id="L1250"' in page.content.decode()
    assert 'id="L700"' not in page.content.decode()
    assert page.context["log"].follow
    earlier = client.get(page.context["log"].previous_url)
    assert 'id="L700"' in earlier.content.decode()
    assert not earlier.context["log"].follow
    assert 'id="L1250"' in client.get(earlier.context["log"].next_url).content.decode()


def test_lines_tell_where_they_stand(client, alice, long_log):
    client.force_login(alice)
    url = reverse("jobs:log_lines", args=[long_log.pk])
    page = client.get(url, {"from_line": 601, "count": 500})
    assert page.content.decode().count('<div class="ln"') == 500
    assert page.headers["X-Next-Line"] == "1101"
    assert page.headers["X-Total-Lines"] == "1250"
    assert int(page.headers["X-Log-Size"]) == sum(len(b"line %d\n" % n) for n in range(1, 1251))
    assert page.headers["X-Log-Complete"] == "false"
    beyond = client.get(url, {"from_line": 5000})
    assert (beyond.status_code, beyond.content) == (200, b"")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("from_line", "0"),
        ("from_line", "-1"),
        ("from_line", "1e9"),
        ("from_line", "9" * 30),
        ("count", "501"),
        ("count", "\uff11"),
        ("rank", "x"),
        ("attempt", "0"),
    ],
)
def test_wrong_numbers_are_named(client, alice, yard, name, value):
    client.force_login(alice)
    lines = client.get(reverse("jobs:log_lines", args=[yard.running.pk]), {name: value})
    assert lines.status_code == 400
    assert lines.content.decode().startswith(f"{name}:")
    page = client.get(reverse("jobs:logs", args=[yard.running.pk]), {name: value})
    assert page.status_code == 200
    assert any(problem.startswith(f"{name}:") for problem in page.context["problems"])


@pytest.mark.parametrize("ask", [{"attempt": 7}, {"rank": 3}])
def test_an_attempt_that_never_was(client, alice, yard, ask):
    client.force_login(alice)
    lines = client.get(reverse("jobs:log_lines", args=[yard.running.pk]), ask)
    assert lines.status_code == 404
    page = client.get(reverse("jobs:logs", args=[yard.running.pk]), ask)
    assert page.status_code == 200
    assert "no such attempt or rank" in page.content.decode()


def test_before_anything_was_placed(client, alice, yard):
    client.force_login(alice)
    text = client.get(reverse("jobs:logs", args=[yard.queued.pk])).content.decode()
    assert "The log begins when the job starts" in text
    assert client.get(reverse("jobs:log_lines", args=[yard.queued.pk])).content == b""
    assert client.get(reverse("jobs:log_download", args=[yard.queued.pk])).status_code == 404


def test_each_rank_has_its_log(client, alice, yard, project):
    job = scenes.submit(alice, project, name="gang", nodes=2)
    attempt = scenes.start(job, yard.cluster.node(1), yard.cluster.node(2))
    for rank in (0, 1):
        node = yard.cluster.node(rank + 1)
        scenes.write_log(node, attempt, b"i am rank %d\n" % rank, rank=rank)
    client.force_login(alice)
    page = client.get(reverse("jobs:logs", args=[job.pk]), {"rank": 1}).content.decode()
    assert "i am rank 1" in page and "i am rank 0" not in page
