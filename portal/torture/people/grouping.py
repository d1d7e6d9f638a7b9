"""Whose jobs are of groups, of which the newest counts; some of them have a highest price."""

from __future__ import annotations

import random
import threading
from contextlib import suppress
from pathlib import Path

from portal.torture.history import Diary
from portal.torture.people.visiting import Door
from portal.torture.program import grouped_job


class Groupers:
    """Work for one of the crowd's threads."""

    def __init__(self, diary: Diary, witness: Path, door: Door, over: threading.Event) -> None:
        self.diary, self.witness, self.door, self.over = diary, witness, door, over

    def group(self, dice: random.Random) -> None:
        """A job or an array, now and then the next one right behind it; what a price does not pay
        for is refused, and rightly so."""
        key = f"g-{dice.getrandbits(48):012x}"
        own = random.Random(key)
        sent = grouped_job(own, self.witness, key)
        self.diary.note("grouped", key=key, group=sent["group"], policy=sent["group_policy"])
        with suppress(ValueError):
            self.door.submit(key, sent)
        self.over.wait(own.choice((0.0, 3.0, 8.0)))
