"""Samples of host and devices, kept over a short loss of the server."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from scheduler.agent.gpus import Gpus, Holding
from scheduler.agent.node.host import sample_host
from scheduler.wire.readings import DeviceSample, HostSample

_KEPT = 4000


class Readings:
    """Takes samples; those that could not be sent go with the next ones, oldest dropped first."""

    def __init__(self, work: Path, gpus: Gpus) -> None:
        self.work = work
        self.gpus = gpus
        self.taken_at = 0.0
        self._unsent: tuple[DeviceSample, ...] = ()

    def take(self, holders: Mapping[str, Holding]) -> tuple[tuple[DeviceSample, ...], HostSample]:
        """All samples to send now."""
        self.taken_at = time.monotonic()
        samples = self._unsent + self.gpus.sample(holders)
        self._unsent = ()
        return samples, sample_host(self.work)

    def give_back(self, samples: tuple[DeviceSample, ...]) -> None:
        """They could not be sent."""
        self._unsent = (samples + self._unsent)[-_KEPT:]
