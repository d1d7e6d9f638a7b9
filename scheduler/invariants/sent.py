"""What leaves the house or is let in: logs (I17, I18), what secrets are in it (I19), the outbox
(I21), revoked tokens (I25)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from scheduler.invariants.rows import Row, Rows

REVOKED_WITHIN_S = 10.0


def logs_touch(rows: Rows) -> Iterator[str]:
    """The part of I17 about rows: the pieces of a log touch and are as much as is acknowledged."""
    pieces = rows.grouped("logchunk", "placement_id")
    for placement in rows.rows("placement"):
        if placement.get("log_pruned_at") is None:
            yield pieces_touch(placement, pieces.get(placement["id"], []))


def pieces_touch(placement: Row, pieces: list[Row]) -> str:
    """The words of a hole or a double in one log, empty where there is none."""
    place, at = f"rank {placement['rank']} of attempt {placement['attempt_id']}", 0
    for row in sorted(pieces, key=lambda row: row["offset"]):
        if row["offset"] != at:
            return f"{place}: its log has a hole or a double at byte {at}"
        at += row["size"]
    return "" if at == placement["log_size"] else f"{place}: {at} of {placement['log_size']} bytes"


def pieces_are_ones_own(rows: Rows) -> Iterator[str]:
    """The part of I18 about rows: a piece lies where logs of its own attempt and rank do, and is
    the piece of one log."""
    ranks = rows.by_id("placement")
    owners: dict[str, int] = {}
    for piece in rows.rows("logchunk"):
        rank = ranks[piece["placement_id"]]
        place = f"rank {rank['rank']} of attempt {rank['attempt_id']}"
        own = f"/{rank['attempt_id']}/{rank['rank']}/" in piece["path"]
        twice = owners.setdefault(piece["path"], rank["id"]) != rank["id"]
        words = f"a piece of the log of {place} is another log's as well" if twice else ""
        yield words if own else f"a piece of the log of {place} lies with another attempt's"


# What is written of a job beside its logs, and what of it a program or a node may have put there.
_TOLD = (
    ("jobevent", "job_id", ("detail",)),
    ("attempt", "job_id", ("end_facts", "triage", "checkpoint_problem", "resume_problem")),
)


def secrets_are_not_told(rows: Rows) -> Iterator[str]:
    """The part of I19 about rows: what a job was handed is in none of its events, reasons and
    evidence. The words name the place alone."""
    needles = rows.grouped("needle", "job_id")
    if not needles:
        return
    jobs = {attempt["id"]: attempt["job_id"] for attempt in rows.rows("attempt")}
    texts = [
        (f"{table} {row['id']}", row[owner], [row[column] for column in columns])
        for table, owner, columns in _TOLD
        for row in rows.rows(table)
    ]
    for row in rows.rows("placement"):
        texts.append((f"placement {row['id']}", jobs[row["attempt_id"]], [row["detail"]]))
    for place, job, values in texts:
        if job in needles:
            text = json.dumps(values, ensure_ascii=False)
            shown = any(needle["value"] in text for needle in needles[job])
            yield f"{place} of job {job} shows a secret" if shown else ""


def outbox_is_worked_off(rows: Rows, *, now: float, late_s: float) -> Iterator[str]:
    """The part of I21 about rows: what is due is sent or given up after tries, and told once.

    What is called sent was taken by its receiver. A key is what receivers know a repeated one by.
    """
    for what, table in (("mail", "outboundmail"), ("call", "delivery")):
        for row in rows.rows(table):
            is_late = rows.real(row["not_before"]) < now - late_s
            yield _on_its_way(f"{what} {row['id']}", row, is_late=is_late)
    for table, column in (("outboundmail", "person_id"), ("delivery", "webhook_id")):
        told = Counter((row.get(column), row["key"]) for row in rows.rows(table) if "key" in row)
        for (_, key), count in told.items():
            yield f"{key} is told {count} times" if count > 1 else ""
    for call in rows.rows("delivery"):
        taken = call["sent_at"] is None or 200 <= (call["status"] or 0) < 300
        yield "" if taken else f"call {call['id']} is called sent and was answered {call['status']}"


def _on_its_way(what: str, row: Row, *, is_late: bool) -> str:
    if row["given_up_at"] is not None:
        return f"{what} was given up without a try" if row.get("tries", 1) == 0 else ""
    return f"{what} was never sent" if row["sent_at"] is None and is_late else ""


def revoked_tokens_rest(rows: Rows) -> Iterator[str]:
    """The part of I25 about rows: no token was used long after it was revoked."""
    for token in rows.rows("apitoken"):
        if token["revoked_at"] is None or token["last_used_at"] is None:
            continue
        since_s = token["last_used_at"] - token["revoked_at"]
        words = f"token {token['id']} was used {since_s:.0f} s after its end"
        yield words if since_s > REVOKED_WITHIN_S else ""
