"""What happened, seen from outside: one JSON line per fact, and the final rows of the database.

A line has `kind` and `at` (epoch seconds) and, by kind:

submit    key, status (0: no answer came), jobs (numbers that were answered), sent (digest)
cancel    job, status
fault     name, number (of the plan of faults), target, until, recovered_s
start     job, attempt, fence, rank, devices: written by the program itself, as are the next four
exit      job, attempt, fence, rank, code
lines     job, attempt, fence, rank, count: how many lines it had printed before its end
clash     job, fence, what: another program still held the lock of its job or its device
trespass  job, fence, what: it wrote where it may not, read what it may not, shot its guard
resumed   job, attempt, fence, rank, step
left      what: a lock that some process still held when all was over
shown     job, state: as the API said at the end; listed: that was all it said
overdue   job, state: not over long after the last fault
peek      job, status: a stranger asked for it
revoked   token, what (a token unless said); used: the same, status; frame: the same, a socket's
page      jobs, missed, closed: an open page, and what it was not told of the jobs it watched
quiet     shows: a page that was open after the storm, until now: jobs with the state it shows
entered   job, ticket, status: a session's ticket was used (303: it let in)
reached   job, app, ok, again: somebody wanted to talk to a session's program, and came back
answered  job, by: a session's program says which job it is
hook      webhook: it tells the harness from now on
call      delivery, digest, signed, status: a call of it, and what it was answered (0: nothing)
chat      webhook: a chat of the harness is told a person's news from now on
message   webhook, digest, status: one of its messages, and what it was answered (0: nothing)
grouped   key, group, policy: a job of a group, noted before it is asked for
placed    key, pools, project: in which pools a job may run, noted before it is asked for
moved     job, pools, status, sent_at: it was to wait there instead (0: nobody answered)
joined    key, before: the tasks of one array wait for those of another, index by index
schedule  schedule, what, status: made, changed, paused, run, deleted; resuming: to be asked for
repeated  schedule, came: whether an active one was carried out once all was quiet
verified  ok, words: what `verify_ledger` said
audit     events, seals, unsealed, broken: what `verify_audit` read once all was sealed
heard     node, times: when it asked, and when it was answered, in pairs
acknowledged  node, sizes: of which attempt and rank how much of the log was told to be stored
budget    gpu_seconds or money: what it is raised to, noted before it is asked for
restored  starts, clashes, left: after the rows were put back to what they had been before
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from scheduler.invariants.rows import Row, Rows


class Diary:
    """Appends facts to a file, from any thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._file = path.open("a", encoding="utf-8")

    def note(self, kind: str, **facts: Any) -> None:
        """Write one fact down; `at` is now unless given."""
        line = json.dumps({"kind": kind, "at": time.time(), **facts})
        with self._lock:
            # Who has not gone home when a run is cut short has nothing to tell any more.
            if not self._file.closed:
                self._file.write(line + "\n")
                self._file.flush()

    def close(self) -> None:
        """No more facts."""
        with self._lock:
            self._file.close()


def read_lines(path: Path) -> list[Row]:
    """All facts of a history file, in the order they were written."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


@dataclass(frozen=True)
class Evidence(Rows):
    """A history and the rows that were there at its end: what invariants are checked on.

    `tables`: rows by table name without its app, times as epoch seconds. `pieces`: stored bytes
    by path. `rules`: the figures of the run, such as `needle`, a secret that no log may show.
    """

    facts: Iterable[Row] = ()
    tables: Mapping[str, Iterable[Row]] = field(default_factory=dict)
    pieces: Mapping[str, bytes] = field(default_factory=dict)
    rules: Mapping[str, Any] = field(default_factory=dict)

    def real(self, moment: float) -> float:
        """A moment of the installation's clocks, which may have been put forward, by ours."""
        ahead_s = 0.0
        for at, by_s in self.rules.get("steps", ()):
            if moment <= at + ahead_s:
                break
            # What lies between was skipped: nothing but a deadline can be there.
            moment = max(moment, at + ahead_s + by_s)
            ahead_s += by_s
        return moment - ahead_s

    def told(self, kind: str) -> list[Row]:
        """All facts of one kind."""
        return self._by_kind.get(kind, [])

    @cached_property
    def _by_kind(self) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = {}
        for fact in self.facts:
            found.setdefault(fact["kind"], []).append(fact)
        return found
