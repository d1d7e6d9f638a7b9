"""What is left when all is quiet: rows, stored logs, locks, how things went on; and the figures."""

from __future__ import annotations

import fcntl
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from email import message_from_bytes
from email.policy import default
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import dict_row

from portal.bench.figures import machine, percentile
from portal.torture.history import Evidence
from portal.torture.invariants import check_all
from portal.torture.invariants.neighbours import attempts_of, gaps_beside
from portal.torture.invariants.rows import TABLES, plain, source_of
from portal.torture.moves import figures_of_moves, figures_of_pools
from scheduler.invariants.rows import Row

if TYPE_CHECKING:
    from portal.torture.run import Choice

_MAX_SHOWN = 20
_FINAL = ("succeeded", "failed", "cancelled")
_LOCKS_GONE_S = 20.0


def read_tables(database: str) -> dict[str, list[Row]]:
    """Every row that an invariant looks at; moments as epoch seconds."""
    found: dict[str, list[Row]] = {}
    with psycopg.connect(database, row_factory=dict_row) as line:
        # All of one moment, also while others write.
        line.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        for table in TABLES:
            rows = line.execute(f'SELECT * FROM "{source_of(table)}"')  # noqa: S608 - our own names
            found[table] = [plain(row) for row in rows]
    return found


def read_pieces(store: Path, chunks: Iterable[Row]) -> dict[str, bytes]:
    """The stored bytes of logs by path; what is missing is left out."""
    found = {}
    for row in chunks:
        path = store / row["path"]
        if path.exists():
            found[row["path"]] = path.read_bytes()
    return found


def wait_for_the_end(
    database: str, patience_s: float, *, or_if: Callable[[], bool] = lambda: False
) -> list[tuple[int, str]]:
    """Jobs that are not over, at the latest after `patience_s`: number and state."""
    deadline = time.monotonic() + patience_s
    while True:
        left = unfinished(database)
        if left == [] or time.monotonic() > deadline or or_if():
            return left or []
        time.sleep(0.5)


def unfinished(database: str) -> list[tuple[int, str]] | None:
    """Jobs that are not over: number and state; None where the database is away."""
    try:
        with psycopg.connect(database, connect_timeout=3) as line:
            rows = line.execute(
                "SELECT id, state FROM scheduler_job WHERE state <> ALL(%s)", [list(_FINAL)]
            )
            return [(int(pk), str(state)) for pk, state in rows]
    except psycopg.Error:
        return None


def subjects_of_mails(folder: Path) -> list[str]:
    """What was really sent, a subject a mail: without a server of mails they become files."""
    found = []
    for path in folder.glob("*") if folder.is_dir() else ():
        # A mail is one message, and only a line of dashes stands between two.
        for text in path.read_bytes().split(b"-" * 79):
            subject = message_from_bytes(text.strip(), policy=default)["subject"]
            if subject:
                found.append(str(subject).removeprefix("Trainyard: "))
    return found


def locks_still_held(folder: Path) -> list[str]:
    """Names of locks that some process still holds, when there was time to let go."""
    deadline = time.monotonic() + _LOCKS_GONE_S
    while True:
        held = [path.name for path in folder.iterdir() if _is_held(path)]
        if not held or time.monotonic() > deadline:
            return held
        time.sleep(0.5)


def _is_held(path: Path) -> bool:
    with path.open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def recovery_by_kind(evidence: Evidence) -> dict[str, Any]:
    """Per kind of fault: how long after its end the next program began, on that node if it hit one.

    Programs start all the time; how long they did not is what the fault cost. What people did,
    hostile programs and cancels, is over when the attempt is.
    """
    nodes = {row["id"]: row["name"] for row in evidence.rows("node")}
    node_of = {
        (row["attempt_id"], row["rank"]): nodes[row["node_id"]]
        for row in evidence.rows("placement")
    }
    starts = sorted(
        (said["at"], node_of.get((said["fence"], said["rank"]), ""))
        for said in evidence.told("start")
    )
    took: dict[str, list[float]] = {}
    for fault in evidence.told("fault"):
        here, until = (
            fault["target"] if fault["target"] in nodes.values() else "",
            fault.get("until"),
        )
        last = attempts_of(evidence, fault)[-1:] if until is None else []
        if last and last[0]["ended_at"] is not None:
            here, until = node_of.get((last[0]["id"], 0), ""), evidence.real(last[0]["ended_at"])
        if until is None:
            continue
        later = (at for at, node in starts if at >= until and here in ("", node))
        following = next(later, None)
        if following is not None:
            took.setdefault(fault["name"], []).append(following - until)
    return {
        name: {"p50": percentile(each, 0.5), "max": round(max(each), 1)}
        for name, each in sorted(took.items())
    }


def ends_by_kind(evidence: Evidence) -> dict[str, dict[str, int]]:
    """Per kind of what people did to the nodes: why the attempts it was done to, or by, ended."""
    ends: dict[str, Counter[str]] = {}
    for fault in evidence.told("fault"):
        if fault.get("until") is None:
            mine = ends.setdefault(fault["name"], Counter())
            mine.update(attempt["end_reason"] for attempt in attempts_of(evidence, fault))
    return {name: dict(count.most_common()) for name, count in sorted(ends.items())}


