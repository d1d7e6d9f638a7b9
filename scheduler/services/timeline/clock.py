"""A server's clock that is put forward makes nothing older that was written before.

Deadlines are kept by moments in rows. Were the clock put forward by an hour, every node would look
silent for an hour and be given up while its programs run on. So a process that keeps deadlines
compares its clock with one that nobody sets, and takes off what did not really pass. That clock
runs on when the process is started anew, so what was seen of both is kept for the next one.
"""

from __future__ import annotations

import json
import logging
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from django.db.models import Q

logger = logging.getLogger(__name__)

# Slewing, and a process that was stopped between two looks at its clocks, stay below.
_STEP = timedelta(seconds=5)
# Whoever looks each second sees one step at a time.
_UNWATCHED = timedelta(seconds=3)
_MOST_STEPS = 20
# Written down so often; in between only what is new.
_KEEP_EVERY_S = 5.0
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(slots=True)
class Clock:
    """What a process has seen of its own clock. `steps`: the last moment before, and how far.

    All that was written before a step is from before that moment, and nothing of what came later.
    It lies in the middle of what the clock has left out: a moment that a node told, brought to this
    clock, is off by how long its call took, and other servers' clocks are not quite this one.

    A clock that is put back mends what was put forward before, newest first. Beyond that it only
    makes deadlines late, which harms nobody: it is not corrected.
    """

    steps: list[tuple[datetime, timedelta]] = field(default_factory=list)
    _looked: tuple[datetime, float] | None = None
    _kept_in: Path | None = None
    _kept_at_s: float = float("-inf")
    _boot: str = ""

    def keep_in(self, path: Path) -> None:
        """Go on from what an earlier process saw since this machine was started, and keep it."""
        try:
            self._boot = _BOOT_ID.read_text(encoding="ascii").strip()
            self._kept_in = path
            kept = json.loads(path.read_text(encoding="ascii"))
            if kept["boot"] == self._boot:
                at, steady_s = kept["looked"]
                self._looked = datetime.fromisoformat(at), float(steady_s)
                self.steps = [
                    (datetime.fromisoformat(before), timedelta(seconds=by_s))
                    for before, by_s in kept["steps"]
                ]
        except FileNotFoundError:
            logger.info("nothing is known of this machine's clock before this moment")
        except (OSError, ValueError, TypeError, KeyError, OverflowError):
            logger.exception("what was known of this machine's clock could not be read")

    def look(self, now: datetime, steady_s: float) -> None:
        """Called often: the clock's time beside a monotonic one."""
        is_new = False
        if self._looked is not None:
            before, steady_before_s = self._looked
            passed = timedelta(seconds=steady_s - steady_before_s)
            ahead = (now - before) - passed
            if abs(ahead) > _STEP:
                logger.warning("the clock was set by %+.0f s", ahead.total_seconds())
            if ahead > _STEP:
                # At the earliest it was set right after the last look, at the latest right now.
                # After a while without a look there may have been several steps, and what was
                # written between them counts as young.
                left_out = ahead if passed > _UNWATCHED else (passed + ahead) / 2
                last = before + left_out if passed < ahead else before
                self.steps = [*self.steps, (last, ahead)][-_MOST_STEPS:]
            elif ahead < -_STEP:
                self._put_back(-ahead, now)
            is_new = abs(ahead) > _STEP
        self._looked = now, steady_s
        if self._kept_in is not None and (is_new or steady_s - self._kept_at_s > _KEEP_EVERY_S):
            self._kept_at_s = steady_s
            self._keep(self._kept_in, now, steady_s)

    def _put_back(self, by: timedelta, now: datetime) -> None:
        while by > timedelta(0) and self.steps:
            *earlier, (before, ahead) = self.steps
            self.steps = [*earlier, (before, ahead - by)] if ahead > by else earlier
            by -= ahead
        # What is written from now on was not left out any more.
        self.steps = [(min(before, now), ahead) for before, ahead in self.steps]

    def _keep(self, path: Path, now: datetime, steady_s: float) -> None:
        steps = [(before.isoformat(), by.total_seconds()) for before, by in self.steps]
        kept = {"boot": self._boot, "looked": (now.isoformat(), steady_s), "steps": steps}
        # Containers that share the folder have the same process numbers.
        fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            fresh.write_text(json.dumps(kept), encoding="ascii")
            fresh.replace(path)
        except OSError as error:
            logger.warning("what is known of this machine's clock could not be kept: %s", error)

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
