"""Which moves of jobs were made beside which faults."""

from __future__ import annotations

from portal.torture.history import Evidence
from portal.torture.moves import ENOUGH, figures_of_moves, moves_beside_faults
from scheduler.states import JOB_MOVES


def fault(name, at, until=None):
    return {"kind": "fault", "name": name, "number": 1, "target": "n1", "at": at, "until": until}


def move(was, now, at):
    return {"id": at, "job_id": 1, "from_state": was, "to_state": now, "at": float(at)}


def test_a_move_counts_for_the_faults_that_were_at_work():
    facts = [fault("slow", 10, 20), fault("reboot", 19, 30), fault("cancel", 50)]
    events = [
        move("", "queued", 11),
        move("queued", "starting", 15),
        move("queued", "starting", 20),
        move("starting", "running", 33),
        move("running", "running", 15),
        move("running", "stopping", 51),
        move("succeeded", "queued", 15),
    ]
    found = moves_beside_faults(Evidence(facts, {"jobevent": events}))
    hit = {name: kinds for name, kinds in found.items() if kinds}
    assert hit == {"queued to starting": {"slow", "reboot"}, "running to stopping": {"cancel"}}


def test_moments_are_those_of_a_clock_that_was_not_put_forward():
    events = [move("queued", "starting", 3615)]
    evidence = Evidence([fault("slow", 14, 16)], {"jobevent": events}, rules={"steps": [(5, 3600)]})
    assert moves_beside_faults(evidence)["queued to starting"] == {"slow"}


def test_each_legal_move_is_told_and_which_were_seldom_made():
    facts = [fault(name, 10, 20) for name in ("slow", "reboot", "refused")]
    figures = figures_of_moves(Evidence(facts, {"jobevent": [move("queued", "starting", 15)]}))
    legal = {f"{was} to {now}" for was, nexts in JOB_MOVES.items() for now in nexts}
    assert set(figures["moves"]) == legal and figures["moves"]["queued to starting"] == ENOUGH
    assert set(figures["moves_seldom"]) == legal - {"queued to starting"}
