"""Callers that lie about who, where and when they are: nothing of it is believed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from django.utils import timezone

from accounts.models import AuditEvent
from scheduler.models import Job, Node
from scheduler.states import AttemptState, NodeState
from scheduler.wire.codec import decode
from scheduler.wire.messages import AttemptReport, SyncReply
from tests import scenes
from tests.api.conftest import fields_of, problem_of
from tests.api.test_agent import REQUEST, call, enrolled

__all__ = ["enrolled"]

pytestmark = pytest.mark.django_db
ROOT = Path(__file__).resolve().parents[2]


def test_an_address_that_the_caller_names_is_not_recorded(client, alice):
    """B53: only the proxy's own word counts, and uvicorn reads it before us."""
    client.force_login(alice)
    body = {"name": "ci", "scopes": ["jobs:read"], "expires_in_days": 1}
    spoof = {"HTTP_X_FORWARDED_FOR": "203.0.113.66", "HTTP_X_REAL_IP": "203.0.113.66"}
    made = client.post("/api/v1/tokens/", body, content_type="application/json", **spoof)
    assert made.status_code == 201
    assert AuditEvent.objects.get(action="token.issue").ip == "127.0.0.1"


def test_the_proxy_names_the_address_and_lets_slow_senders_go():
    """B44, B53: by nginx, which stands before every portal that is not on one machine."""
    text = (ROOT / "deploy/nginx.conf").read_text()
    assert "proxy_set_header X-Forwarded-For $remote_addr;" in text
    assert "client_header_timeout 15s;" in text and "client_body_timeout 30s;" in text


def test_thousands_of_filters_are_refused(program, alice):
    """B46."""
    query = "&".join(f"f{number}=1" for number in range(5000))
    problem_of(program(alice).get(f"/jobs/?{query}"), 400)
    many = "&".join("state=queued" for _ in range(500))
    assert fields_of(problem_of(program(alice).get(f"/jobs/?{many}"), 400)) == {"state"}


@pytest.mark.parametrize(
    "labels",
    [
        {f"k{number}": "x" for number in range(10_000)},
        {"k" * 1024: "x"},
        {"platform/gpu": "x"},
        {"k": "x" * 1000},
        {"k": "a\nb"},
        ["k"],
    ],
    ids=range(6),
)
def test_odd_labels_are_named(program, alice, cluster, spec, labels):
    """B67."""
    reply = program(alice).post("/jobs/", {**spec, "labels": labels})
    assert fields_of(problem_of(reply, 422)) == {"labels"} and not Job.objects.exists()


@pytest.mark.parametrize(
    "field", ["image", "mounts", "ports", "template", "priority", "volumes", "secret"]
)
def test_what_jobs_do_not_have_is_refused_by_name(program, alice, cluster, spec, field):
    """B61, B62, B70: no images, mounts or ports, so no way round their rules."""
    reply = program(alice).post("/jobs/", {**spec, field: "x"})
    assert fields_of(problem_of(reply, 400)) == {field} and not Job.objects.exists()


@pytest.mark.parametrize("text", ["(a%2B)%2B$", "[", "%25_%27%22", "(" * 200])
def test_what_looks_like_a_pattern_is_plain_text(program, alice, cluster, spec, text):
    """B56, B57: names take no regular expressions; logs do: tests/pages/test_log_search."""
    caller = program(alice)
    caller.post("/jobs/", {**spec, "name": "a" * 100})
    assert caller.get(f"/jobs/?text={text}").json()["items"] == []


def test_a_search_for_100_kb_is_refused(program, alice):
    """B58."""
    problem_of(program(alice).get(f"/jobs/?text={'x' * 100_000}"), 400)


def test_a_clock_in_1970_takes_the_node_out_and_changes_no_time(client, enrolled):
    """B80."""
    node, secret = enrolled
    before = timezone.now()
    assert call(client, "/sync", replace(REQUEST, sent_at=0.0), secret).status_code == 200
    node = Node.objects.get(pk=node.pk)
    assert (node.state, node.trouble) == (NodeState.QUARANTINED, "clock_skew")
    assert before <= node.last_seen_at <= timezone.now()


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ({"exit_code": 2**31}, {"exit_code": 2**31 - 1}),
        ({"exit_code": -(2**63) + 1}, {"exit_code": 1 - 2**31}),
        ({"log_size": -1}, {"log_expected": 0}),
        ({"master_port": 2**40}, {"attempt__master_port": None}),
        ({"master_port": -1}, {"attempt__master_port": None}),
        ({"resumed_from": "/x", "resumed_step": -1}, {"attempt__resume_step": None}),
    ],
)
def test_an_impossible_number_costs_no_node_its_call(
    client,
    enrolled,
    alice,
    project,
    said,
    kept,
):
    """B96: what else it says of that attempt, and of its others, is taken in."""
    node, secret = enrolled
    attempt = scenes.start(scenes.submit(alice, project), node)
    other = scenes.start(scenes.submit(alice, project), node)
    report = AttemptReport(fence=attempt.pk, rank=0, state=AttemptState.ENDED, **said)
    reports = (report, AttemptReport(fence=other.pk, rank=0, state=AttemptState.ENDED))
    reply = call(client, "/sync", replace(REQUEST, reports=reports), secret)
    assert reply.status_code == 200, reply.content
    assert set(decode(SyncReply, reply.content).forget) == {attempt.pk, other.pk}
    assert attempt.placements.values(*kept).get() == kept
    assert attempt.placements.get().ended_at and other.placements.get().ended_at
