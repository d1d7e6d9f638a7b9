"""Devices, limits and money: I2, I9 to I12, I22."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from portal.torture.history import Evidence, Row
from scheduler.states import END_RULES, EndReason

_CLOSE_S = 0.002
_BY_RIGHT = frozenset({"resume", "node_returned", "device_returned", "drain", "retire", "silent"})
_FOREVER = float("inf")
# How the history of a node names one of its cards.
_OF_CARD = re.compile(r"GPU (\d+)(?:: |$)")
# A whole card in milli-GPU.
_CARD = 1000


def one_holder_per_device(evidence: Evidence) -> Iterator[str]:
    """I2: the times a device is held never overlap, in the rows nor by the programs' locks."""
    for device, held in evidence.grouped("allocation", "device_id").items():
        held = sorted(held, key=lambda row: (row["acquired_at"], row["id"]))
        for earlier, later in pairwise(held):
            until = _FOREVER if earlier["released_at"] is None else earlier["released_at"]
            overlaps = later["acquired_at"] < until - _CLOSE_S
            places = f"{earlier['placement_id']} and {later['placement_id']}"
            yield f"device {device} is held by placements {places}" if overlaps else ""
        yield ""
    for clash in evidence.told("clash"):
        if clash["what"].startswith("gpu-"):
            yield f"attempt {clash['fence']} found {clash['what']} held by another program"


def free_devices_are_clean(evidence: Evidence) -> Iterator[str]:
    """I9: no process holds a device that is offered, and its last check after a trouble was passed.

    Nor was one handed out between a trouble that put it out of service and the check or the person
    that brought it back.
    """
    yield from _offered_unchecked(evidence)
    busy = {left["what"] for left in evidence.told("left")}
    open_now = {a["device_id"] for a in evidence.rows("allocation") if a["released_at"] is None}
    for device in evidence.rows("device"):
        is_free = device["id"] not in open_now and device["health"] == "healthy"
        dirty = is_free and f"gpu-{device['uuid']}" in busy
        yield f"device {device['uuid']} is free and a process holds it" if dirty else ""


def _offered_unchecked(evidence: Evidence) -> Iterator[str]:
    held = evidence.grouped("allocation", "device_id")
    out = _out_of_service(evidence)
    for device in evidence.rows("device"):
        # A check that is still asked for, or a trouble that nobody took back.
        noted = device.get("trouble") or device.get("check_at")
        untried = device["health"] == "healthy" and noted
        yield f"device {device['uuid']} is offered without a passed check" if untried else ""
        for since, until in out.get((device["node_id"], device["index"]), ()):
            for row in held.get(device["id"], ()):
                early = since + _CLOSE_S < row["acquired_at"] < until - _CLOSE_S
                words = f"device {device['uuid']} was handed out before it was found clean"
                yield words if early else ""


def _out_of_service(evidence: Evidence) -> dict[tuple[int, int], list[tuple[float, float]]]:
    """When which card of a node, by its index, was in quarantine, as the node's history says."""
    spans: dict[tuple[int, int], list[tuple[float, float]]] = {}
    began: dict[tuple[int, int], float] = {}
    for event in evidence.rows("nodeevent"):
        named = _OF_CARD.match(event["detail"].get("reason", ""))
        if named is None or event["from_state"] == event["to_state"]:
            continue
        card = (event["node_id"], int(named[1]))
        if event["to_state"] == "quarantined":
            began.setdefault(card, event["at"])
        elif event["to_state"] == "healthy" and card in began:
            spans.setdefault(card, []).append((began.pop(card), event["at"]))
    for card, since in began.items():
        spans.setdefault(card, []).append((since, _FOREVER))
    return spans


def quarantine_is_left_by_right(evidence: Evidence) -> Iterator[str]:
    """I10: out of quarantine only by a check, the end of the trouble, or an operator."""
    for event in evidence.rows("nodeevent"):
        if event["from_state"] == "quarantined" and event["to_state"] != "quarantined":
            right = event["kind"] in _BY_RIGHT
            place = f"node {event['node_id']}"
            yield "" if right else f"{place} left quarantine for {event['kind']}"


