"""Jobs and their attempts: I1, I3 to I8, I13, I16, I20, I38 as far as rows tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from scheduler.invariants.rows import CLOSE_S, Row, Rows
from scheduler.states import (
    END_RULES,
    FINAL_JOB_STATES,
    JOB_MOVES,
    AttemptState,
    EndReason,
    JobState,
    NodeState,
)

# What changes of a job without another state; each raises its version too.
_CHANGES = frozenset(
    "limit_changed tier_changed nodes_changed request_changed finish_by_changed "
    "max_cost_changed moved_to_pool".split()
)
# What is called a success though somebody stopped it: nothing was to be done any more.
DONE_WITHOUT_AN_EXIT = frozenset(
    str(reason)
    for reason, rule in END_RULES.items()
    if rule.final is JobState.SUCCEEDED and reason is not EndReason.COMPLETED
)
# A stop is its grace, then the kill and whatever keeps a process from dying.
_KILLED_WITHIN_S = 90.0
# The server looks at the clock once in a while, and a node that was away tells late.
_NOTICED_WITHIN_S = 600.0
# What the time a node gives may be off by, which is in the time that a lost one is waited for.
_CLOCKS_AGREE_S = 60.0


def one_live_attempt_per_job(rows: Rows) -> Iterator[str]:
    """I1: the time from assignment to end of a job's attempts never overlaps."""
    for job, attempts in rows.grouped("attempt", "job_id").items():
        for earlier, later in pairwise(attempts):
            ended = earlier["ended_at"]
            overlaps = ended is None or later["assigned_at"] < ended - CLOSE_S
            pair = f"{earlier['id']} and {later['id']}"
            yield f"job {job}: attempts {pair} live together" if overlaps else ""
        yield ""


def fences_rise_and_old_ones_change_nothing(rows: Rows) -> Iterator[str]:
    """I3: numbers and fences rise together; no move comes from an attempt that was replaced."""
    for job, attempts in rows.grouped("attempt", "job_id").items():
        numbers = [attempt["number"] for attempt in attempts]
        rises = numbers == list(range(1, len(numbers) + 1))
        yield "" if rises else f"job {job}: attempts numbered {numbers} in the order of fences"
    for job, events in rows.grouped("jobevent", "job_id").items():
        highest = 0
        for event in events:
            fence = event["attempt_id"] or highest
            is_move = event["from_state"] != event["to_state"]
            late = is_move and fence < highest
            yield f"job {job}: {event['kind']} by the old attempt {fence}" if late else ""
            highest = max(highest, fence)


def moves_follow_the_graph(rows: Rows) -> Iterator[str]:
    """I4: every move is a legal one from where the last one ended; a final state is final."""
    states = {job["id"]: job["state"] for job in rows.rows("job")}
    for job, events in rows.grouped("jobevent", "job_id").items():
        state = ""
        for event in events:
            came_from, to = event["from_state"], event["to_state"]
            if not to or came_from == to:
                continue
            yield _illegal(job, state, came_from, to)
            state = to
        here = states.get(job, "")
        yield f"job {job} is {here}, its events end in {state}" if state and here != state else ""
    for attempt in rows.rows("attempt"):
        is_over = attempt["state"] == AttemptState.ENDED
        said = attempt["ended_at"] is not None and bool(attempt["end_reason"])
        yield "" if is_over == said else f"attempt {attempt['id']} is {attempt['state']} and ended"


def _illegal(job: Any, state: str, came_from: str, to: str) -> str:
    if state and came_from != state:
        return f"job {job} moved from {came_from} to {to} where it was {state}"
    if came_from and JobState(to) not in JOB_MOVES[JobState(came_from)]:
        return f"job {job} moved from {came_from} to {to}"
    return ""


def attempts_begin_once(rows: Rows) -> Iterator[str]:
    """The part of I5 about rows: an attempt is said to run once, and by the one job it is of."""
    begun: dict[int, Row] = {}
    owners = {attempt["id"]: attempt["job_id"] for attempt in rows.rows("attempt")}
    for event in rows.rows("jobevent"):
        if event["to_state"] != JobState.RUNNING or event["from_state"] == event["to_state"]:
            continue
        fence = event["attempt_id"]
        again = begun.setdefault(fence, event) is not event
        words = f"attempt {fence} began twice" if again else ""
        foreign = fence in owners and owners[fence] != event["job_id"]
        yield f"attempt {fence} began for job {event['job_id']}" if foreign else words


def programs_never_overlap(rows: Rows) -> Iterator[str]:
    """The part of I6 about rows: where a node tells late how long a program ran, even of one that
    was given up, that was over before the job's next attempt was assigned anywhere."""
    ranks = rows.grouped("placement", "attempt_id")
    for job, attempts in rows.grouped("attempt", "job_id").items():
        for earlier, later in pairwise(attempts):
            told = (rank["ran_until"] for rank in ranks.get(earlier["id"], []))
            ran_until = max((at for at in told if at is not None), default=0.0)
            over_s = ran_until - later["assigned_at"]
            words = f"job {job}: attempt {earlier['id']} ran for {over_s:.0f} s beside its next one"
            yield words if over_s > _CLOCKS_AGREE_S else ""


