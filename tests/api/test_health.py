"""What monitors ask."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduler.models import (
    Attempt,
    Delivery,
    Device,
    InvariantCheck,
    Job,
    Node,
    OutboundMail,
    Webhook,
)
from scheduler.selectors import health as selectors
from tests import scenes
from tests.api.conftest import problem_of

pytestmark = pytest.mark.django_db


def test_alive_says_ok(client):
    assert client.get("/healthz").content == b"ok\n"
    assert client.post("/healthz").status_code == 405


def test_ready_without_broker_is_degraded_not_unready(client, cluster):
    """The test settings' broker socket does not exist; the scenes hold the scheduler's lease."""
    reply = client.get("/readyz")
    assert reply.status_code == 200
    assert reply.json() == {
        "status": "degraded",
        "checks": {"database": "ok", "broker": "down", "scheduler": "ok"},
    }


def test_what_anybody_may_ask_costs_one_query_that_counts_nothing(
    client, cluster, django_assert_num_queries
):
    with django_assert_num_queries(1) as captured:
        assert client.get("/readyz").status_code == 200
    assert "scheduler_job" not in captured[0]["sql"]


def test_without_a_database_it_is_unready(client, monkeypatch):
    def broken(**kwargs: object) -> None:
        raise OperationalError("down")

    monkeypatch.setattr("portal.api.health.has_scheduler", broken)
    reply = client.get("/readyz")
    assert reply.status_code == 503
    assert reply.json()["status"] == "unready"
    assert selectors.has_scheduler is not broken


def test_metrics_are_for_operators(client, program, alice, operator, cluster, project):
    scenes.submit(alice, project)
    problem_of(client.get("/metrics"), 401)
    problem_of(client.get("/metrics", **program(alice).headers), 403)
    problem_of(client.get("/metrics", **program(operator, ["jobs:read"]).headers), 403)
    text = client.get("/metrics", **program(operator, ["nodes:read"]).headers).content.decode()
    assert 'trainyard_jobs{state="queued"} 1.0' in text
    assert 'trainyard_gpus_total{pool="default"} 4.0' in text
    assert 'trainyard_gpus_free{pool="default"} 4.0' in text


def gauges(reply) -> dict[str, float]:
    lines = [line for line in reply.content.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


LAGS = {
    "trainyard_oldest_queued_job_seconds": 300.0,
    "trainyard_mail_backlog_seconds": 200.0,
    "trainyard_webhook_backlog_seconds": 100.0,
    "trainyard_log_bytes_behind": 90.0,
    "trainyard_gpus_quarantined": 2.0,
    "trainyard_clock_skew_max_seconds": 7.5,
    "trainyard_invariants_broken": 3.0,
    "trainyard_node_silence_max_seconds": 50.0,
    "trainyard_attempts_unreachable": 2.0,
    "trainyard_oldest_assignment_seconds": 40.0,
}


def _some_are_away(cluster, running, assigned, now):
    """A node is silent for 50 s, and one longer that was given up; 40 s nobody takes up a job."""
    node = running.placements.get().node
    ages = {"state": "silent", "last_seen_at": now - timedelta(seconds=50)}
    Node.objects.filter(pk=node.pk).update(**ages)
    long_ago = now - timedelta(seconds=900)
    scenes.add_node(cluster, "gone", 1)
    Node.objects.filter(name="gone").update(state="lost", last_seen_at=long_ago)
    began = now - timedelta(seconds=60)
    Attempt.objects.filter(pk=running.pk).update(
        state="running", assigned_at=began, started_at=began + timedelta(seconds=8)
    )
    Attempt.objects.filter(pk=assigned.pk).update(
        state="assigned", assigned_at=now - timedelta(seconds=40), started_at=None
    )


def test_metrics_tell_what_is_behind(
    client, program, operator, alice, cluster, project, django_assert_num_queries
):
    headers = program(operator, ["nodes:read"]).headers
    # Heard in a moment, which is no silence at all.
    Node.objects.update(last_seen_at=timezone.now() + timedelta(seconds=60))
    client.get("/metrics", **headers)
    with CaptureQueriesContext(connection) as before:
        calm = gauges(client.get("/metrics", **headers))
    assert {name: calm[name] for name in LAGS} == dict.fromkeys(LAGS, 0.0)
    assert calm["trainyard_invariants_checked_timestamp_seconds"] == 0.0

    now, node = timezone.now(), cluster.node(1)
    job = scenes.submit(alice, project)
    scenes.submit(alice, project)
    attempt = scenes.start(scenes.submit(alice, project), node)
    attempt.placements.update(log_expected=100, log_size=10)
    Job.objects.filter(pk=job.pk).update(queued_at=now - timedelta(seconds=300))
    Job.objects.exclude(pk=job.pk).update(queued_at=now)
    for age, sent_at in ((200, None), (100, None), (900, now)):
        OutboundMail.objects.create(
            key=f"m{age}", person=alice, subject="a", text="a", not_before=now, sent_at=sent_at,
            created_at=now - timedelta(seconds=age),
        )  # fmt: skip
    for age, paused_at in ((100, None), (800, now)):
        hook = Webhook.objects.create(
            url=f"https://{age}.example.org", sealed=b"", since=now, created_at=now,
            paused_at=paused_at,
        )  # fmt: skip
        Delivery.objects.create(
            webhook=hook, key="d", kind="budget", body="{}", not_before=now,
            created_at=now - timedelta(seconds=age),
        )  # fmt: skip
    Device.objects.filter(node=node).update(health="quarantined")
    Node.objects.filter(pk=node.pk).update(clock_skew_s=-7.5)
    InvariantCheck.objects.create(at=now, took_s=1.0, is_whole=True, broken=3)
    _some_are_away(cluster, attempt, scenes.start(scenes.submit(alice, project), node), now)
    with django_assert_num_queries(len(before)):
        found = gauges(client.get("/metrics", **headers))
    # Ages have gone on since.
    aging = ("job_seconds", "backlog_seconds", "silence_max_seconds", "assignment_seconds")
    late = {name: 20 * name.endswith(aging) for name in LAGS}
    assert all(0 <= found[name] - figure <= late[name] for name, figure in LAGS.items()), found
    checked = found["trainyard_invariants_checked_timestamp_seconds"]
    assert checked == pytest.approx(now.timestamp(), abs=1)
    assert found["trainyard_start_delay_seconds"] == 8.0
