"""Limits that can be reached, so that somebody watches them; and what a planted bug asks for."""

from __future__ import annotations

from collections.abc import Sequence

import httpx
import psycopg

from portal.torture.people.budgets import Treasurer
from portal.torture.program import PROJECT
from portal.torture.yard import Yard

# From the root down. The seed says which binds: those above have room, those below no quota.
_OWNERS = ("", PROJECT.partition("/")[0], PROJECT)


# Where each booking was and since when: the scheduler moves them, and a row knows the last place.
_BOOKED = (
    "CREATE TABLE torture_booked (id bigserial PRIMARY KEY, booking_id bigint, node_ids jsonb, "
    "at timestamptz DEFAULT clock_timestamp())",
    """CREATE FUNCTION torture_note_booked() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO torture_booked (booking_id, node_ids) VALUES (NEW.id, NEW.node_ids);
    RETURN NULL; END $$""",
    # As it is committed: a fault may hold it up before that.
    "CREATE CONSTRAINT TRIGGER torture_booked AFTER INSERT OR UPDATE OF node_ids "
    "ON scheduler_booking DEFERRABLE INITIALLY DEFERRED FOR EACH ROW "
    "EXECUTE FUNCTION torture_note_booked()",
)


def prepare(yard: Yard, seed: int, sql: Sequence[str] = ()) -> Treasurer:
    """Quotas, budgets, what the harness notes in the database, and these statements there.

    Who keeps the budgets at a few jobs.
    """
    headers = {"Authorization": f"Bearer {yard.api_tokens['admin']}"}
    most, treasurer = max(3, 3 * len(yard.nodes)), Treasurer(yard, seed)
    with httpx.Client(base_url=f"{yard.address}/api/v1", headers=headers, timeout=60) as api:
        bound = seed % len(_OWNERS)
        for owner in _OWNERS[: bound + 1]:
            quota = {"owner": owner, "maximum": most + (owner != _OWNERS[bound])}
            api.post("/rules/quotas/", json=quota).raise_for_status()
    treasurer.begin()
    with psycopg.connect(yard.database, autocommit=True) as line:
        for statement in (*_BOOKED, *sql):
            line.execute(statement)
    return treasurer
