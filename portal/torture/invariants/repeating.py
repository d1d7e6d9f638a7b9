"""Jobs that come again: I34 and I35, as programs say and as the database wrote it down with each
commit (`torture_run` and `torture_due`, which `people/limits.py` makes)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from portal.torture.history import Evidence
from portal.torture.program import DUE_EVERY_S, ON_TIME_S, STOP_GRACE_S
from scheduler.invariants import recurring
from scheduler.invariants.rows import CLOSE_S, FOREVER, Row, Rows

_PATIENCE_S = 90.0
# Rows round a moment otherwise than a reckoning does; an end may be dated by another's clock.
_ROUNDED_S, _SETTLED_S = 0.01, 5.0


def jobs_of_schedules(evidence: Evidence) -> set[int]:
    """Jobs that a schedule asked for, also one that is deleted by now."""
    return {row["job_id"] for row in evidence.rows("torture_run")} - {None}


def due_times_come_once(evidence: Evidence) -> Iterator[str]:
    """I34: a due time comes to one job at most, and none is passed over in silence: a next time
    moves only with the row that says what came of it, by the rule of missed times, or because
    somebody moved it before it had come. And once all is quiet schedules go on."""
    yield from recurring.due_times_come_once(_told(evidence))
    runs = evidence.grouped("torture_run", "inside")
    for move in evidence.rows("torture_due"):
        inside = [one for one in runs.get(move["inside"], ()) if not one["by_hand"]]
        mine = [one for one in inside if one["schedule_id"] == move["schedule_id"]]
        words = _passed_over(move, mine)
        yield f"schedule {move['schedule_id']}: {words}" if words else ""
    for said in evidence.told("repeated"):
        words = f"schedule {said['schedule']} was not carried out though all was quiet"
        yield "" if said["came"] else words


def _told(evidence: Evidence) -> Rows:
    """Rows with all that ever came of due times."""
    return Rows({**evidence.tables, "jobschedulerun": evidence.rows("torture_run")})


def _passed_over(move: Row, runs: list[Row]) -> str:
    was = move["was"]
    if was is None:
        return ""
    if move["version"] == move["version_was"]:
        return _carried_out(was, runs[0]) if runs else f"{was:.0f} was due and nothing came of it"
    if was > move["paused_at" if move["next"] is None else "counted_from"]:
        return ""
    if move["next"] is None:
        skipped = [one for one in runs if abs(one["due_at"] - was) < _ROUNDED_S]
        return "" if skipped else f"{was:.0f} was due, it was paused and nothing came of it"
    return f"{was:.0f} was due, it was changed and nothing came of it"


def _carried_out(first: float, run: Row) -> str:
    """Whether this is what had to come of all times since `first`."""
    last = run["at"] // DUE_EVERY_S * DUE_EVERY_S
    bound_s = max(run["late_within_s"], ON_TIME_S) + _ROUNDED_S
    due = last if last >= first - _ROUNDED_S and run["at"] - last <= bound_s else None
    if due is None:
        is_right = run["outcome"] == "missed" and abs(run["due_at"] - first) < _ROUNDED_S
        return "" if is_right else f"{run['due_at']:.0f} was {run['outcome']}, and is missed"
    if run["outcome"] == "missed" or abs(run["due_at"] - due) > _ROUNDED_S:
        return f"{run['due_at']:.0f} was {run['outcome']} where {due:.0f} was due"
    is_silent = due > first + _ROUNDED_S and "since" not in run["said"]
    return f"{run['due_at']:.0f} stands for others and does not say so" if is_silent else ""


def jobs_take_turns(evidence: Evidence) -> Iterator[str]:
    """I35: no two jobs of a schedule run at the same time, by the rows and by the programs' own
    words; one comes only where its schedule lets it; and who is paused submits nothing."""
    yield from recurring.jobs_take_turns(_told(evidence))
    yield from recurring.paused_ones_rest(evidence)
    for schedule, runs in evidence.grouped("torture_run", "schedule_id").items():
        yield from _programs_take_turns(evidence, schedule, runs)
        for turn, run in enumerate(runs):
            if run["job_id"] is not None:
                words = _too_many(evidence, run, runs[:turn])
                yield f"schedule {schedule}: job {run['job_id']} {words}" if words else ""
    yield from _paused_and_asked(evidence)


def _programs_take_turns(evidence: Evidence, schedule: int, runs: list[Row]) -> Iterator[str]:
    begun, done = dict[int, float](), dict[int, float]()
    mine = {run["job_id"] for run in runs} - {None}
    for said in evidence.told("start"):
        if said["job"] in mine:
            begun[said["job"]] = min(begun.get(said["job"], FOREVER), said["at"])
    for said in evidence.told("exit"):
        if said["job"] in mine:
            done[said["job"]] = max(done.get(said["job"], 0.0), said["at"])
    latest, who = 0.0, 0
    for job, at in sorted(begun.items(), key=lambda one: one[1]):
        words = f"schedule {schedule}: the programs of jobs {who} and {job} ran together"
        yield words if at < latest - CLOSE_S else ""
        latest, who = max((latest, who), (done.get(job, 0.0), job))


def _too_many(evidence: Evidence, run: Row, before: list[Row]) -> str:
    """Of the jobs before it those that were open when it was committed, against what it says."""
    jobs = evidence.by_id("job")
    since = [jobs.get(one["job_id"]) for one in before if one["job_id"] is not None]
    ends = [_ended(evidence, job) - run["noted_at"] for job in since if job is not None]
    still = [end_s for end_s in ends if end_s > _SETTLED_S]
    if run["overlap"] == "replace":
        patience_s = evidence.rules.get("stop_within_s", _PATIENCE_S) + STOP_GRACE_S
        late_s = max(still, default=0.0)
        if late_s < FOREVER and late_s > patience_s + evidence.rules["lost_after_s"]:
            return f"replaced one that went on for {late_s:.0f} s"
        return ""
    most = run["most_open"] if run["overlap"] == "queue" else 1
    return f"came while {len(still)} were open" if len(still) >= most else ""


def _ended(evidence: Evidence, job: Row) -> float:
    return FOREVER if job["ended_at"] is None else evidence.real(job["ended_at"])


def _paused_and_asked(evidence: Evidence) -> Iterator[str]:
    """From the answer to a pause until it goes on nothing comes by itself; from that to a delete,
    never. And it goes on only as often as somebody asked for it."""
    moves = evidence.grouped("torture_due", "schedule_id")
    runs = evidence.grouped("torture_run", "schedule_id")
    asked: Counter[int] = Counter()
    for said in evidence.told("schedule"):
        schedule, what = said["schedule"], said["what"]
        asked[schedule] += what == "resuming"
        if said["status"] != 200 or what not in ("pause", "delete"):
            continue
        later = (m["noted_at"] for m in moves.get(schedule, ()) if m["was"] is None)
        until = min((at for at in later if at > said["at"]), default=FOREVER)
        until = FOREVER if what == "delete" else until
        rests = [one for one in runs.get(schedule, ()) if said["at"] < one["noted_at"] < until]
        broken = any(not one["by_hand"] or what == "delete" for one in rests)
        yield f"schedule {schedule} went on after the answer to its {what}" if broken else ""
    for schedule, mine in moves.items():
        resumed = sum(move["was"] is None for move in mine)
        words = f"schedule {schedule} was resumed {resumed} times, asked {asked[schedule]} times"
        yield words if resumed > asked[schedule] else ""
