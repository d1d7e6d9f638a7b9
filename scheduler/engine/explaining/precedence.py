"""The checks, highest precedence first. A rule adds one function, in a file of its own subject,
and one row here, where `WaitReason` has it; a measure says what is needed and there."""

from __future__ import annotations

from scheduler.engine.explaining import accounts, calendar, capacity, measures, nodes, waiting_line
from scheduler.engine.explaining.case import Check
from scheduler.states import WaitReason

CHECKS: tuple[Check, ...] = (
    Check(
        WaitReason.INFEASIBLE_EVER, nodes.find_infeasible, measures.measure_capable, rules_out=True
    ),
    Check(
        WaitReason.BUDGET_EXHAUSTED,
        accounts.find_over_budget,
        accounts.measure_budget,
        ("no budget that stops it", "none"),
        by_account=True,
    ),
    Check(
        WaitReason.QUOTA_HARD,
        accounts.find_over_limit,
        accounts.measure_limit,
        ("no limit that is reached", "none"),
        by_account=True,
    ),
    Check(
        WaitReason.QUOTA_BORROW_LIMIT,
        accounts.find_over_borrowing,
        accounts.measure_borrowing,
        ("GPUs to share or borrow", "enough"),
        is_moot=accounts.is_over_limit,
        by_account=True,
    ),
    Check(
        WaitReason.POOL_CLOSED,
        nodes.find_closed,
        measures.measure_queue,
        rules_out=True,
        by_queue=True,
    ),
    Check(
        WaitReason.MAINTENANCE_CONFLICT,
        calendar.find_maintenance,
        passes=("no maintenance that it would cross", "none"),
    ),
    Check(
        WaitReason.RESERVATION_CONFLICT,
        calendar.find_reserved,
        passes=("no booking in its way", "none"),
    ),
    Check(
        WaitReason.NODES_UNHEALTHY, nodes.find_unhealthy, measures.measure_in_order, rules_out=True
    ),
    Check(WaitReason.CAPACITY_BUSY, capacity.find_busy, measures.measure_free),
    Check(WaitReason.TOPOLOGY_FRAGMENTED, capacity.find_fragmented, measures.measure_room),
    Check(WaitReason.ISOLATION_CONFLICT, capacity.find_unisolated, measures.measure_cards),
    Check(WaitReason.BEHIND_HIGHER_PRIORITY, waiting_line.find_outranked, measures.measure_head),
    Check(WaitReason.BACKFILL_WOULD_DELAY_HEAD, waiting_line.find_delaying, measures.measure_head),
    Check(WaitReason.LICENCE_WAIT, capacity.find_unlicensed, measures.measure_licences),
)
