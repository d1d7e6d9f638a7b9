"""What is looked at on the health page: facts in, a word, a sentence and a remedy out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from portal.beats import BEGAN, Run
from portal.fallen import Fallen
from portal.pages.ops.regular import CLOCK_SLACK, Task, Tone
from portal.templatetags.measures import duration
from portal.templatetags.moments import local
from scheduler.selectors.machines.wellbeing import Wellbeing
from scheduler.states import NodeState

SLOW_MS, VERY_SLOW_MS = 100, 1000
SLOW_CYCLE_MS = 1000
UNSEEN, UNSEEN_LONG = timedelta(seconds=15), timedelta(minutes=2)
UNSEALED, UNSEALED_LONG = timedelta(minutes=2), timedelta(minutes=15)
MAIL_LATE, MAIL_VERY_LATE = timedelta(minutes=10), timedelta(hours=2)
RECONCILED, RECONCILED_LONG = timedelta(hours=26), timedelta(days=3)
BACKED_UP, BACKED_UP_LONG = timedelta(hours=26), timedelta(days=3)
FULL, VERY_FULL = 0.80, 0.92
WORKER_GONE = timedelta(minutes=2)
Grade = TypeVar("Grade", float, timedelta)
_PROMISED = "What must always hold, such as that no GPU is held twice,"
START_WORKER = "Is a worker running? systemctl status trainyard-worker@default"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at; remedy only where something is to be done."""

    name: str
    tone: Tone
    words: str
    remedy: str = ""
    route: str = ""


@dataclass(frozen=True, slots=True)
class Disk:
    """Of the folder that the server writes to."""

    used: int
    total: int


def every_check(
    seen: Wellbeing,
    *,
    runs: Mapping[str, Run] | None,
    tasks: list[Task],
    disk: Disk,
    backed_up_at: datetime | None,
    has_stamp: bool,
    fallen: Sequence[Fallen],
    now: datetime,
) -> list[Check]:
    """In the order in which one would look: what everything else stands on first."""
    began = (runs or {}).get(BEGAN)
    # What happens once a day has not happened on the first one.
    is_new = began is not None and now - began.at <= RECONCILED
    return [
        *_programs(fallen),
        _database(seen),
        _broker(runs),
        _workers(runs, tasks, now),
        _scheduler(seen, now),
        _waiting(seen, now),
        _agents(seen, now),
        _events(seen, now),
        _mails(seen, now),
        _books(seen, is_new, now),
        _promises(seen, is_new, now),
        _disk(disk),
        _backup(backed_up_at, has_stamp, now),
    ]


def _programs(fallen: Sequence[Fallen]) -> Iterator[Check]:
    """Nothing where all stay up, or somebody else looks after them."""
    if not fallen:
        return
    words = ", ".join(f"{one.name} (again at {local(one.again_at):%H:%M})" for one in fallen)
    remedy = "The log that is called like it, in the folder logs of the state folder, says why."
    yield Check("Programs", Tone.BAD, f"Does not stay up: {words}.", remedy)


def _database(seen: Wellbeing) -> Check:
    words = f"Answers in {seen.answered_ms:.0f} ms."
    tone = _graded(seen.answered_ms, SLOW_MS, VERY_SLOW_MS)
    remedy = "Look for long statements and a full disk; SQLite is for one machine and few jobs."
    return Check("Database", tone, words, remedy if tone != Tone.GOOD else "")


def _broker(runs: Mapping[str, Run] | None) -> Check:
    if runs is not None:
        return Check("Broker", Tone.GOOD, "Answers.")
    words = "Does not answer: pages are not live, mails and reports wait. Jobs go on."
    remedy = "Start Valkey or Redis, and look whether REDIS_URL names it."
    return Check("Broker", Tone.BAD, words, remedy)


