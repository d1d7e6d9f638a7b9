"""What people and programs saw from outside: I13 to I15, I20, I23 to I25, I27, I28,
I36."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest

from portal.torture.history import Evidence
from portal.torture.invariants.repeating import jobs_of_schedules
from portal.torture.program import SESSION_IDLE_S
from scheduler.invariants.attempts import (
    attempts_begin_inside_bookings,
    every_change_has_its_event,
)
from scheduler.invariants.rows import Row
from scheduler.invariants.sent import REVOKED_WITHIN_S, revoked_tokens_rest

# Between a node's call and the moment that is written for it.
_CLOSE_S = 1.0
# Until a program that is started has said so, on a machine where everything takes long.
_BEGUN_WITHIN_S = 5.0
# A cycle that has begun before a booking was there, or after it was given back; and the time after
# which a cycle's moves are written at last, also where the database was away.
_SEEN_S, _MOVED_S = 5.0, 30.0
# Two cycles, on a machine where everything takes long.
_LOOKED_AT_WITHIN_S = 60.0
_TOLD_WITHIN_S = 10.0
# Whoever looks at idle clocks, the grace of a stop and the log, on a machine where all takes long.
_ENDS_WITHIN_S = 120.0


def bookings_are_honoured(evidence: Evidence) -> Iterator[str]:
    """I13: a booking was used in its time, given back or ended, and says so."""
    until = evidence.rules.get("ended_at", 0.0)
    for booking in evidence.rows("booking"):
        ran = any(row["booked_in_id"] == booking["id"] for row in evidence.rows("job"))
        is_over = evidence.real(booking["until_at"]) < until
        skipped = any(booking["from_at"] <= at for at in _stepped_to(evidence, booking))
        open_still = is_over and not ran and not booking["closed_as"] and not skipped
        yield f"booking {booking['id']} was neither used nor given back" if open_still else ""
    yield from attempts_begin_inside_bookings(evidence)
    yield from _others_stay_off(evidence)
    yield from _who_booked_is_looked_at(evidence)


def _others_stay_off(evidence: Evidence) -> Iterator[str]:
    """Nobody else begins on a whole node while a booking has it.

    Where it was, the harness noted as it was committed, by a clock that does not jump; the
    scheduler moves it with the cycle that starts others there, and may be late to write that down.
    """
    jobs, nodes = evidence.by_id("job"), evidence.grouped("placement", "attempt_id")
    begun = [
        (evidence.real(attempt["assigned_at"]), jobs[attempt["job_id"]]["booked_in_id"], attempt)
        for attempt in evidence.rows("attempt")
    ]
    places = evidence.grouped("torture_booked", "booking_id")
    for booking in evidence.rows("booking"):
        begin, end = _live(evidence, booking)
        mine = places.get(booking["id"], []) if not booking.get("gpus_per_node") else []
        for row, after in zip_longest(mine, mine[1:]):
            since = max(begin, row["at"]) + _SEEN_S
            until = end - _SEEN_S if after is None else min(end - _SEEN_S, after["at"] - _MOVED_S)
            for at, booked_in, attempt in begun:
                held = {rank.get("node_id") for rank in nodes.get(attempt["id"], [])}
                taken = booked_in != booking["id"] and held & set(row["node_ids"])
                words = f"attempt {attempt['id']} began on a node of booking {booking['id']}"
                yield words if taken and since < at < until else ""


def _who_booked_is_looked_at(evidence: Evidence) -> Iterator[str]:
    """A job of a booking that never began, though there was time, was told why."""
    patience_s = evidence.rules.get("starts_within_s", _LOOKED_AT_WITHIN_S)
    bookings, begun = evidence.by_id("booking"), evidence.grouped("attempt", "job_id")
    events = evidence.grouped("jobevent", "job_id")
    for job in evidence.rows("job"):
        mine = bookings.get(job["booked_in_id"])
        if mine is None or job["id"] in begun or job["id"] not in events:
            continue
        begin, end = _live(evidence, mine)
        ended = evidence.real(job["ended_at"]) if job["ended_at"] else end
        waited_s = min(end, ended) - max(begin, evidence.real(events[job["id"]][0]["at"]))
        unseen = waited_s > patience_s and job.get("wait_checked_at") is None
        words = f"job {job['id']} waited {waited_s:.0f} s in its booking and nobody said why"
        yield words if unseen else ""


def _live(evidence: Evidence, booking: Row) -> tuple[float, float]:
    """From its begin until its end, or until it was given back."""
    end = min(booking["until_at"], booking.get("closed_at") or booking["until_at"])
    return evidence.real(booking["from_at"]), evidence.real(end)


def _stepped_to(evidence: Evidence, booking: Row) -> Iterator[float]:
    """Steps of the clocks by which this booking's time was skipped, or a part of it."""
    ahead_s = 0.0
    for at, by_s in evidence.rules.get("steps", ()):
        if at + ahead_s < booking["until_at"]:
            yield at + ahead_s + by_s
        ahead_s += by_s


