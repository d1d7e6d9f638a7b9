"""Which job, team or request a page is opened with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import connection

from accounts.models import User

_QUERIES: Mapping[str, str] = {
    "search": "q=train&part=results",
    "cluster_map": "metric=use",
    "cluster_timeline": "span=7d",
    "cluster_room": "span=7d&of=nodes",
    "jobs:change": "time_limit=2h",
    "nodes:several": "node=n00001",
    "requests:new": "owner=vision",
}
# Of jobs that wait, of jobs that have ended; all other pages of jobs are opened for one that runs.
_WAITING = ("jobs:why", "jobs:options", "jobs:quote", "jobs:before", "jobs:change")
_ENDED = ("jobs:events", "jobs:outputs")
_JOB = (
    "SELECT id FROM scheduler_job WHERE state = %s "
    "ORDER BY CASE WHEN owner_id = %s THEN 0 ELSE 1 END, id DESC LIMIT 1"
)
_TEAM = (
    "SELECT t.slug FROM accounts_team t LEFT JOIN accounts_membership m ON m.team_id = t.id "
    "ORDER BY CASE WHEN m.user_id = %s THEN 0 ELSE 1 END, t.id LIMIT 1"
)
_PROJECT = (
    "SELECT p.slug FROM accounts_project p JOIN accounts_team t ON t.id = p.team_id "
    "WHERE t.slug = %s ORDER BY p.id LIMIT 1"
)
_PLAIN = ("jobs:list", "jobs:submit", "jobs:start", "jobs:compare", "teams:list")
_FIRST: Mapping[str, str] = {
    "sets:detail": "jobset",
    "sessions:detail": "session",
    "schedules:detail": "jobschedule",
    "schedules:change": "jobschedule",
    "requests:detail": "quotarequest",
    "cancels:detail": "bulkcancel",
    "simulator:detail": "scenario",
    "finance:asset_retire": "asset",
}


def query_for(route: str, person: User) -> str:
    """What stands behind the path; often empty."""
    if route == "jobs:compare":
        return f"id={_one(_JOB, 'running', person.pk)},{_one(_JOB, 'succeeded', person.pk)}"
    return _QUERIES.get(route, "")


def numbers_for(route: str, person: User) -> dict[str, Any]:
    """The parts of the address; empty where it has none, or where there is no such thing."""
    space = route.partition(":")[0]
    if route in _PLAIN:
        return {}
    if route == "channels:detail":
        mine = "SELECT MIN(id) FROM scheduler_webhook WHERE person_id = %s"
        return _named("pk", _one(mine, person.pk))
    if route in _FIRST:
        key = "job_id" if route == "sessions:detail" else "id"
        return _named("pk", _one(f"SELECT MIN({key}) FROM scheduler_{_FIRST[route]}"))  # noqa: S608 - our own names
    if route == "finance:statement":
        return _named("number", _one("SELECT MAX(number) FROM scheduler_statement"))
    if route == "finance:report":
        return {"slug": "period-summary"}
    if space == "jobs":
        state = "queued" if route in _WAITING else "succeeded" if route in _ENDED else "running"
        return _named("pk", _one(_JOB, state, person.pk))
    if space == "teams":
        team = _one(_TEAM, person.pk)
        project = _one(_PROJECT, team) if route in ("teams:retention", "teams:idle") else None
        return {"slug": team} | _named("project", project)
    if route in ("templates:detail", "templates:version"):
        return _named("slug", _one("SELECT MIN(slug) FROM scheduler_jobtemplate"))
    if route == "users:detail":
        return {"username": person.username}
    if route in ("pools:detail", "pools:idle", "nodes:detail"):
        return {"name": "default" if space == "pools" else "n00001"}
    return {}


def _named(name: str, value: Any) -> dict[str, Any]:
    return {} if value is None else {name: value}


def _one(statement: str, *values: Any) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        row = cursor.fetchone()
        return row[0] if row else None
