"""Devices, limits and money: I2, I9 to I12, I22."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from portal.torture.history import Evidence
from portal.torture.invariants.pools import pools_of_nodes
from scheduler.invariants import devices as stored
from scheduler.invariants.devices import (
    held_by_one,
    held_whole_or_in_parts,
    offered_once_clean,
    segments_touch,
)
from scheduler.invariants.money import (
    holds_are_settled,
    is_meant,
    prices_bound_what_is_held,
    quotas_count_what_is_held,
    times_held,
    what_is_held_is_charged,
)
from scheduler.invariants.rows import FOREVER, Row

# A whole card in milli-GPU.
_CARD = 1000
_AWAY = ("silent", "lost")
# A start is dated by the begin of its cycle, which may have seen an end that is dated later.
_SETTLED_S = 5.0


def one_holder_per_device(evidence: Evidence) -> Iterator[str]:
    """I2: the times a device is held never overlap, in the rows nor by the programs' locks."""
    yield from held_by_one(evidence)
    yield from held_whole_or_in_parts(evidence)
    for clash in evidence.told("clash"):
        if clash["what"].startswith("gpu-"):
            yield f"attempt {clash['fence']} found {clash['what']} held by another program"


def free_devices_are_clean(evidence: Evidence) -> Iterator[str]:
    """I9: no process holds a device that is offered, and its last check after a trouble was passed.

    Nor was one handed out between a trouble that put it out of service and the check or the person
    that brought it back.
    """
    yield from offered_once_clean(evidence)
    busy = {left["what"] for left in evidence.told("left")}
    open_now = {a["device_id"] for a in evidence.rows("allocation") if a["released_at"] is None}
    for device in evidence.rows("device"):
        is_free = device["id"] not in open_now and device["health"] == "healthy"
        dirty = is_free and f"gpu-{device['uuid']}" in busy
        yield f"device {device['uuid']} is free and a process holds it" if dirty else ""


def quarantine_is_left_by_right(evidence: Evidence) -> Iterator[str]:
    """I10: out of quarantine only by a check, the end of the trouble, or an operator; also where
    the node was not heard in between. Nobody drains one here while it is away."""
    yield from stored.quarantine_is_left_by_right(evidence)
    out: set[int] = set()
    for event in evidence.rows("nodeevent"):
        node, came_from, to = event["node_id"], event["from_state"], event["to_state"]
        if event["kind"] in ("resume", "retire"):
            # Of one that is away: for when it is heard, or for good.
            out.discard(node)
        if came_from == to or event["detail"].get("reason", "").startswith("GPU "):
            continue
        if to == "quarantined" or (came_from == "quarantined" and to in _AWAY):
            out.add(node)
        elif to not in _AWAY:
            forgotten = node in out and came_from in _AWAY
            out.discard(node)
            yield f"node {node} left quarantine while it was not heard" if forgotten else ""


def limits_hold(evidence: Evidence) -> Iterator[str]:
    """I11: at no moment is more held below an account than its quota's maximum; each one is right.

    Of the organisation, a team or a project alike, in one pool or in all. What is counted is cards,
    in milli-GPU, in the pool of their node: the job may wait for another one by now.
    """
    accounts, held = evidence.by_id("account"), list(_held_in_pools(evidence))
    for quota in evidence.rows("quota"):
        key = accounts[quota["account_id"]]["key"]
        spans = [
            (one["acquired_at"], one["released_at"], one["milli"])
            for one in held
            if key in one["line"] and is_meant(quota, one)
        ]
        if quota["maximum"] is not None:
            most = _most_at_once(spans)
            over = most > quota["maximum"] * _CARD
            words = f"{key} held {most / _CARD:g} of {quota['maximum']} devices"
            yield words if over else ""
    yield from quotas_count_what_is_held(evidence)


def _held_in_pools(evidence: Evidence) -> Iterator[dict[str, Any]]:
    nodes, ranks = pools_of_nodes(evidence), evidence.by_id("placement")
    for row, held in zip(evidence.rows("allocation"), times_held(evidence), strict=True):
        yield held | {"pool_id": nodes[ranks[row["placement_id"]]["node_id"]]}


def _most_at_once(spans: Iterable[tuple[float, float | None, int]]) -> int:
    """The most that spans of a moment amount to; one that ends makes room first."""
    steps = []
    for begin, end, amount in spans:
        steps += [(begin, amount), (FOREVER if end is None else min(end, FOREVER), -amount)]
    now = most = 0
    for _, change in sorted(steps, key=lambda step: (step[0], step[1])):
        now += change
        most = max(most, now)
    return most


def budgets_hold(evidence: Evidence) -> Iterator[str]:
    """I12: used and reserved stay within a budget that reserves; every hold is settled once.

    What a true-up added is no use that anybody let through: the ledger charged more than that.
    """
    trued = evidence.grouped("budgettrueup", "budget_id")
    for budget in evidence.rows("budget"):
        if budget["enforcement"] != "reserve":
            continue
        # The limit contains what was carried over and granted.
        for limit, measure in (("gpu_seconds", "s"), ("money", "money")):
            if budget[limit] is None:
                continue
            used = budget[f"committed_{measure}"] + budget[f"spent_{measure}"]
            moves = [one for one in trued.get(budget["id"], []) if not one["is_opening"]]
            used -= max(0, sum(one["difference"] for one in moves))
            over = used > budget[limit]
            yield f"budget {budget['id']}: {used} of {budget[limit]} {limit}" if over else ""
            yield _overdrawn_before(evidence, budget, limit, f"spent_{measure}")
    yield from holds_are_settled(evidence)
    yield from prices_bound_what_is_held(evidence)


def _overdrawn_before(evidence: Evidence, budget: Row, limit: str, spent: str) -> str:
    """The same at every moment, by what its attempts held of it: at the end all is settled.

    Its treasurer raises it: what it was meant to be from a moment on is noted before that.
    """
    attempts = evidence.by_id("attempt")
    raised = [(said["at"], said[limit]) for said in evidence.told("budget") if limit in said]
    is_raised = budget.get("commits_at") == "start" and raised
    least = min(amount for _, amount in raised) if is_raised else budget[limit]
    steps: list[tuple[float, int, int]] = []
    for hold in evidence.grouped("budgethold", "budget_id").get(budget["id"], []):
        begin = evidence.real(attempts[hold["attempt_id"]]["assigned_at"])
        steps.append((begin, 0, hold[limit]))
        if hold["settled_at"] is not None:
            end = max(begin, evidence.real(hold["settled_at"]) - _SETTLED_S)
            steps.append((end, 0, hold[spent] - hold[limit]))
    steps += [(at, amount, 0) for at, amount in raised] if is_raised else []
    used = 0
    for at, amount, change in sorted(steps, key=lambda step: (step[0], -step[1], step[2])):
        least, used = max(least, amount), used + change
        if used > least:
            return f"budget {budget['id']}: {used} of {least} {limit} at {at:.0f}"
    return ""


def every_second_is_counted_once(evidence: Evidence) -> Iterator[str]:
    """I22: segments of a device touch; what was held is charged to the second, and once."""
    yield from segments_touch(evidence)
    yield from what_is_held_is_charged(evidence)
    for said in evidence.told("verified"):
        yield "" if said["ok"] else f"the books do not verify: {said['words']}"