def accepted_jobs_are_there(evidence: Evidence) -> Iterator[str]:
    """I14: every number that was answered has its row; no row has no request,
    but for those that schedules asked for."""
    rows = set(evidence.by_id("job"))
    accepted: set[int] = set()
    for submit in evidence.told("submit"):
        if submit["status"] in (200, 201):
            accepted |= set(submit["jobs"])
            for job in submit["jobs"]:
                yield "" if job in rows else f"job {job} was accepted and is not there"
    unheard = {s["key"] for s in evidence.told("submit")} - {
        s["key"] for s in evidence.told("submit") if s["status"] in (200, 201)
    }
    keys = {row["job_id"]: row["key"] for row in evidence.rows("submitkey")}
    sets = {row["id"]: row["job_set_id"] for row in evidence.rows("job")}
    known_sets = {sets.get(job) for job in accepted} - {None}
    for job in rows - accepted - jobs_of_schedules(evidence):
        if sets.get(job) in known_sets or keys.get(job) in unheard:
            continue
        yield f"job {job} is there and nobody was told of it"


def one_key_one_job(evidence: Evidence) -> Iterator[str]:
    """I15: the same key was always answered with the same job."""
    answered: dict[str, list[int]] = {}
    for submit in evidence.told("submit"):
        if submit["status"] in (200, 201):
            first = answered.setdefault(submit["key"], submit["jobs"])
            same = first == submit["jobs"]
            yield "" if same else f"key {submit['key']}: jobs {first} and {submit['jobs']}"
    names: dict[str, list[int]] = {}
    again = jobs_of_schedules(evidence)
    for job in evidence.rows("job"):
        if job["array_index"] in (None, 0):
            names.setdefault(job["name"], []).append(job["id"])
    # The harness gives every key, and every schedule, a name of its own.
    for submit_name, jobs in names.items():
        is_double = len(jobs) > 1 and not again.issuperset(jobs)
        yield f"{submit_name} was made as jobs {jobs}" if is_double else ""


def every_move_has_its_event(evidence: Evidence) -> Iterator[str]:
    """I20: a job's version, which counts changes, is one more than its events that change it.

    And the audit is whole: every event of the run is sealed, and the chain of the seals holds.
    """
    for audit in evidence.told("audit"):
        yield f"the audit is broken: {audit['broken']}" if audit["broken"] else ""
        yield f"{audit['unsealed']} audit events are not sealed" if audit["unsealed"] else ""
    yield from every_change_has_its_event(evidence)


def shown_is_what_is(evidence: Evidence) -> Iterator[str]:
    """I23: what the portal shows when all is quiet is what the rows say, and it leaves no job out;
    so does a page that stayed open since the storm, of what ended long enough before: its socket
    told of it."""
    states = {job["id"]: job["state"] for job in evidence.rows("job")}
    told = {shown["job"]: shown["state"] for shown in evidence.told("shown")}
    for job, state in told.items():
        yield "" if states.get(job) == state else f"job {job} is shown as {state}"
    for job in states.keys() - told.keys() if evidence.told("listed") else ():
        yield f"job {job} is there and is not shown"
    ended = {job["id"]: job["ended_at"] for job in evidence.rows("job") if job["ended_at"]}
    for page in evidence.told("quiet"):
        for job, state in page["shows"]:
            since_s = page["at"] - evidence.real(ended[job]) if job in ended else 0.0
            late = since_s > _TOLD_WITHIN_S and states[job] != state
            words = f"an open page shows job {job} as {state}, {since_s:.0f} s after its end"
            yield words if late else ""


def strangers_see_nothing(evidence: Evidence) -> Iterator[str]:
    """I24: somebody of another team who asks for a job by its number is told there is none; nor
    does anybody who comes into a session reach another one's program."""
    for peek in evidence.told("peek"):
        # 0 and 5xx: no answer came, which shows nothing.
        shown = peek["status"] not in (0, 404, 429) and peek["status"] < 500
        yield f"a stranger got {peek['status']} for job {peek['job']}" if shown else ""
    for said in evidence.told("answered"):
        own = said["by"] == said["job"]
        yield "" if own else f"session {said['job']} was answered by job {said['by']}"


