"""Limits that can be reached, so that somebody watches them; and what a planted bug asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import httpx
import psycopg

from portal.torture.people.budgets import Treasurer
from portal.torture.program import OTHER_PROJECT, PROJECT
from portal.torture.yard import Yard
from portal.torture.yard.pools import closed_pool

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
# What came of each due time, with its schedule as it was then, and each move of a next due time; by
# the transaction (`inside`) and as it was committed. A schedule that is deleted takes its rows with
# it, and these stay.
_REPEATED = (
    "CREATE TABLE torture_run (id bigserial PRIMARY KEY, schedule_id bigint, due_at timestamptz, "
    "by_hand boolean, at timestamptz, outcome text, job_id bigint, said text, overlap text, "
    "most_open int, late_within_s int, inside bigint, "
    "noted_at timestamptz DEFAULT clock_timestamp())",
    """CREATE FUNCTION torture_note_run() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO torture_run (schedule_id, due_at, by_hand, at, outcome, job_id, said, overlap,
    most_open, late_within_s, inside) SELECT NEW.schedule_id, NEW.due_at, NEW.by_hand, NEW.at,
    NEW.outcome, NEW.job_id, NEW.said, overlap, most_open, late_within_s, txid_current()
    FROM scheduler_jobschedule WHERE id = NEW.schedule_id; RETURN NULL; END $$""",
    "CREATE CONSTRAINT TRIGGER torture_run AFTER INSERT ON scheduler_jobschedulerun "
    "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION torture_note_run()",
    "CREATE TABLE torture_due (id bigserial PRIMARY KEY, schedule_id bigint, was timestamptz, "
    "next timestamptz, version_was int, version int, paused_at timestamptz, "
    "counted_from timestamptz, inside bigint, noted_at timestamptz DEFAULT clock_timestamp())",
    """CREATE FUNCTION torture_note_due() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF OLD.next_due_at IS DISTINCT FROM NEW.next_due_at THEN
    INSERT INTO torture_due (schedule_id, was, next, version_was, version, paused_at, counted_from,
    inside) VALUES (NEW.id, OLD.next_due_at, NEW.next_due_at, OLD.version, NEW.version,
    NEW.paused_at, NEW.counted_from, txid_current()); END IF; RETURN NULL; END $$""",
    "CREATE CONSTRAINT TRIGGER torture_due AFTER UPDATE ON scheduler_jobschedule "
    "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION torture_note_due()",
)


def prepare(yard: Yard, seed: int, sql: Sequence[str] = ()) -> Treasurer:
    """Quotas, budgets, what the harness notes in the database, and these statements there.

    Who keeps the budgets at a few jobs.
    """
    headers = {"Authorization": f"Bearer {yard.api_tokens['admin']}"}
    most, treasurer = max(3, 3 * len(yard.nodes)), Treasurer(yard, seed)
    with httpx.Client(base_url=f"{yard.address}/api/v1", headers=headers, timeout=60) as api:
        bound = seed % len(_OWNERS)
        quotas: list[dict[str, Any]] = [
            {"owner": owner, "maximum": most + (owner != _OWNERS[bound])}
            for owner in _OWNERS[: bound + 1]
        ]
        for quota in (*quotas, *_of_pools(yard.pools, seed)):
            api.post("/rules/quotas/", json=quota).raise_for_status()
    treasurer.begin()
    with psycopg.connect(yard.database, autocommit=True) as line:
        for statement in (*_BOOKED, *_REPEATED, *sql):
            line.execute(statement)
    return treasurer


def _of_pools(sizes: Mapping[str, int], seed: int) -> Iterator[dict[str, Any]]:
    """Of each of several pools somebody else by the seed may hold five GPUs for two nodes, which
    binds where more than the usual share of jobs comes; the last one is closed to a project."""
    if not closed_pool(sizes):
        return
    for number, (pool, nodes) in enumerate(sizes.items()):
        owner = _OWNERS[(seed + number) % len(_OWNERS)]
        yield {"owner": owner, "pool": pool, "maximum": max(3, 5 * nodes // 2)}
    yield {"owner": OTHER_PROJECT, "pool": closed_pool(sizes), "maximum": 0}
