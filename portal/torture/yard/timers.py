"""The product's timers, divided, so that minutes tell what hours would."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timers:
    """The product's usual timers in seconds, divided; none below what whole seconds allow."""

    divide: int

    def of(self, usual_s: int, least_s: int) -> int:
        return max(least_s, round(usual_s / self.divide))

    @property
    def lease_s(self) -> int:
        return self.of(45, 3)

    @property
    def grace_s(self) -> int:
        return self.of(900, 10)

    @property
    def slack_s(self) -> int:
        # Below it a node that stands still has no time to end what nobody guards.
        return self.of(60, 6)

    @property
    def lost_after_s(self) -> float:
        """As `scheduler/conf.py` reckons it."""
        return self.grace_s * 1.01 + self.lease_s + self.slack_s

    @property
    def long_after_s(self) -> float:
        """Five minutes after all is given up."""
        return self.lost_after_s + self.of(300, 3)

    def environment(self) -> dict[str, str]:
        """For the servers."""
        return {
            "TRAINYARD_NODE_LEASE_S": str(self.lease_s),
            "TRAINYARD_DISCONNECT_GRACE_S": str(self.grace_s),
            "TRAINYARD_LOST_SLACK_S": str(self.slack_s),
            "TRAINYARD_START_DEADLINE_S": str(self.of(60, 4)),
            "TRAINYARD_STORAGE_PAUSE_S": str(self.of(30, 1)),
            "TRAINYARD_LOG_DRAIN_S": str(self.of(60, 4)),
            "TRAINYARD_BOOKING_RELEASE_S": str(self.of(900, 60)),
        }

    def arguments(self) -> tuple[str, ...]:
        """For the agents."""
        shown = {"hold": 2, "sample": 1, "heartbeat": 0.8, "retry-cap": 1}
        words = [f"--{name}-s={figure}" for name, figure in shown.items()]
        return (*words, f"--disconnect-grace-s={self.grace_s}", "--min-free-mib=8")
