"""What monitors ask."""

from __future__ import annotations

import pytest
from django.db import OperationalError

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
