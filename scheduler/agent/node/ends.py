"""Before an attempt's end is told: are its devices free, and were they to blame?"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from scheduler.agent.node.troubles import TroubleWatch
from scheduler.states import AttemptState, EndReason
from scheduler.wire.messages import AttemptReport

# How long the driver may take to see that a process is gone.
_RELEASE_S = 1.0


class Ends:
    """Ended attempts whose devices were looked at, and what of theirs is to blame.

    Who is told of an end has the devices back: what is still in use, or broken, is told with it.
    """

    def __init__(self, watch: TroubleWatch) -> None:
        self._watch = watch
        self._blamed: dict[int, str] = {}

    def __contains__(self, fence: int) -> bool:
        return fence in self._blamed

    def examine(
        self,
        report: AttemptReport,
        uuids: Collection[str],
        holders: Callable[[], Mapping[str, int]],
    ) -> None:
        """Look at the devices of an attempt that has ended; waits a moment for its processes."""
        give_up_at = time.monotonic() + _RELEASE_S
        self._watch.look(holders())
        while self._watch.is_in_use(uuids) and time.monotonic() < give_up_at:
            time.sleep(0.05)
            self._watch.look(holders())
        blamed = ""
        if report.end_reason == EndReason.EXIT_CODE and report.started_at:
            blamed = self._watch.blame(uuids, report.fence, report.started_at)
        self._blamed[report.fence] = blamed

    def amend(self, report: AttemptReport) -> AttemptReport:
        """The report as the server may hear it: no end before the devices were looked at."""
        if report.end_reason is None:
            return report
        blamed = self._blamed.get(report.fence)
        if blamed is None:
            return untold(report)
        if blamed:
            return replace(report, end_reason=EndReason.DEVICE_FAILED, detail=blamed)
        return report

    def forget(self, fence: int) -> None:
        """The server knows it."""
        self._blamed.pop(fence, None)


def untold(report: AttemptReport) -> AttemptReport:
    """The report of an end that the server is not to hear yet."""
    living = replace(report, state=AttemptState.STOPPING, ended_at=None, exit_code=None)
    return replace(living, end_reason=None, detail="")
