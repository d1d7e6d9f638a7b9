"""What `bench agents` counts: nodes that were away for a while, and all jobs beside them."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from portal.bench.load.agents import READ
from portal.bench.load.throughput import jobs_in
from scheduler.models import Node, NodeEvent, Pool
from scheduler.states import NodeState

UP_AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.django_db
def test_a_node_that_was_silent_and_came_back_counts(monkeypatch, capsys):
    pool = Pool.objects.create(name="default")
    nodes = [
        Node.objects.create(name=name, pool=pool, state=state)
        for name, state in (
            ("sim-0", NodeState.READY),
            ("sim-1", NodeState.READY),
            ("real", NodeState.SILENT),
        )
    ]
    for node, after_s, state in (
        *((nodes[0], -5, NodeState.SILENT), (nodes[0], -1, NodeState.READY)),
        *((nodes[1], 5, NodeState.SILENT), (nodes[1], 9, NodeState.READY)),
        (nodes[2], 5, NodeState.SILENT),
    ):
        at = UP_AT + timedelta(seconds=after_s)
        NodeEvent.objects.create(node=node, at=at, kind="moved", to_state=state)
    monkeypatch.setattr(sys, "argv", ["-c", str(UP_AT.timestamp())])
    monkeypatch.setattr("django.setup", lambda: None)
    exec(compile(READ, "READ", "exec"), {})
    assert capsys.readouterr().out == "1\n"


def test_jobs_of_all_pages_are_counted():
    pages = {"": {"items": [{}] * 200, "next_cursor": "b"}, "b": {"items": [{}], "next_cursor": ""}}

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=pages[request.url.params.get("cursor", "")])

    with httpx.Client(base_url="http://x", transport=httpx.MockTransport(answer)) as api:
        assert len(list(jobs_in(api, "succeeded"))) == 201
