"""Devices: I2, I9, I10, and the part of I22 that is about their time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise, product

from scheduler.invariants.rows import CLOSE_S, FOREVER, Row, Rows

_BY_RIGHT = frozenset({"resume", "node_returned", "device_returned", "drain", "retire", "silent"})
# How the history of a node names one of its cards.
_OF_CARD = re.compile(r"GPU (\d+)(?:: |$)")


def held_by_one(rows: Rows) -> Iterator[str]:
    """The first part of I2: the times a device is held never overlap."""
    for device, held in rows.grouped("allocation", "device_id").items():
        held = sorted(held, key=lambda row: (row["acquired_at"], row["id"]))
        for earlier, later in pairwise(held):
            places = f"{earlier['placement_id']} and {later['placement_id']}"
            together = _overlap(earlier, later)
            yield f"device {device} is held by placements {places}" if together else ""
        yield ""


def held_whole_or_in_parts(rows: Rows) -> Iterator[str]:
    """The second part of I2: nor do those of a card and of a part of it."""
    every = rows.grouped("allocation", "device_id")
    for part in rows.rows("device"):
        card = every.get(part.get("parent_id"), [])
        for one, other in product(card, every.get(part["id"], [])):
            places = f"{one['placement_id']} and {other['placement_id']}"
            words = f"device {part['id']} and the card it is of are held by placements {places}"
            yield words if _overlap(one, other) else ""


def _overlap(one: Row, other: Row) -> bool:
    """Whether both were held at a moment."""
    earlier, later = sorted((one, other), key=lambda row: (row["acquired_at"], row["id"]))
    until = FOREVER if earlier["released_at"] is None else earlier["released_at"]
    return bool(later["acquired_at"] < until - CLOSE_S)


def offered_once_clean(rows: Rows) -> Iterator[str]:
    """The part of I9 about rows: what is offered has no trouble, and its last check was passed.

    Nor was one handed out between a trouble that put it out of service and the check or the person
    that brought it back. Where cards were exchanged the history does not tell which it speaks of.
    """
    held = rows.grouped("allocation", "device_id")
    whole = [row for row in rows.rows("device") if row.get("parent_id") is None]
    cards = Counter((row["node_id"], row["index"]) for row in whole)
    spans = _out_of_service(rows)
    out = {card: mine for card, mine in spans.items() if cards[card] == 1}
    for device in rows.rows("device"):
        # A check that is still asked for, or a trouble that nobody took back.
        noted = device.get("trouble") or device.get("check_at")
        untried = device["health"] == "healthy" and noted
        yield f"device {device['uuid']} is offered without a passed check" if untried else ""
        for since, until in out.get((device["node_id"], device["index"]), ()):
            for row in held.get(device["id"], ()):
                early = since + CLOSE_S < row["acquired_at"] < until - CLOSE_S
                words = f"device {device['uuid']} was handed out before it was found clean"
                yield words if early else ""


def _out_of_service(rows: Rows) -> dict[tuple[int, int], list[tuple[float, float]]]:
    """When which card of a node, by its index, was in quarantine, as the node's history says."""
    spans: dict[tuple[int, int], list[tuple[float, float]]] = {}
    began: dict[tuple[int, int], float] = {}
    for event in rows.rows("nodeevent"):
        named = _OF_CARD.match(event["detail"].get("reason", ""))
        if named is None or event["from_state"] == event["to_state"]:
            continue
        card = (event["node_id"], int(named[1]))
        if event["to_state"] == "quarantined":
            began.setdefault(card, event["at"])
        elif event["to_state"] == "healthy" and card in began:
            spans.setdefault(card, []).append((began.pop(card), event["at"]))
    for card, since in began.items():
        spans.setdefault(card, []).append((since, FOREVER))
    return spans


def quarantine_is_left_by_right(rows: Rows) -> Iterator[str]:
    """I10: out of quarantine only by a check, the end of the trouble, or an operator."""
    for event in rows.rows("nodeevent"):
        if event["from_state"] == "quarantined" and event["to_state"] != "quarantined":
            right = event["kind"] in _BY_RIGHT
            place = f"node {event['node_id']}"
            yield "" if right else f"{place} left quarantine for {event['kind']}"


def segments_touch(rows: Rows) -> Iterator[str]:
    """The part of I22 about devices: each second of one is in one bucket."""
    for device, segments in rows.grouped("devicesegment", "device_id").items():
        segments = sorted(segments, key=lambda row: (row["start_s"], row["id"]))
        for earlier, later in pairwise(segments):
            touches = earlier["end_s"] == later["start_s"]
            seam = f"{earlier['end_s']} and {later['start_s']}"
            yield "" if touches else f"device {device}: segments part between {seam}"
        yield ""
