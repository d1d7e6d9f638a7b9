"""Retry rules over REST: written, refused, told of, and tried without starting anything."""

from __future__ import annotations

import pytest

from scheduler.models import Job
from scheduler.states import EndReason
from tests.api.conftest import problem_of
from tests.scenes import ended, running, start, sync

pytestmark = pytest.mark.django_db

YAML = b"""
name: train
project: %s
command: python train.py
retry_rules:
- exit=75,77:3:wait=1m..10m
- {signal: SEGV, max: 1}
- log: "a: b"
  action: stop
"""


def test_rules_are_written_as_lines_or_objects_and_read_back(program, alice, project, cluster):
    caller = program(alice)
    raw = YAML % project.path.encode()
    made = caller.post("/jobs/", raw, content_type="application/yaml")
    assert made.status_code == 201, made.content
    assert made.json()["spec"]["retry_rules"] == [
        {"exit": "75,77", "max": 3, "wait": "1m..10m"},
        {"signal": "SIGSEGV", "max": 1},
        {"log": "a: b", "action": "stop"},
    ]


def test_the_rule_that_acted_is_told_and_rules_are_tried(program, alice, finance, spec, cluster):
    caller = program(alice)
    number = caller.post("/jobs/", spec | {"retry_rules": ["exit=75:2:wait=1h"]}).json()["id"]
    job = Job.objects.get(pk=number)
    attempt = start(job, cluster.node(1))
    sync(cluster.node(1), running(attempt))
    sync(cluster.node(1), ended(attempt, reason=EndReason.EXIT_CODE, exit_code=75))
    told = caller.get(f"/jobs/{number}/").json()
    assert told["wait"]["reason"] == "retry_pause"
    assert told["triage"]["then"] == "rule"
    assert told["triage"]["rule"] == {
        "number": 1, "why": "exit code 75", "does": "retry", "max": 2, "try": 1}  # fmt: skip
    why = caller.get(f"/jobs/{number}/why/").json()
    assert why["sentence"].endswith("after a wait of 1 h; rule 1: exit code 75.")
    (item,) = caller.get(f"/jobs/{number}/attempts/").json()["items"]
    assert "Rule 1 (exit code 75) tries it again, 1 of 2." in item["end_sentence"]
    path = f"/jobs/{number}/retry-rules/"
    (own,) = caller.post(path, {}).json()["items"]
    assert (own["attempt"], own["rule"], own["action"]) == (1, 1, "retry")
    (other,) = caller.post(path, {"retry_rules": ["exit=1:1", "exit=75:stop"]}).json()["items"]
    assert (other["rule"], other["action"]) == (2, "stop")
    refused = problem_of(caller.post(path, {"retry_rules": ["exit=0:1"]}), 422)
    assert refused["errors"][0]["field"] == "retry_rules"
    assert "rule 1: '0' is no exit code" in refused["errors"][0]["message"]
    problem_of(program(finance).post(path, {}), 403)
    problem_of(caller.post("/jobs/987654/retry-rules/", {}), 404)
