"""A job's log: window, lines, download; hostile bytes and wrong numbers."""

from __future__ import annotations

import gzip
from datetime import timedelta

import pytest
from django.core.files.storage import default_storage
from django.urls import reverse
from django.utils import timezone

from scheduler.models import Attempt, LogChunk, NodeEvent
from scheduler.services.logs import append_log, finish_undrained
from scheduler.states import EndReason
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


def test_a_piece_that_the_store_has_lost_is_a_gap_and_no_error(client, alice, yard):
    client.force_login(alice)
    pk, attempt = yard.running.pk, yard.running.attempts.get()
    for piece in LogChunk.objects.filter(placement__attempt=attempt):
        default_storage.delete(piece.path)
    page = client.get(reverse("jobs:logs", args=[pk]))
    assert page.status_code == 200 and "[trainyard]" in page.content.decode()
    whole = client.get(reverse("jobs:log_download", args=[pk])).getvalue()
    assert len(whole) == len(LOG) and whole != LOG
    assert client.get(f"/api/v1/jobs/{pk}/log/").status_code == 200


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


def test_of_a_gang_that_waits_each_rank_has_a_log_to_come(client, alice, yard, project):
    gang = scenes.submit(alice, project, name="gang", nodes=2)
    client.force_login(alice)
    text = client.get(reverse("jobs:logs", args=[gang.pk]), {"rank": 1}).content.decode()
    assert "The log begins when the job starts" in text and "no such attempt" not in text
    assert client.get(reverse("jobs:log_lines", args=[gang.pk]), {"rank": 1}).content == b""
    assert client.get(reverse("jobs:log_lines", args=[gang.pk]), {"rank": 2}).status_code == 404


def test_each_rank_has_its_log(client, alice, yard, project):
    job = scenes.submit(alice, project, name="gang", nodes=2)
    attempt = scenes.start(job, yard.cluster.node(1), yard.cluster.node(2))
    for rank in (0, 1):
        node = yard.cluster.node(rank + 1)
        scenes.write_log(node, attempt, b"i am rank %d\n" % rank, rank=rank)
    client.force_login(alice)
    page = client.get(reverse("jobs:logs", args=[job.pk]), {"rank": 1}).content.decode()
    assert "i am rank 1" in page and "i am rank 0" not in page


def write_on(node, attempt, *pieces):
    for piece in pieces:
        size = attempt.placements.get().log_size
        append_log(node=node, fence=attempt.pk, rank=0, offset=size, body=piece, now=scenes.NOON)


def find(client, job, **ask):
    return client.get(reverse("jobs:log_find", args=[job.pk]), ask)


def test_finds_over_the_whole_log_and_its_pieces(client, alice, yard, long_log):
    """Line 1251 is begun in one piece and ended in another."""
    attempt = long_log.attempts.get()
    write_on(yard.cluster.node(1), attempt, b"a Needle in ", b"two pieces\nthe rest")
    client.force_login(alice)
    assert find(client, long_log, q="needle in two").json()["lines"] == [1251]
    assert find(client, long_log, q="NEEDLE").json()["lines"] == []
    assert find(client, long_log, q="rest").json()["lines"] == []
    answer = find(client, long_log, q=r"^line 12?00$", mode="regex").json()
    assert answer == {"lines": [100, 1200], "next_line": 0, "note": "", "total_lines": 1251}
    on = find(client, long_log, q="line 12", from_line=1201).json()["lines"]
    assert on == list(range(1201, 1251))


@pytest.mark.parametrize(
    "ask", [{"q": "x" * 201}, {"q": "(", "mode": "regex"}, {"q": "x", "mode": "glob"}]
)
def test_what_cannot_be_searched_is_said(client, alice, yard, ask):
    client.force_login(alice)
    answer = find(client, yard.running, **ask)
    assert answer.status_code == 400
    assert answer.content.decode().startswith(("q:", "mode:"))


def test_packed_and_raw_are_every_byte_too(client, alice, yard):
    client.force_login(alice)
    url = reverse("jobs:log_download", args=[yard.running.pk])
    assert gzip.decompress(client.get(url, {"kind": "gz"}).getvalue()) == LOG
    raw = client.get(url, {"kind": "raw"})
    assert raw.getvalue() == LOG
    assert raw["Content-Disposition"].startswith("inline;")
    assert (raw["X-Content-Type-Options"], raw["Content-Type"][:10]) == ("nosniff", "text/plain")
    assert client.get(url, {"kind": "exe"}).status_code == 400


