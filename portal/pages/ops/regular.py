"""Whether regular tasks run in time; and how well something is, in a word and a colour."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from portal.beats import BEGAN, Run

CLOCK_SLACK = timedelta(minutes=1)


class Tone(StrEnum):
    """Green, grey, amber, red; the word that is shown beside the colour."""

    GOOD = "good"
    UNKNOWN = "unknown"
    LOOK = "look"
    BAD = "bad"

    @property
    def word(self) -> str:
        """As the page says it."""
        return _TONES[self]


_TONES = {
    Tone.GOOD: "good",
    Tone.UNKNOWN: "not checked yet",
    Tone.LOOK: "worth a look",
    Tone.BAD: "needs a hand",
}


@dataclass(frozen=True, slots=True)
class Task:
    """A regular task: what it does, every so many seconds, and the end of its last run."""

    name: str
    does: str
    every_s: float
    run: Run | None
    tone: Tone
    words: str


def regular_tasks(
    every_s: Mapping[str, float], runs: Mapping[str, Run] | None, now: datetime
) -> Iterator[Task]:
    """Each task with how late it is: two more turns than its own are still good."""
    began = (runs or {}).get(BEGAN)
    for name, seconds in every_s.items():
        run = (runs or {}).get(name)
        word = name.rpartition(".")[2]
        short, does = word.replace("_", " "), DOES.get(word, word)
        if runs is None:
            yield Task(short, does, seconds, None, Tone.LOOK, "not known without the broker")
        elif run is None and began is not None and now - began.at <= _patience(seconds):
            yield Task(short, does, seconds, None, Tone.UNKNOWN, "not due yet")
        elif run is None:
            yield Task(short, does, seconds, None, Tone.LOOK, "has not run since the broker began")
        elif not run.succeeded:
            yield Task(short, does, seconds, run, Tone.BAD, "failed; the worker's log says why")
        elif run.at - now > CLOCK_SLACK:
            yield Task(short, does, seconds, run, Tone.LOOK, "late: the clock was put back")
        elif now - run.at > _patience(seconds):
            yield Task(short, does, seconds, run, Tone.LOOK, "late")
        else:
            yield Task(short, does, seconds, run, Tone.GOOD, "in time")


# By the task's name; what a page says that it does.
DOES: Mapping[str, str] = {
    "seal_audit": "Seals the audit trail",
    "tend_sessions": "Stops sessions that nobody uses",
    "tend_idle_jobs": "Warns and stops jobs whose GPUs do little",
    "submit_due_jobs": "Submits the jobs of schedules",
    "sum_hours": "Sums up readings of jobs",
    "simulate_requests": "Works out what-ifs and scenarios",
    "send_mails": "Sends mails",
    "send_webhooks": "Tells chats and webhooks",
    "tend_requests": "Reminds of requests, and closes them",
    "tell_budget_alerts": "Warns of budgets",
    "tell_late_jobs": "Tells owners of late jobs",
    "accrue_usage": "Books the usage of full hours",
    "prune_telemetry": "Deletes old readings",
    "renew_node_tokens": "Renews tokens of nodes",
    "count_hours": "Counts waits by the hour",
    "learn_wait_limits": "Learns how long jobs may have to wait",
    "prune_submit_keys": "Forgets old keys of submits",
    "forget_sign_ins": "Forgets sign-ins that are over",
    "prune_kept": "Deletes logs and files kept long enough",
    "prune_notifications": "Deletes old notifications",
    "close_months": "Closes the months that are due",
    "count_months": "Counts the months that people asked for",
    "reconcile_books": "Checks that the books agree",
    "check_invariants": "Checks what must always hold",
    "learn_sizes": "Tells the database how large its tables are",
    "mail_reports": "Mails the reports that are due",
    "make_files": "Makes the files of reports",
    "count_warnings": "Counts warnings in logs of ended jobs",
    "tend_demo": "Loads or removes the demonstration",
}


def by_trouble(tasks: Iterable[Task]) -> list[Task]:
    """Those with trouble first, the worst before others, then by what they do."""
    worst = {Tone.BAD: 0, Tone.LOOK: 1}
    return sorted(tasks, key=lambda task: (worst.get(task.tone, 2), task.does))


def _patience(every_s: float) -> timedelta:
    return timedelta(seconds=3 * every_s + 60)