def figures_of(choice: Choice, evidence: Evidence) -> dict[str, Any]:
    """Check every invariant, and count what there was to look at."""
    found = check_all(evidence)
    breaks = [words for finding in found.values() for words in finding.breaks]
    by_kind = Counter(fault["name"] for fault in evidence.told("fault"))
    by_number = Counter(fault["number"] for fault in evidence.told("fault"))
    return {
        "torture": choice.plant or "none planted",
        "minutes": choice.minutes,
        "seed": choice.seed,
        "agents": choice.agents,
        "pools": figures_of_pools(evidence, choice.pools),
        "divide": choice.divide,
        "faults": sum(by_kind.values()),
        "faults_by_kind": dict(sorted(by_kind.items())),
        "faults_by_number": {str(number): by_number[number] for number in sorted(by_number)},
        "jobs": len(evidence.rows("job")),
        "jobs_by_state": dict(Counter(job["state"] for job in evidence.rows("job"))),
        "attempts": len(evidence.rows("attempt")),
        "own_5xx": _own_errors(evidence),
        "ends": dict(Counter(each["end_reason"] for each in evidence.rows("attempt"))),
        "looked_at": {name: finding.looked_at for name, finding in found.items()},
        "not_looked_at": [name for name, finding in found.items() if not finding.looked_at],
        "breaks": len(breaks),
        "broken": breaks[:_MAX_SHOWN],
        "planted": int(bool(choice.plant)),
        "planted_found": int(bool(choice.plant) and _is_shown(breaks, choice.watch)),
        "recovery_s": recovery_by_kind(evidence),
        **figures_of_moves(evidence),
        "ends_by_kind": ends_by_kind(evidence),
        "beside_hostile_s": _renewals(evidence),
        "pages": _pages(evidence),
        "calls": _calls(evidence),
        "asked": _asked(evidence),
        "sessions": _sessions(evidence),
        "schedules": _schedules(evidence),
        "groups": _groups(evidence),
        **machine(),
    }


def _renewals(evidence: Evidence) -> dict[str, float]:
    """How long nodes were not heard while hostile programs, and no other fault, were at work."""
    gaps = [answered - asked for _, asked, answered in gaps_beside(evidence)]
    return {"count": len(gaps), "p99": percentile(gaps, 0.99)} if gaps else {"count": 0}


def _pages(evidence: Evidence) -> dict[str, int]:
    """Open pages: how many, of how many jobs they heard, what they had not been told by then, and
    how many were closed under their people."""
    pages = evidence.told("page")
    return {
        "opened": len(pages),
        "jobs": sum(page["jobs"] for page in pages),
        "missed": sum(page["missed"] for page in pages),
        "closed": sum(page["closed"] for page in pages),
    }


def _calls(evidence: Evidence) -> dict[str, int]:
    """Calls to a webhook: how many came, of how many deliveries, and how many were not taken."""
    calls = evidence.told("call")
    different = {call["delivery"] for call in calls}
    untaken = sum(call["status"] != 200 for call in calls)
    return {"made": len(calls), "deliveries": len(different), "not_taken": untaken}


def _asked(evidence: Evidence) -> dict[str, int]:
    """What was asked for beforehand and came about: tries by rules, jobs that a moment ended, tasks
    that waited for their own, warnings of idle GPUs and what followed; messages to the chat."""
    moments = {"finish_by_missed", "finish_by_reached"}
    rested = {"idle_paused", "idle_stopped"}
    tries = [row for row in evidence.rows("attempt") if row["triage"].get("then") == "rule"]
    return {
        "tries_by_rule": len(tries),
        "ended_by_moment": sum(row["end_reason"] in moments for row in evidence.rows("job")),
        "waits": len(evidence.rows("dependency")),
        "warned": len(evidence.rows("idlewarning")),
        "rested": sum(row["end_reason"] in rested for row in evidence.rows("attempt")),
        "messages": len(evidence.told("message")),
    }


def _sessions(evidence: Evidence) -> dict[str, int]:
    """Sessions: how many people wanted to work in, whose program was reached, and once more; how
    many were over while somebody was still there."""
    tries = evidence.told("reached")
    over = {said["token"] for said in evidence.told("used") if said.get("what") == "tunnel"}
    return {
        "opened": len({said["job"] for said in tries}),
        "reached": sum(said["ok"] for said in tries if not said["again"]),
        "again": sum(said["ok"] for said in tries if said["again"]),
        "over": len(over),
    }


def _schedules(evidence: Evidence) -> dict[str, int]:
    """Schedules: how many were made, what came of their due times, and how often they were run by
    hand."""
    made = [said for said in evidence.told("schedule") if said["what"] == "make"]
    runs = evidence.rows("torture_run")
    came = Counter(str(run["outcome"]) for run in runs if not run["by_hand"])
    by_hand = sum(bool(run["by_hand"]) for run in runs)
    return {"made": len(made), **dict(sorted(came.items())), "by_hand": by_hand}


def _groups(evidence: Evidence) -> dict[str, int]:
    """Groups: how many jobs and arrays were sent, how many jobs came, gave way to a newer one, and
    had a highest price."""
    jobs = [row for row in evidence.rows("job") if row.get("group_name")]
    return {
        "sent": len(evidence.told("grouped")),
        "jobs": len(jobs),
        "superseded": sum(row["end_reason"] == "superseded" for row in jobs),
        "priced": sum(row.get("max_cost_steps") is not None for row in jobs),
    }


def _is_shown(breaks: Iterable[str], shows: Sequence[str]) -> bool:
    """Whether one of the invariants that have to show a planted bug is among the broken."""
    return any(words.partition(":")[0] in shows for words in breaks)


def _own_errors(evidence: Evidence) -> dict[str, int]:
    """How often the portal itself could not serve a submit: 503 where it knows why."""
    told: Counter[str] = Counter()
    for submit in evidence.told("submit"):
        if submit.get("words"):
            told[str(submit["status"])] += 1
            if submit["status"] != 503:
                told[submit["words"]] += 1
    return dict(told.most_common(_MAX_SHOWN))
