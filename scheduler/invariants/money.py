"""Limits and what is charged: the parts of I11, I12 and I22 that rows tell at any moment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scheduler.invariants.rows import Row, Rows
from scheduler.states import END_RULES, AttemptState, EndReason


def quotas_count_what_is_held(rows: Rows) -> Iterator[str]:
    """The part of I11 about counters: each quota counts the devices held now, and what they are."""
    accounts, held = rows.by_id("account"), list(times_held(rows))
    for quota in rows.rows("quota"):
        key = accounts[quota["account_id"]]["key"]
        still = [
            one["milli"]
            for one in held
            if key in one["line"] and is_meant(quota, one) and one["released_at"] is None
        ]
        right = (quota["held"], quota["held_milli"]) == (len(still), sum(still))
        words = f"the quota of {key} counts {quota['held']} devices and not {len(still)}"
        yield "" if right else words


def is_meant(quota: Row, one: Row) -> bool:
    """Whether a quota of a pool or of a model counts this."""
    return quota["pool_id"] in (None, one["pool_id"]) and quota["gpu_model"] in ("", one["model"])


def times_held(rows: Rows) -> Iterator[dict[str, Any]]:
    """Each time a device was held: since when, until when, and for whom."""
    jobs, attempts = rows.by_id("job"), rows.by_id("attempt")
    placements, devices = rows.by_id("placement"), rows.by_id("device")
    lines = account_lines(rows)
    for row in rows.rows("allocation"):
        job = jobs[attempts[placements[row["placement_id"]]["attempt_id"]]["job_id"]]
        device = devices[row["device_id"]]
        yield {
            "acquired_at": row["acquired_at"],
            "released_at": row["released_at"],
            "line": lines[job["project_id"]],
            "pool_id": job["pool_id"],
            "model": device["model"],
            "milli": device["milli"],
        }


def account_lines(rows: Rows) -> dict[int, set[str]]:
    """The keys of each project's accounts: its own, those of its teams up to the root, the root."""
    parents = {row["id"]: row["parent_id"] for row in rows.rows("team")}
    lines = {}
    for row in rows.rows("project"):
        line, team = {"org", f"project:{row['id']}"}, row["team_id"]
        while team is not None:
            line.add(f"team:{team}")
            team = parents[team]
        lines[row["id"]] = line
    return lines


def holds_are_settled(rows: Rows) -> Iterator[str]:
    """The part of I12 about attempts: what one reserved is settled when it ends, not before."""
    attempts = rows.by_id("attempt")
    for hold in rows.rows("budgethold"):
        is_over = attempts[hold["attempt_id"]]["state"] == AttemptState.ENDED
        right = is_over == (hold["settled_at"] is not None)
        yield "" if right else f"what attempt {hold['attempt_id']} reserved was not settled once"


def prices_bound_what_is_held(rows: Rows) -> Iterator[str]:
    """The part of I12 about highest prices: no budget holds more money than such a price lets an
    attempt cost."""
    attempts, jobs = rows.by_id("attempt"), rows.by_id("job")
    for hold in rows.rows("budgethold"):
        most = jobs[attempts[hold["attempt_id"]]["job_id"]].get("max_cost_steps")
        if most is None or hold["settled_at"] is not None:
            continue
        words = f"a budget holds {hold['money']} for attempt {hold['attempt_id']}, above {most}"
        yield words if hold["money"] > most else ""


def what_is_held_is_charged(rows: Rows) -> Iterator[str]:
    """The part of I22 about attempts that have ended."""
    entries = rows.grouped("usageentry", "allocation_id")
    attempts, placements = rows.by_id("attempt"), rows.by_id("placement")
    for held in rows.rows("allocation"):
        attempt = attempts[placements[held["placement_id"]]["attempt_id"]]
        if held["released_at"] is None or attempt["state"] != AttemptState.ENDED:
            continue
        yield _charged(held, attempt, entries.get(held["id"], []))


def _charged(held: Row, attempt: Row, entries: list[Row]) -> str:
    """A held device is charged its whole seconds; an end that is not billable gives them back."""
    wanted = int(held["released_at"]) - int(held["acquired_at"])
    charged = sum(row["gpu_seconds"] for row in entries if row["kind"] == "accrual")
    given_back = -sum(row["gpu_seconds"] for row in entries if row["kind"] == "adjustment")
    if charged != wanted:
        return f"attempt {attempt['id']} held a device for {wanted} s and is charged {charged}"
    back = 0 if END_RULES[EndReason(attempt["end_reason"])].billable else wanted
    if given_back != back:
        return f"attempt {attempt['id']} got {given_back} s back and not {back}"
    return ""
