"""Samples of host and devices, kept over a short loss of the server."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from pathlib import Path

from scheduler.agent.gpus import Gpus, Holding
from scheduler.agent.node.host import sample_host
from scheduler.wire.readings import DeviceSample, HostSample

_KEPT = 4000
_TENTH = 0.1


class Readings:
    """Takes samples; those that could not be sent go with the next ones, oldest dropped first."""

    def __init__(self, work: Path, gpus: Gpus) -> None:
        self.work = work
        self.gpus = gpus
        self.taken_at = 0.0
        self._share = 1.0
        self._unsent: tuple[DeviceSample, ...] = ()

    def due_at(self, every_s: float) -> float:
        """When they are due again, each `every_s` give or take a tenth of it: nodes that came back
        in one moment do not call in one moment ever after."""
        return self.taken_at + every_s * self._share

    def take(self, holders: Mapping[str, Holding]) -> tuple[tuple[DeviceSample, ...], HostSample]:
        """All samples to send now."""
        self.taken_at = time.monotonic()
        self._share = random.uniform(1 - _TENTH, 1 + _TENTH)
        samples = self._unsent + self.gpus.sample(holders)
        self._unsent = ()
        return samples, sample_host(self.work)

    def give_back(self, samples: tuple[DeviceSample, ...]) -> None:
        """They could not be sent."""
        self._unsent = (samples + self._unsent)[-_KEPT:]