def revoked_means_revoked(evidence: Evidence) -> Iterator[str]:
    """I25: what was revoked opens nothing ten seconds later: a token, a session, a role, a node's
    own secret, the way into a session's program (`what`); nor does a socket that was open then
    still tell anything (`frame`). A ticket lets one in, once."""
    yield from revoked_tokens_rest(evidence)
    revoked = {_credential(said): said["at"] for said in evidence.told("revoked")}
    for used in evidence.told("used"):
        what, name = _credential(used)
        since_s = used["at"] - revoked.get((what, name), used["at"])
        works = since_s > REVOKED_WITHIN_S and 200 <= used["status"] < 300
        yield f"{what} {name} works {since_s:.0f} s after its end" if works else ""
    for frame in evidence.told("frame"):
        what, name = _credential(frame)
        since_s = frame["at"] - revoked.get((what, name), frame["at"])
        told = since_s > REVOKED_WITHIN_S
        yield f"a socket of {what} {name} tells {since_s:.0f} s after its end" if told else ""
    let_in = Counter(said["ticket"] for said in evidence.told("entered") if said["status"] == 303)
    for ticket, count in let_in.items():
        yield f"ticket {ticket} let in {count} times" if count > 1 else ""


def _credential(said: Row) -> tuple[str, str]:
    return said.get("what", "token"), str(said["token"])


def restores_start_nothing_twice(evidence: Evidence) -> Iterator[str]:
    """I27: after the database was put back, no program that ran before is started again."""
    for restored in evidence.told("restored"):
        seen: set[tuple[int, int]] = set()
        for fence, rank in restored["starts"]:
            place = (fence, rank)
            yield f"attempt {fence} was started again" if place in seen else ""
            seen.add(place)
        for what in restored["clashes"]:
            yield f"{what} was still held when its job was started again"
        for what in restored["left"]:
            yield f"{what} is still held by a process"


def clocks_decide_nothing(evidence: Evidence) -> Iterator[str]:
    """I28: where clocks jumped, nobody was given up early and no time limit came early.

    What the ways to the portal saw says when a node was last answered, by no clock that jumps.
    """
    if not any(fault["number"] == 12 for fault in evidence.told("fault")):
        return
    heard = {said["node"]: said["times"] for said in evidence.told("heard")}
    names = {node["id"]: node["name"] for node in evidence.rows("node")}
    for event in evidence.rows("nodeevent"):
        if event["kind"] != "lost":
            continue
        name, at = names[event["node_id"]], evidence.real(event["at"])
        known = (asked for asked, answered in heard.get(name, ()) if answered <= at)
        silent_s = at - max(known, default=0.0)
        early = silent_s < evidence.rules["lost_after_s"] - _CLOSE_S
        yield f"node {name} was lost {silent_s:.0f} s after it was answered" if early else ""
    begun = {(said["fence"], said["rank"]): said["at"] for said in evidence.told("start")}
    jobs = evidence.by_id("job")
    for attempt in evidence.rows("attempt"):
        took_s = evidence.real(attempt["ended_at"] or 0.0) - begun.get((attempt["id"], 0), 0.0)
        least_s = jobs[attempt["job_id"]]["time_limit_s"] - _BEGUN_WITHIN_S
        early = attempt["end_reason"] == "time_limit" and took_s < least_s
        yield f"attempt {attempt['id']} reached its limit after {took_s:.0f} s" if early else ""


def sessions_are_reached_again(evidence: Evidence) -> Iterator[str]:
    """I36: who works in a session comes in again, whatever was cut or killed meanwhile; or it is
    over soon after nobody could, and says why."""
    patience_s = evidence.rules["lost_after_s"] + SESSION_IDLE_S + _ENDS_WITHIN_S
    jobs = evidence.by_id("job")
    last = {said["job"]: said for said in evidence.told("reached")}
    for number, said in last.items():
        job = jobs.get(number)
        if said["ok"] or job is None:
            yield ""
            continue
        ended = job["ended_at"] and evidence.real(job["ended_at"])
        went_on_s = (ended or evidence.rules["ended_at"]) - said["at"]
        words = f"session {number} went on for {went_on_s:.0f} s and nobody came in"
        untold = ended and not job["end_reason"]
        yield words if went_on_s > patience_s else f"session {number} ended" if untold else ""