def _workers(runs: Mapping[str, Run] | None, tasks: list[Task], now: datetime) -> Check:
    name = "Workers"
    if runs is None:
        return Check(name, Tone.LOOK, "Not known without the broker.")
    ends = [run.at for run in runs.values() if run.at - now <= CLOCK_SLACK]
    if not ends:
        since = "the clock was put back" if runs else "the broker began"
        return Check(name, Tone.BAD, f"No task has run since {since}.", START_WORKER)
    if (silence := now - max(ends)) > WORKER_GONE:
        words = f"No task has ended for {duration(silence)}."
        return Check(name, Tone.BAD, words, f"{START_WORKER} And beat, which hands tasks out?")
    failed = [task.name for task in tasks if task.tone == Tone.BAD]
    if failed:
        words = f"At work, but failed at last: {', '.join(failed)}."
        return Check(name, Tone.BAD, words, "The worker's log has the reason.")
    late = [task.name for task in tasks if task.tone == Tone.LOOK]
    if late:
        return Check(name, Tone.LOOK, f"At work; late or not yet run: {', '.join(late)}.")
    return Check(name, Tone.GOOD, "At work; every regular task is in time.")


def _scheduler(seen: Wellbeing, now: datetime) -> Check:
    name = "Scheduler"
    if seen.lease_until is None or seen.lease_until <= now:
        words = "Nobody holds the lease: no job starts."
        remedy = "Start a worker for the queue scheduling. If one runs, its log says why it cannot."
        return Check(name, Tone.BAD, words, remedy)
    words = f"Jobs are started by {seen.lease_holder}."
    if seen.cycle_at is None:
        return Check(name, Tone.GOOD, f"{words} No cycle has had anything to do yet.")
    words = f"{words} The last cycle that did something was {_ago(seen.cycle_at, now)}"
    took_ms = seen.cycle_ms or 0.0
    words = f"{words} and took {took_ms:.0f} ms."
    if took_ms > SLOW_CYCLE_MS:
        return Check(name, Tone.LOOK, words, "manage.py snapshot keeps one to look at.")
    return Check(name, Tone.GOOD, words)


def _waiting(seen: Wellbeing, now: datetime) -> Check:
    name = "Waiting jobs"
    if seen.unseen_since is None:
        return Check(name, Tone.GOOD, "Each knows why it waits.")
    age = now - seen.unseen_since
    words = f"One waits for {duration(age)} and nothing stands in its way."
    tone = _graded(age, UNSEEN, UNSEEN_LONG)
    remedy = "The scheduler falls behind, has stopped or plans in vain: the line above, its log."
    return Check(name, tone, words, remedy if tone != Tone.GOOD else "", "queue:list")


def _agents(seen: Wellbeing, now: datetime) -> Check:
    counts = {one.state: one for one in seen.nodes}
    if not counts:
        return Check("Agents", Tone.LOOK, "No node is enrolled yet.", "Enrol one.", "nodes:enrol")
    said = ", ".join(f"{one.count} {state}" for state, one in counts.items())
    away = [counts[state] for state in (NodeState.SILENT, NodeState.LOST) if state in counts]
    if unheard := sum(one.uncounted for one in seen.nodes):
        words = f"{said}; nothing starts: after the restore {unheard} did not say what runs there."
        return Check("Agents", Tone.BAD, words, "Retire a node that stays away.", "nodes:list")
    if away:
        oldest = min((one.oldest for one in away if one.oldest), default=None)
        since = f"; the longest was heard {_ago(oldest, now)}" if oldest else ""
        remedy = "On the node: systemctl status trainyard-agent. Its jobs are given up later."
        return Check("Agents", Tone.BAD, f"{said}{since}.", remedy, "nodes:list")
    if NodeState.QUARANTINED in counts:
        remedy = "The node's page says what is wrong with it."
        return Check("Agents", Tone.LOOK, f"{said}.", remedy, "nodes:list")
    return Check("Agents", Tone.GOOD, f"{said}.", route="nodes:list")


def _events(seen: Wellbeing, now: datetime) -> Check:
    if seen.unsealed_since is None:
        return Check("Audit chain", Tone.GOOD, "Every event is sealed.", route="audit:list")
    age = now - seen.unsealed_since
    tone = _graded(age, UNSEALED, UNSEALED_LONG)
    words = f"The oldest event that waits for its seal is {duration(age)} old."
    remedy = f"{START_WORKER} A long transaction holds seals back, too."
    return Check("Audit chain", tone, words, remedy if tone != Tone.GOOD else "", "audit:list")


