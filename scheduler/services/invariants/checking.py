"""Every night on live data: do the invariants hold that rows tell of?

Looked at is what is open and what came since the last check that found nothing; before the first
one, a month. Reads only, apart from its own row and what operators are told. Rows that change
while they are read look like a break now and then: before one is believed, all of it is read again
as it is in one moment.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from django.db import connection, transaction
from django.utils import timezone

from accounts.permissions import people_who_can
from scheduler.invariants import (
    accepted,
    attempts,
    devices,
    grouped,
    money,
    promised,
    recurring,
    sent,
)
from scheduler.invariants.rows import Rows
from scheduler.models import InvariantCheck
from scheduler.services.inbox.telling import News, tell
from scheduler.services.invariants import groups, handed, reading, schedules
from scheduler.states import NoticeKind

Check = Callable[[Rows], Iterator[str]]

BY_JOB: Mapping[str, tuple[Check, ...]] = {
    "I1": (attempts.one_live_attempt_per_job,),
    "I3": (attempts.fences_rise_and_old_ones_change_nothing,),
    "I4": (attempts.moves_follow_the_graph,),
    "I5": (attempts.attempts_begin_once,),
    "I6": (attempts.programs_never_overlap,),
    "I7": (attempts.success_is_stored,),
    "I12": (money.holds_are_settled, money.prices_bound_what_is_held),
    "I13": (attempts.attempts_begin_inside_bookings,),
    "I14": (accepted.accepted_once,),
    "I15": (accepted.one_key_one_job,),
    "I16": (attempts.what_is_over_holds_nothing,),
    "I17": (sent.logs_touch,),
    "I18": (sent.pieces_are_ones_own,),
    "I20": (attempts.every_change_has_its_event,),
    "I22": (money.what_is_held_is_charged,),
    "I29": (promised.tries_are_allowed,),
    "I30": (promised.moments_are_kept,),
    "I31": (promised.waits_are_over,),
    "I32": (promised.idle_stops_are_told_before,),
}
NODES: Mapping[str, tuple[Check, ...]] = {
    "I9": (devices.offered_once_clean,),
    "I10": (devices.quarantine_is_left_by_right,),
}
SCHEDULES: Mapping[str, tuple[Check, ...]] = {
    "I34": (recurring.due_times_come_once,),
    "I35": (recurring.jobs_take_turns,),
}
# What was before the first check; a month of it is read in minutes.
_FIRST = timedelta(days=30)
# Who was at work while the last check began may have committed after it.
_OVERLAP = timedelta(hours=1)
# A mail that waits for longer than this waits for nothing; the health page says so much sooner.
_LATE_S = 86_400.0
_KEPT, _SHOWN = 100, 3
LONGEST_S = 1800.0


class _TimeIsUp(Exception):
    """It took longer than it may; what was not looked at is left to the next time."""


@dataclass
class _Said:
    """What one invariant had to say of some rows."""

    looked_at: int = 0
    broken: int = 0
    words: list[str] = field(default_factory=list)

    def hear(self, all_: Iterable[str]) -> None:
        """Count; of the breaks only the first are kept."""
        for words in all_:
            self.looked_at += 1
            if words:
                self.broken += 1
                self.words += [words] if len(self.words) < _KEPT else []


@dataclass
class _Tally:
    """What was looked at so far, by invariant, and what is broken."""

    until: float
    looked_at: dict[str, int] = field(default_factory=dict)
    breaks: list[str] = field(default_factory=list)
    broken: int = 0

    def ask(
        self,
        checks: Mapping[str, Iterable[Check]],
        read: Callable[[], Iterable[Rows]],
        *,
        sure: bool = False,
    ) -> None:
        """Ask these of what is read. `sure`: it is of one moment, a break needs no second look."""
        said: Mapping[str, _Said] | None = None
        try:
            said = self._said(checks, read())
        except KeyError:
            # Something was deleted between two statements.
            sure = False
        if said is None or (not sure and any(one.broken for one in said.values())):
            with _one_moment():
                said = self._said(checks, read())
        for name, one in said.items():
            self.looked_at[name] = self.looked_at.get(name, 0) + one.looked_at
            self.broken += one.broken
            self.breaks += [f"{name}: {words}" for words in one.words][: _KEPT - len(self.breaks)]

    def _said(
        self, checks: Mapping[str, Iterable[Check]], parts: Iterable[Rows]
    ) -> dict[str, _Said]:
        said = {name: _Said() for name in checks}
        for rows in parts:
            if time.monotonic() > self.until:
                raise _TimeIsUp
            for name, all_ in checks.items():
                for check in all_:
                    said[name].hear(check(rows))
        return said


def check_invariants(
    *,
    now: datetime | None = None,
    since: datetime | None = None,
    everything: bool = False,
    longest_s: float = LONGEST_S,
) -> InvariantCheck:
    """Ask them, keep what was found and tell operators of a break, of the same ones once.

    `since`: look from then on, in the place of the last check that found nothing; `everything`:
    from the beginning. What takes longer than `longest_s` is not whole and holds for nothing.
    """
    now, began = now or timezone.now(), time.monotonic()
    since = None if everything else since or _last_sound() or now - _FIRST
    tally = _Tally(began + longest_s)
    is_whole = True
    try:
        _ask_all(tally, since, now)
    except _TimeIsUp:
        is_whole = False
    with transaction.atomic():
        found = InvariantCheck.objects.create(
            at=now,
            since=since,
            took_s=round(time.monotonic() - began, 3),
            is_whole=is_whole,
            broken=tally.broken,
            breaks=tally.breaks,
            looked_at=tally.looked_at,
        )
        if found.broken:
            _tell(found)
    return found


def _last_sound() -> datetime | None:
    sound = InvariantCheck.objects.filter(is_whole=True, broken=0).order_by("-pk").first()
    return sound.at - _OVERLAP if sound else None


def _ask_all(tally: _Tally, since: datetime | None, now: datetime) -> None:
    """What is so now, then what has been; the few first."""
    at = now.timestamp()
    ended = partial(attempts.attempts_end_in_time, now=at)
    late = partial(sent.outbox_is_worked_off, now=at, late_s=_LATE_S)
    placed = attempts.live_ones_are_in_their_pool
    tally.ask({"I8": (ended,), "I38": (placed,)}, lambda: [reading.live_attempts()])
    with _one_moment():
        held = reading.held_now()
    tally.ask({"I11": (money.quotas_count_what_is_held,)}, lambda: [held], sure=True)
    revoked = partial(reading.revoked_tokens, since)
    tally.ask({"I25": (sent.revoked_tokens_rest,)}, revoked, sure=True)
    tally.ask({"I21": (late,)}, partial(reading.outbox, since), sure=True)
    unseen = partial(accepted.what_waits_was_looked_at, now=at)
    tally.ask({"I26": (unseen,)}, handed.unseen_jobs)
    waits = partial(recurring.schedules_are_looked_at, now=at)
    tally.ask({"I34": (waits,)}, schedules.standing_schedules)
    tally.ask({"I35": (recurring.paused_ones_rest,)}, schedules.standing_schedules)
    tally.ask({"I37": (grouped.newest_counts,)}, groups.members_of_groups)
    ends = partial(groups.superseded, since)
    tally.ask({"I37": (grouped.ends_are_for_ones_own,)}, ends)
    tally.ask({"I15": (accepted.keys_are_one,)}, handed.doubled_keys, sure=True)
    tally.ask({"I14": (accepted.sets_are_whole,)}, partial(handed.sets_of_tasks, since))
    tally.ask(NODES, partial(reading.nodes_and_cards, since))
    tally.ask(SCHEDULES, partial(schedules.runs_of_schedules, since))
    for jobs in reading.jobs_of(since):
        tally.ask(BY_JOB, partial(_these, jobs))
        told = partial(_handed, jobs)
        tally.ask({"I19": (sent.secrets_are_not_told,)}, told, sure=True)
    tally.ask({"I2": (devices.held_by_one,)}, partial(reading.held_devices, since), sure=True)
    tally.ask({"I2": (devices.held_whole_or_in_parts,)}, partial(reading.cards_in_parts, since))
    tally.ask({"I22": (devices.segments_touch,)}, partial(reading.device_time, since), sure=True)


def _these(jobs: Sequence[int]) -> list[Rows]:
    return [reading.rows_of_jobs(jobs)]


def _handed(jobs: Sequence[int]) -> list[Rows]:
    return [handed.told_of_secrets(jobs)]


@contextmanager
def _one_moment() -> Iterator[None]:
    """All that is read inside is of one moment; SQLite's writers wait meanwhile."""
    is_outermost = not connection.in_atomic_block
    with transaction.atomic():
        if is_outermost and connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield


def _tell(found: InvariantCheck) -> None:
    """Operators, in the transaction of the row; breaks that were told before are not told again."""
    digest = hashlib.sha256("\n".join(found.breaks).encode()).hexdigest()[:16]
    shown = "; ".join(found.breaks[:_SHOWN])
    more = f"; and {found.broken - _SHOWN} more" if found.broken > _SHOWN else ""
    times = "once" if found.broken == 1 else f"{found.broken} times"
    tell(
        [
            News(
                person_id=person.pk,
                kind=NoticeKind.PROMISE_BROKEN,
                subject="invariants",
                title=f"What Trainyard promises was broken {times}",
                text=f"{shown}{more}",
                path="/ops/health/",
                key=f"invariants:{digest}",
            )
            for person in people_who_can("operate", None)
        ],
        now=found.at,
    )
