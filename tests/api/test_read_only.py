"""A database that takes no writes for now: tried again later, at each of the doors."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from django.db import connection
from django.urls import reverse

from scheduler.models import Job
from tests import scenes
from tests.api.conftest import problem_of
from tests.api.test_agent import REQUEST, call, enrolled, refusal

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["enrolled"]


@contextmanager
def read_only():
    """As after a failover to a replica, or a disk that was remounted."""
    postgres = ("SET default_transaction_read_only = on", "SET default_transaction_read_only = off")
    sqlite = ("PRAGMA query_only = ON", "PRAGMA query_only = OFF")
    begin, end = postgres if connection.vendor == "postgresql" else sqlite
    with connection.cursor() as cursor:
        cursor.execute(begin)
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(end)


def test_nothing_is_written_and_everybody_may_try_again(client, program, alice, project, enrolled):
    node, secret = enrolled
    job = scenes.submit(alice, project)
    document = {"name": "late", "project": project.path, "script": "true"}
    headers = program(alice).headers
    client.force_login(alice)
    client.raise_request_exception = False
    with read_only():
        reply = client.post("/api/v1/jobs/", document, content_type="application/json", **headers)
        problem_of(reply, 503, "database_busy")
        assert reply["Retry-After"]
        page = client.post(reverse("jobs:cancel", args=[job.pk]))
        assert (page.status_code, page["Retry-After"]) == (503, "2")
        # The last one: a node's call gives its connection back.
        refusal(call(client, "/sync", REQUEST, secret), 503, "unavailable")
    assert list(Job.objects.values_list("pk", flat=True)) == [job.pk]
    assert (
        client.post(
            "/api/v1/jobs/", document, content_type="application/json", **headers
        ).status_code
        == 201
    )
    assert call(client, "/sync", REQUEST, secret).status_code == 200
    assert node.pk