def test_a_failed_job_opens_where_it_failed(client, alice, yard, long_log):
    attempt = long_log.attempts.get()
    size = attempt.placements.get().log_size
    scenes.sync(
        yard.cluster.node(1),
        scenes.ended(
            attempt,
            reason=EndReason.EXIT_CODE,
            exit_code=1,
            log_size=size,
        ),
    )
    evidence = [{"rank": 0, "line": 300, "text": "boom"}]
    Attempt.objects.filter(pk=attempt.pk).update(triage={"evidence": evidence})
    client.force_login(alice)
    page = client.get(reverse("jobs:logs", args=[long_log.pk]))
    text = page.content.decode()
    assert 'data-error="300"' in text
    assert 'id="L280"' in text and 'id="L279"' not in text


def test_lines_tell_when_they_came_and_when_nobody_was_heard(client, alice, yard, long_log):
    attempt = long_log.attempts.get()
    write_on(yard.cluster.node(1), attempt, b"later\n")
    hour = timezone.now() + timedelta(hours=1)
    LogChunk.objects.filter(first_line=1251).update(created_at=hour)
    for kind, came, to in (("silent", "ready", "silent"), ("back", "silent", "ready")):
        NodeEvent.objects.create(
            node=attempt.placements.get().node, at=hour, kind=kind, from_state=came, to_state=to
        )
    client.force_login(alice)
    text = client.get(reverse("jobs:logs", args=[long_log.pk])).content.decode()
    assert f'id="L1251" data-t="{int(hour.timestamp())}"' in text
    assert f'id="L1250" data-t="{int(hour.timestamp())}"' not in text
    # In the list, and at the place where it is: within the line that came after it.
    assert text.count("was not heard") == 2
    gap = f'id="L1251" data-t="{int(hour.timestamp())}"><p class="gap">'
    assert gap in text and '0 bytes were lost</p><a href="#L1251" ' in text
    lines = reverse("jobs:log_lines", args=[long_log.pk])
    assert client.get(lines, {"from_line": 1200}).content.decode().count('<p class="gap">') == 1
    assert b"gap" not in client.get(lines, {"from_line": 1200, "count": 51}).content


def test_who_was_never_heard_again_has_no_line_after_it(client, alice, yard, long_log):
    node = long_log.attempts.get().placements.get().node
    NodeEvent.objects.create(
        node=node, at=timezone.now(), kind="silent", from_state="ready", to_state="silent"
    )
    client.force_login(alice)
    text = client.get(reverse("jobs:logs", args=[long_log.pk])).content.decode()
    assert "has not come back" in text and 'class="gap"' not in text


def test_groups_and_long_lines_can_be_opened(client, alice, yard, long_log):
    attempt = long_log.attempts.get()
    body = b"::group::set <up>\nin it\n::endgroup::\n" + b"y" * 20_000 + b"\n"
    write_on(yard.cluster.node(1), attempt, body)
    client.force_login(alice)
    url = reverse("jobs:log_lines", args=[long_log.pk])
    text = client.get(url, {"from_line": 1251}).content.decode()
    assert '<button type="button" class="fold">set &lt;up&gt;</button>' in text
    assert 'class="ln le" id="L1253"' in text
    assert text.count("y" * 8192) == 1 and 'class="lnk whole"' in text
    whole = client.get(url, {"from_line": 1254, "whole": 1}).content.decode()
    assert "y" * 20_000 in whole and "whole" not in whole


def test_the_end_that_never_came_is_told_of(client, alice, yard, project):
    """A node whose disk stayed full counts what it could not write."""
    job = scenes.submit(alice, project, name="cut")
    node = yard.cluster.node(1)
    attempt = scenes.start(job, node)
    scenes.write_log(node, attempt, b"one\n")
    now = timezone.now()
    scenes.sync(node, scenes.ended(attempt, log_size=1004), now=now)
    client.force_login(alice)
    url = reverse("jobs:logs", args=[job.pk])
    assert "did not arrive" not in client.get(url).content.decode()  # it may still be on its way
    finish_undrained(now=now + timedelta(hours=1))
    text = client.get(url).content.decode()
    assert "The last 1000 bytes of this log did not arrive." in text
    assert ", its end is missing" in text and ", complete" not in text
    text = client.get(reverse("jobs:events", args=[job.pk])).content.decode()
    assert "The end of a log did not arrive" in text


def test_of_a_log_that_came_whole_nothing_is_missing(client, alice, yard, project):
    job = scenes.submit(alice, project, name="whole")
    node = yard.cluster.node(1)
    attempt = scenes.start(job, node)
    scenes.write_log(node, attempt, b"one\n")
    scenes.sync(node, scenes.ended(attempt, log_size=4))
    client.force_login(alice)
    text = client.get(reverse("jobs:logs", args=[job.pk])).content.decode()
    assert "did not arrive" not in text and ", complete" in text
