"""Local changes of the code of jobs on their way to the server: each once, a few with each call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from scheduler.agent.node.ends import untold
from scheduler.wire.codec import encode
from scheduler.wire.messages import AttemptReport

# Bytes, as they are sent. A server takes 2 MiB with one call, and the rest of it needs room too.
_AT_ONCE = 2**20


class Patches:
    """Which of them the server has."""

    def __init__(self) -> None:
        self._told: set[int] = set()

    def is_told(self, fence: int) -> bool:
        """Whether the server has what this attempt's code was changed by."""
        return fence in self._told

    def note_told(self, reports: Iterable[AttemptReport]) -> None:
        """The server has these now."""
        self._told.update(report.fence for report in reports if report.code_patch)

    def forget(self, fence: int) -> None:
        """Nothing of it is reported any more."""
        self._told.discard(fence)

    def fitting(self, reports: Iterable[AttemptReport]) -> Iterator[AttemptReport]:
        """The reports with as many patches as one call takes, one at least.

        The server takes a commit with its patch, and both no later than the end: of an attempt
        whose patch has to wait it hears none of the three.
        """
        left, is_first = _AT_ONCE, True
        for report in reports:
            if not report.code_patch:
                yield report
                continue
            left -= len(encode(report.code_patch))
            if is_first or left >= 0:
                is_first = False
                yield report
            else:
                waiting = replace(report, code_commit="", code_patch="")
                yield waiting if report.end_reason is None else untold(waiting)
