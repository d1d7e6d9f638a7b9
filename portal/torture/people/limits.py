"""Limits that can be reached, so that somebody watches them; and what a planted bug asks for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import httpx
import psycopg

from portal.torture.program import PROJECT
from portal.torture.yard import Yard

# From the root down. The seed says which binds: those above have room, those below no quota.
_OWNERS = ("", PROJECT.partition("/")[0], PROJECT)


def prepare(yard: Yard, seed: int, sql: Sequence[str] = ()) -> None:
    """Quotas, a budget, and these statements in the database."""
    headers = {"Authorization": f"Bearer {yard.api_tokens['admin']}"}
    now, most = datetime.now(UTC), max(3, 3 * len(yard.nodes))
    with httpx.Client(base_url=f"{yard.address}/api/v1", headers=headers, timeout=60) as api:
        bound = seed % len(_OWNERS)
        for owner in _OWNERS[: bound + 1]:
            quota = {"owner": owner, "maximum": most + (owner != _OWNERS[bound])}
            api.post("/rules/quotas/", json=quota).raise_for_status()
        budget = {
            "owner": PROJECT,
            "gpu_hours": 100_000,
            "valid_from": (now - timedelta(hours=1)).isoformat(),
            "valid_until": (now + timedelta(days=2)).isoformat(),
        }
        api.post("/rules/budgets/", json=budget).raise_for_status()
    with psycopg.connect(yard.database, autocommit=True) as line:
        for statement in sql:
            line.execute(statement)