def limits_hold(evidence: Evidence) -> Iterator[str]:
    """I11: at no moment is more held below an account than its quota's maximum; each one is right.

    Of the organisation, a team or a project alike. What is counted is cards, in milli-GPU.
    """
    accounts, held = evidence.by_id("account"), list(_held(evidence))
    for quota in evidence.rows("quota"):
        key = accounts[quota["account_id"]]["key"]
        spans = [
            (one["acquired_at"], one["released_at"], one["milli"])
            for one in held
            if key in one["line"] and _is_meant(quota, one)
        ]
        if quota["maximum"] is not None:
            most = _most_at_once(spans)
            over = most > quota["maximum"] * _CARD
            words = f"{key} held {most / _CARD:g} of {quota['maximum']} devices"
            yield words if over else ""
        yield _miscounted(quota, key, [milli for _, end, milli in spans if end is None])


def _is_meant(quota: Row, one: Row) -> bool:
    """Whether a quota of a pool or of a model counts this."""
    return quota["pool_id"] in (None, one["pool_id"]) and quota["gpu_model"] in ("", one["model"])


def _miscounted(quota: Row, key: str, still: list[int]) -> str:
    if (quota["held"], quota["held_milli"]) == (len(still), sum(still)):
        return ""
    return f"the quota of {key} counts {quota['held']} devices and not {len(still)}"


def _held(evidence: Evidence) -> Iterator[dict[str, Any]]:
    """Each time a device was held: since when, until when, and for whom."""
    jobs, attempts = evidence.by_id("job"), evidence.by_id("attempt")
    placements, devices = evidence.by_id("placement"), evidence.by_id("device")
    lines = account_lines(evidence)
    for row in evidence.rows("allocation"):
        job = jobs[attempts[placements[row["placement_id"]]["attempt_id"]]["job_id"]]
        project, device = job["project_id"], devices[row["device_id"]]
        yield {
            "acquired_at": row["acquired_at"],
            "released_at": row["released_at"],
            "line": lines[project],
            "pool_id": job["pool_id"],
            "model": device["model"],
            "milli": device["milli"],
        }


def account_lines(evidence: Evidence) -> dict[int, set[str]]:
    """The keys of each project's accounts: its own, those of its teams up to the root, the root."""
    parents = {row["id"]: row["parent_id"] for row in evidence.rows("team")}
    lines = {}
    for row in evidence.rows("project"):
        line, team = {"org", f"project:{row['id']}"}, row["team_id"]
        while team is not None:
            line.add(f"team:{team}")
            team = parents[team]
        lines[row["id"]] = line
    return lines


def _most_at_once(spans: Iterable[tuple[float, float | None, int]]) -> int:
    """The most that spans of a moment amount to; one that ends makes room first."""
    steps = []
    for begin, end, amount in spans:
        steps += [(begin, amount), (_FOREVER if end is None else min(end, _FOREVER), -amount)]
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
    yield from holds_are_settled(evidence)


def holds_are_settled(evidence: Evidence) -> Iterator[str]:
    """The part of I12 about attempts: what one reserved is settled when it ends, not before."""
    attempts = evidence.by_id("attempt")
    for hold in evidence.rows("budgethold"):
        is_over = attempts[hold["attempt_id"]]["state"] == "ended"
        right = is_over == (hold["settled_at"] is not None)
        yield "" if right else f"what attempt {hold['attempt_id']} reserved was not settled once"


def every_second_is_counted_once(evidence: Evidence) -> Iterator[str]:
    """I22: segments of a device touch; what was held is charged to the second, and once."""
    yield from segments_touch(evidence)
    yield from what_is_held_is_charged(evidence)
    for said in evidence.told("verified"):
        yield "" if said["ok"] else f"the books do not verify: {said['words']}"


def segments_touch(evidence: Evidence) -> Iterator[str]:
    """The part of I22 about devices: each second of one is in one bucket."""
    for device, segments in evidence.grouped("devicesegment", "device_id").items():
        segments = sorted(segments, key=lambda row: (row["start_s"], row["id"]))
        for earlier, later in pairwise(segments):
            touches = earlier["end_s"] == later["start_s"]
            seam = f"{earlier['end_s']} and {later['start_s']}"
            yield "" if touches else f"device {device}: segments part between {seam}"


def what_is_held_is_charged(evidence: Evidence) -> Iterator[str]:
    """The part of I22 about attempts that have ended."""
    entries = evidence.grouped("usageentry", "allocation_id")
    attempts, placements = evidence.by_id("attempt"), evidence.by_id("placement")
    for held in evidence.rows("allocation"):
        attempt = attempts[placements[held["placement_id"]]["attempt_id"]]
        if held["released_at"] is None or attempt["state"] != "ended":
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
