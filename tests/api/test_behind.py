"""A program that is newer than its database: told as that, by every door, with what to do."""

from __future__ import annotations

import re

import pytest
from django.db import OperationalError, connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client

from portal.outages import is_database_behind
from tests.api.conftest import problem_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def behind(db):
    """As before the last migration: its column has another name, and it is not noted as run."""
    rows = MigrationRecorder.Migration.objects.filter(app="accounts")
    row = rows.latest("name")
    kept = {"app": row.app, "name": row.name, "applied": row.applied}
    row.delete()
    _rename("networks", "networks_later")
    yield
    _rename("networks_later", "networks")
    MigrationRecorder.Migration.objects.create(**kept)


def _rename(old: str, new: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE accounts_apitoken RENAME COLUMN {old} TO {new}")


def test_the_api_pages_and_monitors_say_that_it_must_be_migrated(alice, behind):
    client = Client(raise_request_exception=False)
    client.force_login(alice)
    told = client.get("/api/v1/tokens/")
    problem = problem_of(told, 503, "database_behind")
    assert "manage.py prepare" in problem["detail"] and told["Retry-After"] == "2"
    page = client.get("/settings/tokens/")
    text = re.sub(r"\s+", " ", page.content.decode())
    assert page.status_code == 503 and "manage.py prepare" in text and "Reference" in text
    assert "cannot reach its database" not in text


def test_a_fault_of_ours_and_a_busy_database_are_no_such_thing(alice):
    """Nothing is left to migrate: a table that is not there is a fault."""
    with pytest.raises(Exception, match="no_such_table") as missing, connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM no_such_table")
    assert not is_database_behind(missing.value)
    assert not is_database_behind(OperationalError("database is locked"))
    assert not is_database_behind(KeyError("no such column"))


def test_monitors_are_told(client, behind, monkeypatch):
    def broken(**_: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT networks FROM accounts_apitoken")

    monkeypatch.setattr("portal.api.health.has_scheduler", broken)
    reply = client.get("/readyz")
    assert reply.status_code == 503
    assert reply.json()["checks"]["database"] == "must be migrated: manage.py prepare"
