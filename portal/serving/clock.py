"""Beat's schedule where the machine's clock was put back."""

from __future__ import annotations

import logging
from typing import Any

from celery.beat import PersistentScheduler

logger = logging.getLogger(__name__)


class SteadyScheduler(PersistentScheduler):
    """Counts from now what it has noted as run in a time that is yet to come.

    Celery's own would hand out nothing until the clock is there again: its last runs and its next
    ones are times of day, kept over restarts.
    """

    def tick(self, *arguments: Any, **named: Any) -> float:
        """Hand out at most one task; seconds until the next is due."""
        now = self.app.now()
        ahead = [entry for entry in self.schedule.values() if entry.last_run_at > now]
        if ahead:
            logger.warning("the clock was put back: %s tasks are counted from now", len(ahead))
            for entry in ahead:
                entry.last_run_at = now
            self._heap = None
        seconds: float = super().tick(*arguments, **named)
        return seconds
