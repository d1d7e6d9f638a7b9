"""Who plans ahead: nodes are booked, used and given back; quota is asked for and waited for."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx

from portal.torture.history import Diary
from portal.torture.people.spreading import Spread
from portal.torture.program import PROJECT, draw_job
from portal.torture.yard import Yard

# Of so many nodes one may stand idle until a forgotten booking of it is given back.
_MANY_NODES = 6
# No shorter one is planned.
_BOOKED = timedelta(minutes=6)
# Somebody else's job may be inside.
_WHY = {"reason": "the torture needs the node no more"}


class Planners:
    """Work for the crowd's threads. `api` makes a client of the API for somebody."""

    def __init__(
        self,
        yard: Yard,
        diary: Diary,
        witness: Path,
        api: Callable[[str], httpx.Client],
        over: threading.Event,
        spread: Spread,
    ) -> None:
        self.yard, self.diary, self.witness, self.over = yard, diary, witness, over
        self.api, self.spread = api, spread
        self._open: list[int] = []

    def begin(self) -> None:
        """One booking and one request while all is well, so that there are some in any run."""
        booking = self._plan("b-first", self.spread.first)
        if booking is not None:
            self._give_back(booking)
        self._ask(2)

    def book(self, dice: random.Random) -> None:
        """A node for some minutes from now on: a job runs there, or nobody comes."""
        name = f"b-{dice.getrandbits(48):012x}"
        dice = random.Random(name)
        pool = self.spread.bookable(name)
        booking = self._plan(name, pool)
        if booking is None:
            # No node is free of bookings, or nobody could answer.
            self.over.wait(2.0)
            return
        is_forgotten = dice.random() < 0.4 and len(self.yard.nodes) >= _MANY_NODES
        if not is_forgotten:
            self._use(dice, name, pool)
            self.over.wait(dice.uniform(3.0, 8.0))
            self._give_back(booking)
        self.over.wait(dice.uniform(3.0, 8.0))

    def _plan(self, name: str, pool: str) -> int | None:
        begin = datetime.now(UTC) + timedelta(seconds=self.yard.ahead_s + 1)
        body = {"owner": PROJECT, "pool": pool, "nodes": 1, "name": name}
        body |= {"from_at": begin.isoformat(), "until_at": (begin + _BOOKED).isoformat()}
        with closing(self.api("admin")) as api:
            made = api.post("/bookings/", json=body)
        if made.status_code != 201:
            return None
        self._open.append(int(made.json()["id"]))
        return self._open[-1]

    def _use(self, dice: random.Random, booking: str, pool: str) -> None:
        key = f"u{booking}"
        sent = draw_job(dice, self.witness, key, longest_s=3.0, only=("short",))
        sent = self.spread.placed(key, {**sent, "pool": pool, "booking": booking})
        status, jobs = 0, []
        try:
            with closing(self.api("alice")) as api:
                headers = {"Idempotency-Key": key}
                reply = api.post("/jobs/", json=sent, headers=headers)
            status = reply.status_code
            jobs = [int(reply.json()["id"])] if status in (200, 201) else []
        finally:
            # Also where no answer came: it may have been accepted.
            self.diary.note("submit", key=key, status=status, jobs=jobs, words="")

    def _give_back(self, booking: int) -> None:
        with closing(self.api("admin")) as api:
            if api.post(f"/bookings/{booking}/cancel/", json=_WHY).status_code < 500:
                self._open.remove(booking)

    def give_all_back(self) -> None:
        """Once the faults are over: nobody waits for a node that nobody uses."""
        for booking in list(self._open):
            self._give_back(booking)

    def ask(self, dice: random.Random) -> None:
        """A request for quota is mailed to those who decide, and taken back."""
        self._ask(dice.randint(1, 4))
        self.over.wait(dice.uniform(4.0, 10.0))

    def _ask(self, gpus: int) -> None:
        body = {"owner": PROJECT, "kind": "guaranteed", "amount": gpus}
        body |= {"justification": f"Torture asks at {time.time():.3f}."}
        with closing(self.api("alice")) as api:
            made = api.post("/requests/", json=body)
            if made.status_code == 201:
                asked = made.json()
                version = {"version": asked["version"]}
                api.post(f"/requests/{asked['id']}/withdraw/", json=version)