def _mails(seen: Wellbeing, now: datetime) -> Check:
    waits = f"{seen.mails_waiting} waiting" if seen.mails_waiting else "None waits"
    due = seen.mail_due_since
    age = now - due if due and due < now else timedelta()
    tone = _graded(age, MAIL_LATE, MAIL_VERY_LATE)
    words = f"{waits}{f', the oldest for {duration(age)}' if age else ''}."
    remedy = "" if tone == Tone.GOOD else "Does the server of EMAIL_URL take mail?"
    if seen.mails_given_up:
        words = f"{words} {seen.mails_given_up} given up within a day."
        tone = Tone.BAD if tone == Tone.BAD else Tone.LOOK
        remedy = "The worker's log names the addresses that were refused."
    return Check("Mails", tone, words, remedy)


def _books(seen: Wellbeing, is_new: bool, now: datetime) -> Check:
    name, route = "Books", "finance:index"
    if seen.reconciled_at is None:
        tone = Tone.UNKNOWN if is_new else Tone.LOOK
        return Check(name, tone, "Not reconciled yet; that happens once a day.", "", route)
    words = f"Reconciled {_ago(seen.reconciled_at, now)}"
    if not seen.reconciled:
        remedy = "Finance sees which check failed; manage.py verify_ledger looks again."
        return Check(name, Tone.BAD, f"{words}: something does not tie together.", remedy, route)
    tone = _graded(now - seen.reconciled_at, RECONCILED, RECONCILED_LONG)
    remedy = START_WORKER if tone != Tone.GOOD else ""
    return Check(name, tone, f"{words}; all ties together.", remedy, route)


def _promises(seen: Wellbeing, is_new: bool, now: datetime) -> Check:
    name = "Promises"
    if seen.promises_at is None:
        tone = Tone.UNKNOWN if is_new else Tone.LOOK
        return Check(name, tone, f"{_PROMISED} is checked once a day; not yet.")
    words = f"{_PROMISED} was checked {_ago(seen.promises_at, now)}"
    if seen.promises_broken:
        times = "once" if seen.promises_broken == 1 else f"{seen.promises_broken} times"
        remedy = "manage.py verify_invariants looks again and names all; see the operator's book."
        words = f"{words}: broken {times}. The first: {seen.first_break}."
        return Check(name, Tone.BAD, words, remedy)
    if not seen.promises_whole:
        remedy = "manage.py verify_invariants takes as long as it needs."
        return Check(name, Tone.LOOK, f"{words}; there was not time for all.", remedy)
    tone = _graded(now - seen.promises_at, RECONCILED, RECONCILED_LONG)
    return Check(name, tone, f"{words}; it holds.", START_WORKER if tone != Tone.GOOD else "")


def _disk(disk: Disk) -> Check:
    share = disk.used / disk.total if disk.total else 1.0
    tone = _graded(share, FULL, VERY_FULL)
    used, free = f"{100 * share:.0f} %", _gib(disk.total - disk.used)
    words = f"{used} of the state folder's disk is used, {free} free."
    remedy = "Shorten how long logs and files are kept (TRAINYARD_KEEP_LOG_DAYS), or add disk."
    return Check("Disk", tone, words, remedy if tone != Tone.GOOD else "")


def _backup(at: datetime | None, has_stamp: bool, now: datetime) -> Check:
    name = "Back-up"
    if not has_stamp:
        remedy = "Name in TRAINYARD_BACKUP_STAMP a file that your back-up touches at its end."
        return Check(name, Tone.LOOK, "Nobody says when the last one was made.", remedy)
    if at is None:
        remedy = "Let the back-up touch the file of TRAINYARD_BACKUP_STAMP at its end."
        return Check(name, Tone.BAD, "None was made yet.", remedy)
    tone = _graded(now - at, BACKED_UP, BACKED_UP_LONG)
    remedy = "Look at the job that makes it, and try a restore."
    return Check(name, tone, f"Made {_ago(at, now)}.", remedy if tone != Tone.GOOD else "")


def _graded(value: Grade, look: Grade, bad: Grade) -> Tone:
    return Tone.BAD if value > bad else Tone.LOOK if value > look else Tone.GOOD


def _ago(at: datetime, now: datetime) -> str:
    return f"{duration(max(now - at, timedelta()))} ago"


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