def success_is_stored(rows: Rows) -> Iterator[str]:
    """I7: of a job that succeeded every rank's end is stored, with exit code 0."""
    placements = rows.grouped("placement", "attempt_id")
    jobs = rows.by_id("job")
    for job, attempts in rows.grouped("attempt", "job_id").items():
        if jobs[job]["state"] != JobState.SUCCEEDED:
            continue
        last = attempts[-1]
        if last["end_reason"] in DONE_WITHOUT_AN_EXIT:
            continue
        for placement in placements.get(last["id"], []):
            code = placement["exit_code"]
            right = code == 0 and placement["end_reason"] == EndReason.COMPLETED
            place = f"rank {placement['rank']} of attempt {last['id']}"
            yield "" if right else f"job {job} succeeded, and {place} is stored with {code}"


def attempts_end_in_time(rows: Rows, *, now: float) -> Iterator[str]:
    """I8: a live attempt is not on nodes that are away, nor being stopped, for longer than may be.

    Asked of live attempts with their placements and nodes. Of a node `away_since` and `here_since`
    count from when the server saw it go and come back, for that was not there itself all the time.
    """
    nodes, placements = rows.by_id("node"), rows.grouped("placement", "attempt_id")
    for attempt in rows.rows("attempt"):
        mine = [nodes[one["node_id"]] for one in placements.get(attempt["id"], [])]
        words = f"attempt {attempt['id']} is {attempt['state']}"
        yield next((f"{words}, {late}" for late in _overdue(attempt, mine, now) if late), "")


def _overdue(attempt: Row, nodes: Iterable[Row], now: float) -> Iterator[str]:
    for node in nodes:
        if node["away_since"] is not None:
            away_s = now - node["away_since"]
            is_late = away_s > node["lost_after_s"] + _NOTICED_WITHIN_S
            yield f"node {node['id']} is away for {away_s:.0f} s" if is_late else ""
        elif attempt["stopping_at"] is not None and node["state"] != NodeState.QUARANTINED:
            since = max(attempt["stopping_at"], node["here_since"] or 0.0)
            stops_s = attempt["stop_grace_s"] + _KILLED_WITHIN_S + _NOTICED_WITHIN_S
            is_here = now - node["last_seen_at"] < _NOTICED_WITHIN_S
            is_late = is_here and now - since > stops_s
            yield f"its stop was asked for {now - since:.0f} s ago" if is_late else ""


def attempts_begin_inside_bookings(rows: Rows) -> Iterator[str]:
    """The part of I13 about attempts: a job of a booking begins in the booking's time."""
    bookings, jobs = rows.by_id("booking"), rows.by_id("job")
    for attempt in rows.rows("attempt"):
        mine = bookings.get(jobs[attempt["job_id"]]["booked_in_id"])
        if mine is not None:
            inside = mine["from_at"] <= attempt["assigned_at"] <= mine["until_at"]
            yield "" if inside else f"attempt {attempt['id']} began outside its booking"


def live_ones_are_in_their_pool(rows: Rows) -> Iterator[str]:
    """The part of I38 about what goes on: each node of a live attempt is of its job's pool.

    Asked of live attempts with their placements, jobs and nodes.
    """
    nodes, jobs = rows.by_id("node"), rows.by_id("job")
    ranks = rows.grouped("placement", "attempt_id")
    for attempt in rows.rows("attempt"):
        pool = jobs[attempt["job_id"]]["pool_id"]
        away = [
            one["node_id"]
            for one in ranks.get(attempt["id"], [])
            if nodes[one["node_id"]]["pool_id"] != pool
        ]
        words = f"attempt {attempt['id']} is on nodes that are not of its job's pool"
        yield words if away else ""


def what_is_over_holds_nothing(rows: Rows) -> Iterator[str]:
    """The part of I16 about rows: a job that is over has no live attempt, and that no device."""
    jobs, attempts, ranks = rows.by_id("job"), rows.by_id("attempt"), rows.by_id("placement")
    for attempt in attempts.values():
        job = jobs[attempt["job_id"]]
        lives = attempt["state"] != AttemptState.ENDED and job["state"] in FINAL_JOB_STATES
        words = f"job {job['id']} is {job['state']}, its attempt {attempt['id']} is"
        yield f"{words} {attempt['state']}" if lives else ""
    for held in rows.rows("allocation"):
        attempt = attempts[ranks[held["placement_id"]]["attempt_id"]]
        still = held["released_at"] is None and attempt["state"] == AttemptState.ENDED
        yield f"attempt {attempt['id']} has ended and holds a device" if still else ""


def every_change_has_its_event(rows: Rows) -> Iterator[str]:
    """I20: a job's version, which counts changes, is one more than its events that change it."""
    changed: dict[int, int] = {}
    for event in rows.rows("jobevent"):
        if _is_change(event):
            changed[event["job_id"]] = changed.get(event["job_id"], 0) + 1
    for job in rows.rows("job"):
        events = changed.get(job["id"], 0)
        right = job["version"] == events + 1
        words = f"job {job['id']} changed {job['version'] - 1} times and has {events} events"
        yield "" if right else words


def _is_change(event: Row) -> bool:
    is_move = event["from_state"] and event["from_state"] != event["to_state"]
    return bool(is_move or event["kind"] in _CHANGES)
