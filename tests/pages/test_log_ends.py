"""What a log shows of itself at its odd ends: behind long lines, without a line end, pruned."""

from __future__ import annotations

import pytest
from django.urls import reverse

from scheduler.models import Attempt
from scheduler.states import EndReason
from tests import scenes

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root)


def test_the_end_of_a_log_shows_behind_a_bar_of_progress(client, alice, cluster, project):
    """100 lines, a bar of some MiB, the last words: none of it is lost on the way to them."""
    job = scenes.submit(alice, project, name="bar")
    node = cluster.node(1)
    attempt = scenes.start(job, node)
    scenes.sync(node, scenes.running(attempt))
    bar = b"".join(b"\r%3d%% %s" % (part // 300, b"#" * 100) for part in range(30_001))
    text = b"line\n" * 100 + bar + b"\n" + b"".join(b"tail %d\n" % n for n in range(1, 21))
    mib = 1024 * 1024
    scenes.write_log(node, attempt, *(text[at : at + mib] for at in range(0, len(text), mib)))
    client.force_login(alice)
    for page in ("jobs:logs", "jobs:detail"):
        shown = client.get(reverse(page, args=[job.pk])).content.decode()
        assert ">tail 1<" in shown and ">tail 20<" in shown
    lines = reverse("jobs:log_lines", args=[job.pk])
    above = client.get(lines, {"before": 102})
    assert above.headers["X-First-Line"] == "101" and "100% #" in above.content.decode()
    assert client.get(lines, {"before": 101}).content.decode().count('<div class="ln"') == 100
    assert "tail 20" in client.get(lines, {"before": 2**53 - 1}).content.decode()
    reply = client.get(lines, {"before": 5, "from_line": 3})
    assert reply.status_code == 400 and reply.content.startswith(b"before: ")
    reply = client.get(f"/api/v1/jobs/{job.pk}/log/", {"tail": 60}).json()
    assert reply["lines"] == [f"tail {n}" for n in range(1, 21)] and reply["first_line"] == 102
    scenes.sync(node, scenes.ended(attempt, reason=EndReason.EXIT_CODE, exit_code=1))
    evidence = [{"rank": 0, "line": 105, "text": "tail 4"}]
    Attempt.objects.filter(pk=attempt.pk).update(triage={"evidence": evidence})
    shown = client.get(reverse("jobs:detail", args=[job.pk])).content.decode()
    assert 'id="L105"' in shown


def test_a_search_counts_a_last_line_without_its_end(client, alice, cluster, project):
    """Or who goes on from the last hit is sent to search on for ever."""
    job = scenes.submit(alice, project, name="no-end")
    node = cluster.node(1)
    attempt = scenes.start(job, node)
    scenes.sync(node, scenes.running(attempt))
    size = scenes.write_log(node, attempt, b"a\nb\na")
    client.force_login(alice)
    url = reverse("jobs:log_find", args=[job.pk])
    found = client.get(url, {"q": "a"}).json()
    assert (found["lines"], found["total_lines"]) == ([1], 2)
    scenes.sync(node, scenes.ended(attempt, log_size=size))
    found = client.get(url, {"q": "a"}).json()
    assert (found["lines"], found["next_line"], found["total_lines"]) == ([1, 3], 0, 3)


def test_a_log_that_is_no_longer_kept_is_none_that_never_was(client, alice, cluster, project):
    job = scenes.submit(alice, project, name="old")
    node = cluster.node(1)
    attempt = scenes.start(job, node)
    scenes.sync(node, scenes.running(attempt))
    size = scenes.write_log(node, attempt, b"once\n")
    scenes.sync(node, scenes.ended(attempt, log_size=size))
    attempt.placements.update(log_pruned_at=scenes.at(90), log_size=0, log_lines=0)
    client.force_login(alice)
    download = reverse("jobs:log_download", args=[job.pk])
    for page in ("jobs:logs", "jobs:detail", "jobs:log_ranks"):
        text = client.get(reverse(page, args=[job.pk])).content.decode()
        assert "This log is no longer kept." in text
        assert "No output yet" not in text and download not in text
    assert client.get(download).status_code == 404
