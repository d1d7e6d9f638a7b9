"""Breaks of the product that runs have found: what mended them is held by a test, seeds run again.

`make test-long` runs every seed for a minute, with the faults that broke it first in each bag.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kept:
    """A break: what it was, the test of its cause, and the run that showed it.

    `seed` 0: a run that no seed repeats, such as many agents that come back at once. `restores`:
    the database was put back at its end. `pools`: how many that run had; one before there were
    several.
    """

    cause: str
    test: str
    seed: int = 0
    kinds: tuple[str, ...] = ()
    restores: bool = False
    pools: int = 1


BREAKS = (
    Kept(
        "a device was given away by a plan from before it was taken",
        "tests/loop/test_moments.py"
        "::test_nobody_holds_a_device_from_before_the_snapshot_that_saw_it_free",
        seed=3,
        kinds=("two-leaders", "scheduler-point"),
    ),
    Kept(
        "a job that was cancelled while its end waited for a lock never ended",
        "tests/services/test_end_race.py"
        "::test_a_job_cancelled_while_its_end_waits_for_the_lock_ends",
        seed=7,
        kinds=("cut-answers", "supervisor-kill"),
    ),
    Kept(
        "a late call wrote over lines that were acknowledged",
        "tests/services/test_logs.py"
        "::test_a_late_and_shorter_chunk_takes_nothing_that_was_acknowledged",
        seed=11,
        kinds=("slow", "scrambled", "one-way"),
    ),
    Kept(
        "a step of the clocks ended a job early",
        "tests/services/test_clock.py::test_an_hour_ahead_gives_nobody_up_and_stops_nothing",
        seed=2,
        kinds=("clock-forward", "clock-node", "scheduler-kill", "partition"),
    ),
    Kept(
        "two steps of the clock that no scheduler saw were one, and a node was lost early",
        "tests/services/test_clock.py"
        "::test_between_two_steps_that_nobody_saw_nothing_is_older_than_it_is",
    ),
    Kept(
        "a start that was told in a call that took longer than a step of the clocks ended early",
        "tests/services/test_clock.py::test_what_was_before_a_step_is_not_older_for_it",
        seed=3701,
        kinds=("clock-forward", "slow", "cut-answers"),
    ),
    Kept(
        "a scheduler whose clock was behind gave devices out from before they were free",
        "tests/services/test_clock.py::test_nobody_holds_a_device_from_before_the_last_one_let_go",
        seed=3,
        kinds=("clock-forward", "files-out"),
    ),
    Kept(
        "a node that came back began what was overdue, which ended at once and began anew",
        "tests/services/test_nodes.py"
        "::test_a_node_that_was_silent_has_the_whole_time_to_take_up_its_assignment",
    ),
    Kept(
        "after a restore a job began beside its start that the copy did not know",
        "tests/loop/test_recounting.py"
        "::test_a_job_that_may_run_already_starts_only_when_its_old_attempt_has_ended",
        seed=1,
        kinds=("partition", "agent-kill"),
        restores=True,
    ),
    Kept(
        "a job began in a booking that had ended, by a clock that was put forward",
        "tests/services/test_clock.py"
        "::test_nobody_begins_in_a_booking_that_has_ended_by_the_clock_of_who_let_go",
        seed=1,
        kinds=("clock-forward", "clock-node"),
    ),
    Kept(
        "a webhook whose receiver refused a few calls was not told the others",
        "tests/services/test_webhooks.py"
        "::test_a_choosy_address_gets_the_others_and_one_that_says_no_to_all_is_left",
        seed=2,
        kinds=("receiver-refuses", "receiver-busy"),
    ),
    Kept(
        "nor was one whose receiver hung up now and then",
        "tests/services/test_webhooks.py"
        "::test_a_choosy_address_gets_the_others_and_one_that_says_no_to_all_is_left",
        seed=2611,
        kinds=("receiver-drops", "receiver-hangs"),
    ),
    Kept(
        "a chat that asked for half a minute was told nothing for half an hour",
        "tests/services/test_busy_addresses.py"
        "::test_one_that_was_tried_often_keeps_the_others_no_longer_than_the_address_says",
        seed=3703,
        kinds=("receiver-busy", "receiver-drops"),
    ),
    Kept(
        "jobs without GPUs were planned for a node in quarantine again and again, and never began",
        "tests/engine/test_cycle.py::test_only_ready_nodes_take_work",
    ),
)
