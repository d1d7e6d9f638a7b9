"""`/audit/`: pages, wishes, addresses and refusals."""

from __future__ import annotations

import pytest

from accounts.services import rename_team
from accounts.services.audit import Subject, record

pytestmark = pytest.mark.django_db


@pytest.fixture
def story(root, lead, operator, team):
    """A few events."""
    rename_team(actor=lead, team=team, name="Seeing")
    record(operator, "node.drain", Subject("node", "7", "gpu-07"), after={"state": "drained"})


def test_the_list_over_rest_pages_and_refuses(program, root, lead, alice, story):
    caller = program(root)
    first = caller.get("/audit/?limit=2").json()
    assert len(first["items"]) == 2 and first["next_after"]
    second = caller.get(f"/audit/?limit=2&after={first['next_after'].replace('+', '%2B')}").json()
    assert {e["id"] for e in first["items"]}.isdisjoint(e["id"] for e in second["items"])
    (drain,) = caller.get("/audit/?object=node:7").json()["items"]
    assert (drain["actor"], drain["after"]) == ("operator", {"state": "drained"})
    hers = program(lead).get("/audit/").json()["items"][0]
    assert hers["ip"] is hers["user_agent"] is None
    assert drain["user_agent"] == ""
    assert program(alice).get("/audit/").status_code == 403
    assert program(root, ["jobs:read"]).get("/audit/").status_code == 403
    assert caller.get("/audit/?from=x").status_code == 400
    assert caller.get("/audit/?limit=0").status_code == 400
