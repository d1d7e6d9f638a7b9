"""How hard the attempts of this node work: processor time of their processes, from look to look."""

from __future__ import annotations

import time
from collections.abc import Iterable

from scheduler.agent.gpus import Holding
from scheduler.agent.runner import Attempt
from scheduler.agent.runtime import processes


class Loads:
    """What each attempt had used at the last look. Not thread-safe."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[float, float]] = {}

    def of(self, attempts: Iterable[Attempt]) -> dict[str, Holding]:
        """By device who holds it and how many cores are busy there; one walk through `/proc`."""
        live = list(attempts)
        guards = [one.supervisor.pid for one in live if one.supervisor is not None]
        used_s = processes.cpu_seconds_below(guards) if guards else {}
        found: dict[str, Holding] = {}
        for attempt in live:
            guard = attempt.supervisor
            holding = self._holding(attempt, used_s.get(guard.pid, 0.0) if guard else 0.0)
            for device_uuid in attempt.assignment.device_uuids:
                found[device_uuid] = holding.beside(found.get(device_uuid))
        return found

    def forget(self, fence: int) -> None:
        """The attempt is over."""
        self._before.pop(fence, None)

    def _holding(self, attempt: Attempt, used_s: float) -> Holding:
        now = time.monotonic()
        before, used_before = self._before.get(attempt.fence, (now, used_s))
        self._before[attempt.fence] = (now, used_s)
        cores = max(0.0, used_s - used_before) / (now - before) if now > before else 0.0
        held_s = time.time() - (attempt.started_at or time.time())
        return Holding(attempt.fence, cores, max(0.0, held_s))
