"""Devices held by two, quarantine that was forgotten, and bookings that were not honoured."""

from __future__ import annotations


def device_held_twice(story):
    story.row("allocation", 2)["acquired_at"] = 120.0


def card_and_part_held_together(story):
    story.tables["device"].append({**story.row("device", 3), "id": 4, "uuid": "MIG-4"})
    story.row("device", 4)["parent_id"] = 3
    spans = {"acquired_at": 150.0, "released_at": 160.0}
    story.tables["allocation"].append({"id": 3, "placement_id": 21, "device_id": 4, **spans})


def device_lock_clashed(story):
    story.facts.append({**story.said("clash", 12, 131.0), "what": "gpu-GPU-3"})


def quarantine_left(story):
    story.row("nodeevent", 1)["kind"] = "heard_again"


def quarantine_forgotten_while_away(story):
    last = story.tables["nodeevent"]
    came_from = "quarantined"
    for number, (kind, to) in enumerate([("silent", "silent"), ("heard_again", "ready")], 7):
        event = {**story.row("nodeevent", 1), "id": number, "kind": kind}
        last.append({**event, "from_state": came_from, "to_state": to})
        came_from = to


def booking_forgotten(story):
    story.row("booking", 1)["closed_as"] = ""


def others_began_on_booked_nodes(story):
    """The booking stayed where it was."""
    story.row("torture_booked", 2)["at"] = 170.0


def booked_and_never_looked_at(story):
    """It was in line for 70 s of its booking."""
    told = {**story.row("jobevent", 1), "id": 9, "job_id": 2, "at": 110.0}
    story.tables["jobevent"].append(told)
    job = {**story.row("job", 1), "id": 2, "name": "k2", "booked_in_id": 1, "state": "cancelled"}
    story.tables["job"].append({**job, "ended_at": 180.0, "wait_checked_at": None})


def began_outside_its_booking(story):
    story.row("booking", 1)["from_at"] = 105.0
    story.row("job", 1)["booked_in_id"] = 1


HELD = [device_held_twice, card_and_part_held_together, device_lock_clashed]
QUARANTINES = [quarantine_left, quarantine_forgotten_while_away]
BOOKINGS = [
    booking_forgotten,
    began_outside_its_booking,
    others_began_on_booked_nodes,
    booked_and_never_looked_at,
]
