"""Checkpoints of simulated programs, in a folder that all nodes share."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from scheduler.wire.messages import Assignment, Checkpoint

STEP_S = 20.0


def file_of(job: int, fence: int, step: int, at: float) -> Checkpoint:
    """What a node reads back of a file that was saved at this step."""
    path = f"/shared/{job}/{fence}-{step}"
    return Checkpoint(path, step, 4096, hashlib.sha256(path.encode()).hexdigest(), at)


@dataclass
class Saved:
    """What rank 0 of an attempt has saved, and what it went on from.

    `last`: what its node has confirmed. `unread`: the file of the end, which is still being read.
    """

    files: dict[str, str]
    resumed: Checkpoint | None = None
    problem: str = ""
    last: Checkpoint | None = None
    unread: Checkpoint | None = None
    offers: list[Checkpoint] = field(default_factory=list)

    def resume(self, order: Assignment) -> None:
        """Try what is offered: the file must be there and be what was confirmed."""
        if order.resume is None:
            return
        self.offers.append(order.resume)
        if self.files.get(order.resume.path) == order.resume.digest:
            self.resumed = order.resume
        else:
            self.problem = "the file is damaged"

    def run(self, order: Assignment, ran_s: float, at: float) -> None:
        """One step every so often, each saved."""
        step = (self.resumed.step if self.resumed else 0) + int(ran_s // STEP_S)
        if ran_s >= STEP_S and (self.last is None or step > self.last.step):
            self.last = self._save(order, step, at)

    def stop(self, order: Assignment, at: float) -> None:
        """A last one as it is asked to stop; reading it back takes longer than the end."""
        step = self.last.step if self.last else self.resumed.step if self.resumed else 0
        self.unread = self._save(order, step + 1, at)

    def read_back(self) -> None:
        """The last one is confirmed."""
        if self.unread is not None:
            self.last, self.unread = self.unread, None

    def _save(self, order: Assignment, step: int, at: float) -> Checkpoint:
        made = file_of(order.job_id, order.fence, step, at)
        self.files[made.path] = made.digest
        return made
