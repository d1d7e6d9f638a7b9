"""A node's report with nothing in it that cannot be: one number must not cost it the whole call.

What else the report says is taken in as it is. A report is repeated until its node may forget it,
so refusing one for a number would silence its node for good.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from scheduler.wire.messages import AttemptReport

MAX_EXIT_CODE = 2**31 - 1
_MAX_PORT = 2**16 - 1

logger = logging.getLogger(__name__)


def possible(report: AttemptReport) -> AttemptReport:
    """The report itself, or one whose impossible numbers are left out or brought to the nearest."""
    changed: dict[str, Any] = {}
    if report.exit_code is not None and abs(report.exit_code) > MAX_EXIT_CODE:
        # That it failed stays told.
        changed["exit_code"] = MAX_EXIT_CODE if report.exit_code > 0 else -MAX_EXIT_CODE
    if report.master_port is not None and not 0 < report.master_port <= _MAX_PORT:
        changed["master_port"] = None
    if report.log_size < 0:
        changed["log_size"] = 0
    if report.resumed_step is not None and report.resumed_step < 0:
        changed["resumed_step"] = None
    if not changed:
        return report
    said = {name: getattr(report, name) for name in changed}
    logger.warning("attempt %s: its node reports impossible numbers: %s", report.fence, said)
    return replace(report, **changed)
