"""A server's clock that is put forward makes nothing older that was written before.

Deadlines are kept by moments in rows. Were the clock put forward by an hour, every node would look
silent for an hour and be given up while its programs run on. So a process that keeps deadlines
compares its clock with one that nobody sets, and takes off what did not really pass.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db.models import Q

logger = logging.getLogger(__name__)

# Slewing, and a process that was stopped between two looks at its clocks, stay below.
_STEP = timedelta(seconds=5)
_MOST_STEPS = 20


@dataclass(slots=True)
class Clock:
    """What a process has seen of its own clock. `steps`: the last moment before, and how far.

    A clock that is put back only makes deadlines late, which harms nobody: it is not corrected.
    """

    steps: list[tuple[datetime, timedelta]] = field(default_factory=list)
    _looked: tuple[datetime, float] | None = None

    def look(self, now: datetime, steady_s: float) -> None:
        """Called often: the clock's time beside a monotonic one."""
        if self._looked is not None:
            before, steady_before_s = self._looked
            ahead = (now - before) - timedelta(seconds=steady_s - steady_before_s)
            if abs(ahead) > _STEP:
                logger.warning("the clock was set by %+.0f s", ahead.total_seconds())
            if ahead > _STEP:
                self.steps = [*self.steps, (before, ahead)][-_MOST_STEPS:]
        self._looked = now, steady_s

    def age(self, at: datetime, now: datetime) -> timedelta:
        """How long ago that was."""
        return now - at - sum((by for before, by in self.steps if at <= before), timedelta(0))

    def older_than(self, column: str, limit: timedelta, *, now: datetime) -> Q:
        """Rows whose moment in this column is longer ago than that."""
        found = Q(**{f"{column}__lt": now - limit})
        for before, _ in self.steps:
            # Those from before this step are as old as the youngest of them, or older.
            shift = now - before - self.age(before, now)
            found &= Q(**{f"{column}__gt": before}) | Q(**{f"{column}__lt": now - shift - limit})
        return found


# Of this process, as its clock is.
CLOCK = Clock()
