"""What comes with the row of a job or node equals what is read by itself."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduler.models import Attempt, Node, NodeEvent
from scheduler.selectors.cluster import get_visible_node
from scheduler.selectors.inbox import calls_along, calls_for, keep_calls
from scheduler.selectors.jobs import attempts_of
from scheduler.selectors.one_job.header import job_with_header
from scheduler.selectors.one_job.tries import read_devices
from scheduler.selectors.printed import progress
from scheduler.selectors.printed.progress import pieces_telling, progress_of
from scheduler.selectors.printed.silences import Silence, silences_of
from scheduler.selectors.printed.windows import pieces_of_window, read_lines
from scheduler.states import EndReason
from tests import scenes
from tests.requesting import ask

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(root, alice, project):
    """Two attempts on two nodes each; the second runs, its first node was silent twice."""
    now = timezone.now().replace(microsecond=120)
    cluster = scenes.build_cluster(root, nodes=2)
    job = scenes.submit(alice, project, nodes=2, retries=1)
    first = scenes.start(job, *cluster.nodes, now=now - timedelta(hours=2))
    ends = [
        scenes.ended(first, rank=rank, reason=EndReason.EXIT_CODE, exit_code=3) for rank in range(2)
    ]
    for node, end in zip(cluster.nodes, ends, strict=True):
        scenes.sync(node, end, now=now - timedelta(hours=1))
    job.refresh_from_db()
    second = scenes.start(job, *reversed(cluster.nodes), now=now)
    told = {"triage": {"signature": 'ü \\ "', "evidence": []}, "code_patch": "diff --git"}
    Attempt.objects.filter(pk=second.pk).update(started_at=now, **told)
    at = second.placements.get(rank=0).node_id
    moves = ["silent", "ready", "lost"]
    for number, (begin, end) in enumerate(zip(["ready", *moves], moves, strict=False)):
        NodeEvent.objects.create(
            node_id=at,
            at=now + timedelta(minutes=number),
            kind="moved",
            from_state=begin,
            to_state=end,
        )
    return job


def values(row):
    """Every column but the patch, of which no more than its first sign comes along."""
    fields = [field.attname for field in row._meta.concrete_fields]
    return {name: getattr(row, name) for name in fields if name != "code_patch"}


def test_attempts_and_silences_come_with_the_row_of_the_job(alice, job):
    with CaptureQueriesContext(
        connection,
    ) as asked:
        header = job_with_header(alice, job.pk, tries=True, silences=True, calls=False)
        read_devices(header.attempts)
        found = header.attempts
        got = [[values(one) for one in attempt.placements.all()] for attempt in found]
        names = [[one.node.name for one in attempt.placements.all()] for attempt in found]
        held = [
            [values(each) for one in attempt.placements.all() for each in one.allocations.all()]
            for attempt in found
        ]
    wanted = list(attempts_of(alice, job))
    assert [values(one) for one in found] == [values(one) for one in wanted]
    assert [bool(one.code_patch) for one in found] == [False, True]
    assert found[1].triage["signature"] == 'ü \\ "'
    for place, attempt in enumerate(wanted):
        its = list(attempt.placements.all())
        assert got[place] == [values(one) for one in its] and len(its) == 2
        assert names[place] == [one.node.name for one in its]
        assert held[place] == [values(each) for one in its for each in one.allocations.all()]
    silent = silences_of(wanted[1].placements.all()[0])
    assert header.silences == silent and [one.until is None for one in silent] == [False, True]
    assert isinstance(silent[0], Silence)
    rights = [one for one in asked if "auth_" in one["sql"] or "accounts_" in one["sql"]]
    assert len(asked) - len(rights) <= 2


def test_pieces_that_were_read_together_tell_what_each_reader_finds(alice, job, monkeypatch):
    monkeypatch.setattr(progress, "READ_BYTES", 40)
    attempt = job.attempts.get(number=2)
    placement = attempt.placements.get(rank=0)
    node = Node.objects.get(pk=placement.node_id)
    pieces = [b"step %d/100\nmore of it\nand a l" % number for number in range(9)]
    scenes.write_log(node, attempt, *pieces)
    placement.refresh_from_db()
    now = timezone.now()
    for first, count in ((1, 2), (4, 3), (15, 60)):
        window = pieces_of_window(placement, first, count)
        together = pieces_telling(placement, window)
        read = read_lines(placement, from_line=first, count=count, pieces=together)
        assert read == read_lines(placement, from_line=first, count=count) and read.raw
        found = progress_of(placement, now=now, pieces=together)
        assert found == progress_of(placement, now=now) and found.done == 8


def test_what_calls_for_a_person_comes_with_the_row(alice, lead, project, job):
    ask(alice, project, now=timezone.now())
    own = calls_for(lead)
    node = get_visible_node(lead, "n1", **calls_along(lead))
    assert own.requests == 1
    keep_calls(lead, node)
    with CaptureQueriesContext(connection) as asked:
        assert calls_for(lead) == own
    assert len(asked) == 0
    job_with_header(lead, job.pk)
    ask(alice, project.team, now=timezone.now())
    assert calls_for(lead) == own, "as it was when the page's row was read"
    assert calls_for(lead).requests == 2, "and once alone"
