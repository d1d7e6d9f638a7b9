"""A log of 1 GiB on disk, searched and read through the pages: bounded in time and memory (B59)."""

from __future__ import annotations

import hashlib
import time
import tracemalloc

import pytest
from django.core.files.storage import default_storage
from django.urls import reverse

from portal.pages.logs.finding import LONGEST_S, MOST_LINES
from scheduler.models import LogChunk
from scheduler.wire.messages import MAX_LOG_CHUNK
from tests import scenes

pytestmark = [pytest.mark.django_db, pytest.mark.once, pytest.mark.timeout(240)]

PIECES = 1024
LINE = b"step 000001 loss 0.123456 lr 0.0003 tokens/s 48210 grad 1.00\x1b[32m ok\x1b[0m\n"
# More than one answer may take: a busy machine, and the block that was under way.
SLACK_S = 6.0


def large(cluster, alice, project, settings, tmp_path, piece):
    """A running job whose rank 0 wrote this piece 1 024 times; on disk it lies once, for all."""
    settings.MEDIA_ROOT = str(tmp_path)
    job = scenes.submit(alice, project, name="large")
    node = cluster.node(1)
    attempt = scenes.start(job, node)
    scenes.sync(node, scenes.running(attempt))
    assert len(piece) == MAX_LOG_CHUNK
    scenes.write_log(node, attempt, piece)
    first, lines = LogChunk.objects.get(), piece.count(b"\n")
    assert default_storage.size(first.path) == len(piece)
    LogChunk.objects.bulk_create(
        LogChunk(
            placement_id=first.placement_id, offset=number * len(piece), size=len(piece),
            first_line=1 + number * lines, lines=lines, path=first.path,
            digest=hashlib.sha256(piece).hexdigest(),
        )
        for number in range(1, PIECES)
    )  # fmt: skip
    attempt.placements.update(log_size=PIECES * len(piece), log_lines=PIECES * lines)
    return job


@pytest.fixture
def ask(client, alice):
    """Searches in time: what came of it."""
    client.force_login(alice)

    def asked(job, **query):
        began = time.monotonic()
        reply = client.get(reverse("jobs:log_find", args=[job.pk]), query)
        assert reply.status_code == 200, reply.content
        assert time.monotonic() - began < LONGEST_S + SLACK_S
        return reply.json()

    return asked


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root)


LINES = (LINE * (MAX_LOG_CHUNK // len(LINE) + 1))[: MAX_LOG_CHUNK - 1] + b"\n"


@pytest.fixture
def ordinary(cluster, alice, project, settings, tmp_path):
    return large(cluster, alice, project, settings, tmp_path, LINES)


@pytest.mark.parametrize("pattern", [".*", "^", "(.*)*", "(a*)*$", "[^x]"])
def test_what_matches_everything_ends_after_so_many_lines(ordinary, ask, pattern):
    found = ask(ordinary, q=pattern, mode="regex")
    assert found["lines"] == list(range(1, MOST_LINES + 1))
    assert found["next_line"] == MOST_LINES + 1
    # In the midst of it the next ones, as fast.
    middle = found["total_lines"] // 2
    found = ask(ordinary, q=pattern, mode="regex", from_line=middle)
    assert found["lines"][0] == middle and len(found["lines"]) == MOST_LINES


def test_what_is_nowhere_is_looked_for_in_steps_that_go_on(ordinary, ask):
    line = 1
    for _ in range(3):
        found = ask(ordinary, q="loss (9.9|nan)", mode="regex", from_line=line)
        assert found["lines"] == []
        if not found["next_line"]:
            return
        assert found["next_line"] > line
        line = found["next_line"]


def test_of_all_that_is_searched_little_is_held(ordinary, client, alice):
    client.force_login(alice)
    tracemalloc.start()
    try:
        query = {"q": "loss (9.9|nan)", "mode": "regex"}
        assert client.get(reverse("jobs:log_find", args=[ordinary.pk]), query).status_code == 200
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 32 * 2**20


@pytest.mark.parametrize("byte", [b"\0", b"a", b"\n", b"\r", b"\x1b"])
def test_a_log_of_one_byte_a_thousand_million_times_ends_in_time(
    cluster, alice, project, settings, tmp_path, ask, byte
):
    """One line of 1 GiB, or a thousand million of none; who goes on comes to an end."""
    job = large(cluster, alice, project, settings, tmp_path, byte * MAX_LOG_CHUNK)
    found = ask(job, q="x$", mode="regex")
    assert found["lines"] == []
    if byte != b"\n":
        assert found["next_line"] in (0, 2)
        # What was left out is said.
        assert bool(found["next_line"]) == ("line 1 is too long" in found["note"])
        assert ask(job, q="x$", mode="regex", from_line=2)["next_line"] == 0
    found = ask(job, q="(x|.*)*", mode="regex")
    assert len(found["lines"]) <= MOST_LINES
    assert found["next_line"] > max([1, *found["lines"]]) or found["next_line"] == 0
