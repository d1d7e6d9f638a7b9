"""The list of all that fails says what the scheduler itself would, were each check the only one."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.asking import blocking_facts
from scheduler.engine.cycle import Decision, decide
from scheduler.engine.explaining import verdicts
from scheduler.engine.explaining.case import Check
from scheduler.engine.explaining.precedence import CHECKS
from scheduler.engine.policy import DEFAULT_POLICY
from scheduler.engine.snapshot import NONE, Snapshot, ints
from scheduler.states import WaitReason
from tests.engine.test_properties import snapshots
from tests.engine.test_quota_properties import limited
from tests.engine.test_shape_properties import shapes

# A person is shown them only where the job would still be there when the head starts.
_OF_HEADS = {WaitReason.BEHIND_HIGHER_PRIORITY, WaitReason.BACKFILL_WOULD_DELAY_HEAD}
_BY_THEMSELVES = [check for check in CHECKS if check.reason not in _OF_HEADS]


def waiting_over(decision: Decision, check: Check) -> set[int]:
    """The jobs of a cycle that wait over this check, if the scheduler asks no other one."""
    board, classes = decision.board, decision.classes
    waiting = board.snapshot.waiting
    left = ints(np.flatnonzero(np.isin(waiting.id, decision.plan.waits.job)))
    of_board = [check] if not (check.by_account or check.rules_out) else []
    of_account = [check] if check.by_account else []
    with patch.multiple(verdicts, CHECKS=(check,), _BY_BOARD=of_board, _BY_ACCOUNT=of_account):
        ruled_out = verdicts.rule_out(board, classes)
        waits = verdicts.explain_waits(
            board, classes, left, ruled_out, decision.heads, decision.gate
        )
        told = zip(waits.job.tolist(), waits.verdict.tolist(), strict=True)
        reasons = [verdict.reason for verdict in waits.verdicts]
        return {job for job, at in told if at != NONE and reasons[at] is check.reason}


@settings(max_examples=60)
@given(st.one_of(snapshots(), limited(), shapes()))
def test_every_check_that_fails_is_listed_and_no_other(snapshot: Snapshot) -> None:
    decision = decide(snapshot)
    jobs = set(decision.plan.waits.job.tolist())
    listed: dict[WaitReason, set[int]] = {check.reason: set() for check in _BY_THEMSELVES}
    for job in jobs:
        found = blocking_facts(decision, DEFAULT_POLICY, job)
        assert found is not None
        for one in found.checks:
            if not one.is_ok and one.reason in listed:
                listed[one.reason].add(job)
    for check in _BY_THEMSELVES:
        assert listed[check.reason] == waiting_over(decision, check) & jobs, check.reason
