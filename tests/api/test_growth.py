"""REST asks as much of the database with many rows of every kind as with few, and stays as small.

What is read comes from the schema, so that no operation is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from portal.api.docs import schema
from scheduler.models import ReportFile
from tests.pages.filling import LEFT_EMPTY, fill
from tests.pages.growing import Growth
from tests.pages.test_budgets import statements
from tests.pages.test_growth import FEW, MANY
from tests.pages.test_matrix import people, things

__all__ = ["people", "things"]
pytestmark = [pytest.mark.django_db, pytest.mark.once, pytest.mark.timeout(600)]
WHO = ("alice", "lead", "root")
# About a KiB a row of the longest parts.
MOST_BYTES = 200 * 1024
# What an address names where it is not the thing that has this word.
NAMED = {
    "/bookings/{id}/": {"id": "booking"},
    "/bulk-cancels/{id}/": {"id": "bulk_cancel"},
    "/channels/{id}/": {"id": "channel"},
    "/finance/files/{id}/": {"id": "file"},
    "/finance/reports/{slug}/": {"slug": "report"},
    "/finance/reports/{slug}/file/": {"slug": "report"},
    "/jobs/{id}/": {"id": "running", "other": "queued", "number": "output"},
    "/jobs/{id}/attempts/{number}/": {"number": "attempt"},
    "/nodes/{name}/": {"name": "node"},
    "/pools/{name}/": {"name": "pool"},
    "/requests/{id}/": {"id": "asked"},
    "/schedules/{id}/": {"id": "schedule"},
    "/sessions/{id}/": {"id": "session"},
    "/sets/{id}/": {"id": "job_set"},
    "/simulator/{id}/": {"id": "scenario"},
    "/teams/{slug}/": {"slug": "team"},
    "/templates/{slug}/": {"slug": "template"},
    "/users/{username}/": {"username": "somebody"},
}
ASKING = {"reports_rows": "?period=2026-11", "reports_file": "?period=2026-11&format=csv"}
# The document does not depend on rows; of a job's past a file is asked for, up to 20 000 lines.
UNBOUNDED = {"schema_read", "simulator_trace"}
# Lists of what the code knows, or that have as many rows as a job has cards.
FIXED = {"reports_list", "request_policies_list", "notification_settings", "jobs_samples"}


def reads() -> dict[str, tuple[str, Any]]:
    """Address and description of every operation that reads, by its name."""
    found = schema()["paths"].items()
    return {
        ways["get"]["operationId"]: (path, ways["get"]) for path, ways in found if "get" in ways
    }


def addresses(world: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, (path, _) in reads().items():
        short = path.removeprefix("/api/v1")
        words = {**world}
        for begin, named in NAMED.items():
            if short.startswith(begin):
                words |= {word: world[thing] for word, thing in named.items()}
        yield name, path.format(**words) + ASKING.get(name, "")


@pytest.fixture
def world(people, things, project):
    """The pieces of addresses, where there is a row of everything."""
    fill(people, things, project)
    return {**things, "file": ReportFile.objects.get(asked_by=people["root"]).pk}


def test_no_read_asks_more_or_grows_without_end_with_rows(client, people, world):
    growth, asked, wrong, answered = Growth(), {}, [], set()
    assert growth.empty <= LEFT_EMPTY
    for rows in (FEW, MANY):
        growth.to(rows)
        for name, path in addresses(world):
            for who in WHO:
                client.force_login(people[who])
                with statements() as seen:
                    answer = client.get(path)
                    size = len(answer.getvalue())
                if answer.status_code in (403, 404):
                    continue
                answered.add(name)
                usual = asked.setdefault((name, who), len(seen))
                is_small = size <= MOST_BYTES or name in UNBOUNDED
                # Files that nobody has made yet are a conflict.
                is_there = answer.status_code in (200, 409)
                if not is_there or len(seen) > usual or not is_small:
                    wrong.append((name, who, rows, answer.status_code, usual, len(seen), size))
    assert wrong == []
    assert set(reads()) - answered == set()


def test_every_list_leads_on_to_what_does_not_fit_an_answer():
    shapes = schema()["components"]["schemas"]
    wrong = []
    for name, (_, about) in reads().items():
        reply = about["responses"]["200"].get("content", {}).get("application/json", {})
        shape = shapes.get(reply.get("schema", {}).get("$ref", "").rpartition("/")[2], {})
        fields = shape.get("properties", {})
        if "items" not in fields or name in FIXED:
            continue
        asked = {one["name"] for one in about["parameters"] if one["in"] == "query"}
        if not ({"limit", "cursor"} <= asked and "next_cursor" in fields):
            wrong.append(name)
    # These two go on from a name or a number, as they always did.
    assert wrong == ["audit_list", "users_list"]


def test_parts_of_a_list_are_the_list(client, people, world):
    """Each list in short parts has the rows it has as a whole, in its order and each once."""
    Growth().to(FEW)
    walked = 0
    for name, path in addresses(world):
        if "cursor" not in str(reads()[name][1].get("parameters", "")):
            continue
        for who in WHO:
            client.force_login(people[who])
            answer = client.get(path)
            if answer.status_code in (403, 404):
                continue
            whole = [told(row) for row in rows_of(answer.json())]
            assert walk(client, path) == whole, (name, who)
            walked += len(whole) > 4
    assert walked > 60


def walk(client: Client, path: str) -> list[object]:
    found, cursor = [], ""
    while cursor is not None:
        page = client.get(path, {"limit": "4", **({"cursor": cursor} if cursor else {})}).json()
        rows = rows_of(page)
        assert len(rows) <= 4
        found += [told(row) for row in rows]
        cursor = page["next_cursor"]
    return found


def rows_of(page: dict[str, Any]) -> list[dict[str, Any]]:
    """Of a template its versions come in parts."""
    return page["items"] if "items" in page else page["versions"]


def told(row: dict[str, Any]) -> object:
    """What tells rows apart: times until now pass while the list is read."""
    names = ("id", "number", "position", "key", "slug", "path", "name", "owner", "pool", "month")
    return tuple(row.get(name) for name in names)
