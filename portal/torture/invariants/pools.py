"""Pools: I38, by what was asked for and by the nodes that programs were started on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from portal.torture.history import Evidence
from scheduler.invariants.attempts import live_ones_are_in_their_pool
from scheduler.invariants.money import account_lines
from scheduler.invariants.rows import Row
from scheduler.states import AttemptState

# Moments of one machine, read by two programs.
_CLOSE_S = 0.1
_DONE, _REFUSED = 200, range(400, 500)


def attempts_run_where_they_may(evidence: Evidence) -> Iterator[str]:
    """I38: all nodes of an attempt are of one pool, which is among those that its job named by
    then; a job that goes to another pool by itself goes to one of these; and none is at work with
    GPUs where its project may use nothing.

    What was named is what people sent (`placed`) and what was made of it since (`moved`): from the
    answer on that it was done only the new ones count, from the question on they may.
    """
    yield from live_ones_are_in_their_pool(_live(evidence))
    names, asked = _names(evidence), _asked(evidence)
    pool_of, closed = pools_of_nodes(evidence), _closed(evidence)
    ranks = evidence.grouped("placement", "attempt_id")
    attempts = evidence.grouped("attempt", "job_id")
    moves = evidence.grouped("jobevent", "job_id")
    for job in evidence.rows("job"):
        allowed = asked.get(job["id"])
        if allowed is None:
            continue
        for attempt in attempts.get(job["id"], ()):
            found = {pool_of[rank["node_id"]] for rank in ranks.get(attempt["id"], ())}
            at = evidence.real(attempt["assigned_at"])
            words = _wrong(found, allowed, at, names) or _shut(job, found, closed, names)
            yield f"attempt {attempt['id']} of job {job['id']} {words}" if words else ""
        for move in moves.get(job["id"], ()):
            if move["kind"] == "moved_to_pool":
                to, at = str(move["detail"]["to"]), evidence.real(move["at"])
                wrong = to not in _named_at(allowed, at)
                yield f"job {job['id']} went to {to}, which it had not named" if wrong else ""


def pools_named(evidence: Evidence, job: Row) -> set[Any]:
    """The pools (ids) that a job was in, chose from or was to be sent to, ever."""
    ids = {name: pk for pk, name in _names(evidence).items()}
    told = {name for _, _, names in _asked(evidence).get(job["id"], ()) for name in names}
    named = {*told, *(job.get("pool_choice") or ())}
    return {job["pool_id"], *(ids[name] for name in named if name in ids)}


def pools_of_nodes(evidence: Evidence) -> dict[int, Any]:
    """By node its pool; nobody takes one from a pool to another here."""
    return {node["id"]: node["pool_id"] for node in evidence.rows("node")}


def _live(evidence: Evidence) -> Evidence:
    live = [row for row in evidence.rows("attempt") if row["state"] != AttemptState.ENDED]
    return Evidence(evidence.facts, {**evidence.tables, "attempt": live})


def _names(evidence: Evidence) -> dict[Any, str]:
    return {pool["id"]: pool["name"] for pool in evidence.rows("pool")}


# When pools were asked for, when it was known to be done (never: infinity), and which.
Asked = list[tuple[float, float, tuple[str, ...]]]


def _asked(evidence: Evidence) -> dict[int, Asked]:
    """By job what was asked for, in that order; only of those whose sender noted it."""
    placed = {said["key"]: tuple(said["pools"]) for said in evidence.told("placed")}
    found: dict[int, Asked] = {}
    for job in evidence.rows("job"):
        if job["name"] in placed:
            found[job["id"]] = [(0.0, 0.0, placed[job["name"]])]
    for said in sorted(evidence.told("moved"), key=lambda one: float(one["sent_at"])):
        if said["job"] in found and said["status"] not in _REFUSED:
            done_at = said["at"] if said["status"] == _DONE else float("inf")
            found[said["job"]].append((said["sent_at"], done_at, tuple(said["pools"])))
    return found


def _named_at(asked: Iterable[tuple[float, float, tuple[str, ...]]], at: float) -> set[str]:
    """What the job may have named at a moment. What nobody answered for may be done at any time."""
    certain: tuple[str, ...] = ()
    unsure = set[str]()
    for sent_at, done_at, names in asked:
        if done_at + _CLOSE_S <= at:
            certain = names
        elif sent_at - _CLOSE_S <= at:
            unsure |= set(names)
    return {*certain, *unsure}


def _wrong(found: set[Any], asked: Asked, at: float, names: Mapping[Any, str]) -> str:
    if len(found) > 1:
        return f"has nodes of {len(found)} pools"
    there = {names[pool] for pool in found} - _named_at(asked, at)
    return f"began in {', '.join(there)}, which the job had not named" if there else ""


def _closed(evidence: Evidence) -> dict[Any, set[Any]]:
    """By project the pools of which it may hold nothing."""
    accounts, lines = evidence.by_id("account"), account_lines(evidence)
    found: dict[Any, set[Any]] = {}
    for quota in evidence.rows("quota"):
        if quota["maximum"] == 0 and quota["pool_id"] is not None and not quota["gpu_model"]:
            key = accounts[quota["account_id"]]["key"]
            for project, line in lines.items():
                if key in line:
                    found.setdefault(project, set()).add(quota["pool_id"])
    return found


def _shut(
    job: Row, found: set[Any], closed: Mapping[Any, set[Any]], names: Mapping[Any, str]
) -> str:
    shut = found & closed.get(job["project_id"], set())
    where = ", ".join(names[pool] for pool in shut)
    return f"began in {where}, where its project may use none" if shut and _has_gpus(job) else ""


def _has_gpus(job: Row) -> bool:
    return int(job["gpus_per_node"]) > 0
