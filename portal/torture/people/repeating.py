"""Whose jobs come again: schedules that are made, changed, paused, resumed, run and deleted."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx

from portal.torture.history import Diary
from portal.torture.people.spreading import Spread
from portal.torture.program import EVERY_TIME, document, gentle_lines
from portal.torture.yard import Yard

_OWNER = "alice"
_KINDS = ("skip", "queue", "replace")
# Below the time between two due times: what is later than two minutes is missed.
_LATE = (0, 5, 60, 7200)
_ACTS = ("pause", "pause", "change", "run", "delete")
# Once all is quiet: the time between two due times, that of a look, and a busy machine.
_LOOKED_AT_WITHIN_S = 60.0
_GIVES_UP_S = 180.0
_DONE = (200, 201)


class Repeaters:
    """Work for one of the crowd's threads. `api` makes a client for somebody; `jobs`: what was
    accepted so far, to which jobs of schedules are added as they are seen."""

    def __init__(
        self,
        yard: Yard,
        diary: Diary,
        witness: Path,
        api: Callable[[str], httpx.Client],
        over: threading.Event,
        jobs: list[int],
        spread: Spread,
    ) -> None:
        self.yard, self.diary, self.witness, self.over = yard, diary, witness, over
        self.api, self.jobs, self.spread = api, jobs, spread
        self._kinds = cycle(_KINDS)
        self._mine: list[int] = []
        self._paused: set[int] = set()

    def repeat(self, dice: random.Random) -> None:
        """Make one while there are too few; else do something to one of them."""
        if len(self._mine) < len(_KINDS):
            self._make(dice)
            return
        schedule = dice.choice(self._mine)
        act = "resume" if schedule in self._paused else dice.choice(_ACTS)
        if act == "delete" and dice.random() < 0.5:
            act = "change"
        self._look_into(schedule)
        getattr(self, f"_{act}")(schedule, dice)
        self.over.wait(dice.uniform(2.0, 5.0))

    def end(self) -> None:
        """Once the storm is over: each that is active is carried out once more, and paused."""
        until, left = time.monotonic() + _LOOKED_AT_WITHIN_S, self._active()
        waited_for = list(left)
        while left and time.monotonic() < until:
            time.sleep(1.0)
            now = self._active()
            left = {one: due for one, due in left.items() if now.get(one) == due}
        for schedule in waited_for:
            self.diary.note("repeated", schedule=schedule, came=schedule not in left)
        give_up = time.monotonic() + _GIVES_UP_S
        while (active := self._active()) and time.monotonic() < give_up:
            for schedule in active:
                with suppress(httpx.HTTPError):
                    self._pause(schedule)
            time.sleep(1.0)

    def _active(self) -> dict[int, str]:
        """All that are not paused, also those whose maker was never answered: when they are due."""
        give_up = time.monotonic() + _GIVES_UP_S
        while time.monotonic() < give_up:
            with suppress(httpx.HTTPError), self.api(_OWNER) as api:
                found = api.get("/schedules/", params={"mine": "1", "limit": "100"})
                items = found.raise_for_status().json()["items"]
                return {one["id"]: one["next_due_at"] for one in items if one["next_due_at"]}
            time.sleep(1.0)
        return {}

    def _make(self, dice: random.Random) -> None:
        name = f"c-{dice.getrandbits(48):012x}"
        own, kind = random.Random(name), next(self._kinds)
        # Longer than the time between two due times, or not much shorter.
        longest_s = own.choice((5.0, 8.0))
        spec = document("lasting", gentle_lines(), own, self.witness, name, longest_s)
        spec = self.spread.placed(name, spec)
        body = {"name": name, "rule": EVERY_TIME, "spec": spec, **self._terms(own)}
        status, reply = self._ask("", body | {"overlap": kind})
        if status in _DONE:
            self._mine.append(int(reply["id"]))
            self.diary.note("schedule", schedule=self._mine[-1], what="make", status=status)

    def _terms(self, dice: random.Random) -> dict[str, Any]:
        return {
            "late_within_s": dice.choice(_LATE),
            "most_open": dice.choice((2, 3)),
            "pause_after": dice.choice((0, 5)),
        }

    def _pause(self, schedule: int, _dice: random.Random | None = None) -> None:
        if self._do(schedule, "pause") in _DONE:
            self._paused.add(schedule)

    def _resume(self, schedule: int, _dice: random.Random) -> None:
        # Before it is asked for: the answer of a call that was carried out may be lost.
        self.diary.note("schedule", schedule=schedule, what="resuming", status=0)
        if self._do(schedule, "resume") in _DONE:
            self._paused.discard(schedule)

    def _change(self, schedule: int, dice: random.Random) -> None:
        self._do(schedule, "", self._terms(dice) | {"overlap": dice.choice(_KINDS)})

    def _run(self, schedule: int, _dice: random.Random) -> None:
        self._do(schedule, "run")

    def _delete(self, schedule: int, _dice: random.Random) -> None:
        if self._do(schedule, "delete") in (*_DONE, 404):
            self._mine.remove(schedule)

    def _look_into(self, schedule: int) -> None:
        """Whether it paused itself, and which jobs came, which may be cancelled by others then."""
        with self.api(_OWNER) as api:
            found = api.get(f"/schedules/{schedule}/")
            if found.status_code == 404:
                self._mine.remove(schedule)
                self.over.wait(1.0)
            is_paused = found.raise_for_status().json()["state"] == "paused"
            (self._paused.add if is_paused else self._paused.discard)(schedule)
            runs = api.get(f"/schedules/{schedule}/runs/").raise_for_status().json()["items"]
        self.jobs += [job for job in self._jobs(runs) if job not in self.jobs]

    def _jobs(self, runs: list[dict[str, Any]]) -> Iterator[int]:
        yield from (int(run["job"]) for run in reversed(runs) if run["job"] is not None)

    def _do(self, schedule: int, verb: str, body: dict[str, Any] | None = None) -> int:
        status, _ = self._ask(f"{schedule}/{verb}/" if verb else f"{schedule}/", body or {})
        self.diary.note("schedule", schedule=schedule, what=verb or "change", status=status)
        return status

    def _ask(self, place: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with self.api(_OWNER) as api:
            reply = api.post(f"/schedules/{place}", json=body)
        return reply.status_code, reply.json() if reply.status_code in _DONE else {}
