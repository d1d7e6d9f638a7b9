"""The invariants I1 to I38 and what fault 16 asks besides, pure functions over an `Evidence`.

A function yields once for everything it looked at: an empty text where the invariant holds, else
the words of a break. One that found nothing to look at has shown nothing, and is called so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from portal.torture.history import Evidence
from portal.torture.invariants import (
    asked,
    attempts,
    chats,
    devices,
    going_on,
    grouping,
    logs,
    neighbours,
    outside,
    pools,
    repeating,
)
from scheduler.invariants import attempts as stored
from scheduler.invariants import promised

Check = Callable[[Evidence], Iterator[str]]

INVARIANTS: Mapping[str, Check] = {
    "I1": stored.one_live_attempt_per_job,
    "I2": devices.one_holder_per_device,
    "I3": stored.fences_rise_and_old_ones_change_nothing,
    "I4": stored.moves_follow_the_graph,
    "I5": attempts.programs_start_once,
    "I6": attempts.attempts_never_overlap,
    "I7": attempts.success_was_seen,
    "I8": attempts.everything_ends,
    "I9": devices.free_devices_are_clean,
    "I10": devices.quarantine_is_left_by_right,
    "I11": devices.limits_hold,
    "I12": devices.budgets_hold,
    "I13": outside.bookings_are_honoured,
    "I14": outside.accepted_jobs_are_there,
    "I15": outside.one_key_one_job,
    "I16": attempts.cancels_end_processes,
    "I17": logs.logs_are_whole,
    "I18": logs.logs_are_ones_own,
    "I19": logs.secrets_stay_secret,
    "I20": outside.every_move_has_its_event,
    "I21": going_on.outbox_delivers,
    "I22": devices.every_second_is_counted_once,
    "I23": outside.shown_is_what_is,
    "I24": outside.strangers_see_nothing,
    "I25": outside.revoked_means_revoked,
    "I26": going_on.work_goes_on,
    "I27": outside.restores_start_nothing_twice,
    "I28": outside.clocks_decide_nothing,
    "I29": promised.tries_are_allowed,
    "I30": asked.moments_are_kept,
    "I31": asked.waits_are_over,
    "I32": asked.idle_stops_are_told_before,
    "I33": chats.chats_are_told_once,
    "I34": repeating.due_times_come_once,
    "I35": repeating.jobs_take_turns,
    "I36": outside.sessions_are_reached_again,
    "I37": grouping.newest_counts,
    "I38": pools.attempts_run_where_they_may,
    "F16": neighbours.hostile_programs_harm_nobody,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of one invariant: how much was looked at, and what broke it."""

    looked_at: int
    breaks: tuple[str, ...]


def check_all(evidence: Evidence) -> dict[str, Finding]:
    """Every invariant, by name."""
    found = {}
    for name, check in INVARIANTS.items():
        said = list(check(evidence))
        found[name] = Finding(len(said), tuple(f"{name}: {words}" for words in said if words))
    return found
