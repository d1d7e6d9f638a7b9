"""Those who use the portal meanwhile: submit, cancel, look where they may not.

Others ask beforehand (`asking.py`), send jobs of groups (`grouping.py`), have pages open
(`listening.py`), send waiting jobs to other pools (`moving.py`), plan ahead (`planning.py`), are
told by a webhook and a chat (`receiving.py`), have jobs come again (`repeating.py`), take rights
away (`revoking.py`), work in sessions (`visiting.py`). All spread over the pools (`spreading.py`).
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import cycle
from pathlib import Path

import httpx
import psycopg
from websockets.exceptions import ConnectionClosed

from portal.torture.history import Diary
from portal.torture.people.asking import Askers
from portal.torture.people.budgets import Treasurer
from portal.torture.people.grouping import Groupers
from portal.torture.people.listening import Listeners
from portal.torture.people.moving import Movers
from portal.torture.people.planning import Planners
from portal.torture.people.receiving import Receiver
from portal.torture.people.repeating import Repeaters
from portal.torture.people.revoking import Revokers
from portal.torture.people.spreading import Spread
from portal.torture.people.visiting import Visitors
from portal.torture.program import HOSTILE, NEED_GROUPS, NEED_USERS, draw_job, hostile_job
from portal.torture.yard import Yard
from scheduler.agent.runtime.limits import set_limits

logger = logging.getLogger(__name__)

_TRIES_S = 45.0
# Of so many submits by those who mean well.
_HOSTILE = 0.2
# Besides, one after so long: each of nine kinds eight times in ten minutes.
_HOSTILE_PACE_S = (3.0, 6.5)
_DONE = (200, 201)
# Held jobs wait for other jobs, a moment or their owner: nobody makes room for others with them.
_IN_LINE = """SELECT count(*) FROM scheduler_job
WHERE state NOT IN ('succeeded', 'failed', 'cancelled', 'held')"""


def _impossible() -> frozenset[str]:
    """What cannot be held back here: agents that are not root, a kernel without control groups."""
    left_out = frozenset() if os.geteuid() == 0 else NEED_USERS
    limits = set_limits(f"torture-{os.getpid()}", memory_mib=64, cpus=1)
    has_both = limits.memory_group is not None and limits.has_most_processes
    limits.remove()
    return left_out if has_both else left_out | NEED_GROUPS


class Crowd:
    """Threads until `over`; everything they are told goes into the diary."""

    def __init__(
        self, yard: Yard, diary: Diary, seed: int, witness: Path, way_in: str, over: threading.Event
    ) -> None:
        self.yard, self.diary, self.witness, self.over = yard, diary, witness, over
        self.way_in = way_in
        self.seed = seed
        # Three times what there is room for: what a booking, a budget or a fault holds up keeps
        # nobody else from coming.
        self.most = 6 * len(yard.nodes)
        self.jobs: list[int] = []
        # Each kind as often as the others, whoever submits.
        kinds = sorted(HOSTILE.keys() - _impossible())
        self._hostile = cycle(random.Random(f"{seed}-hostile").sample(kinds, len(kinds)))
        self.only: Sequence[str] = ()
        self.spread = Spread(yard.pools, diary)
        self.planners = Planners(yard, diary, witness, self.api, over, self.spread)
        self.revokers = Revokers(yard, diary, over, self.jobs, self.api)
        self.listeners = Listeners(yard, diary, over, self.jobs)
        self.visitors = Visitors(yard, diary, witness, self, over)
        self.askers = Askers(yard, diary, witness, self, over)
        self.groupers = Groupers(diary, witness, self, over)
        self.movers = Movers(yard, diary, self.spread, self, over)
        self.repeaters = Repeaters(yard, diary, witness, self.api, over, self.jobs, self.spread)
        self.receivers: list[Receiver] = []
        self.treasurer: Treasurer | None = None
        # False: only those who submit and cancel are here.
        self.is_whole = True
        # Long enough for somebody to rest. And what a planted bug asks for where it is not whole.
        self.is_long = self.joins = self.repeats = self.groups = self.is_told = False
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Let them loose."""
        works = [self._submit, self._submit, self._cancel]
        if self.is_whole or self.is_told:
            self._have_told()
        if self.is_whole or self.joins:
            works += [self.askers.join]
        if self.is_whole or self.repeats:
            works += [self.repeaters.repeat]
        if self.is_whole:
            self.planners.begin()
            works += [self._misbehave, self._peek, self.planners.book, self.planners.ask]
            works += [self.revokers.token, self.revokers.role, self.revokers.node]
            works += [self.listeners.listen, self.visitors.visit, self.visitors.visit, self._pay]
        numbered = list(enumerate(works))
        if self.is_whole or self.groups:
            # Behind who rests: everybody keeps their dice.
            numbered.append((len(works) + 1, self.groupers.group))
        if self.is_whole and len(self.yard.pools) > 1:
            numbered.append((len(works) + 2, self.movers.move))
        self._threads = [
            threading.Thread(target=self._for_ever, args=one, name=one[1].__name__, daemon=True)
            for one in numbered
        ]
        for thread in self._threads:
            thread.start()
        if self.is_whole and self.is_long:
            self.askers.begin(self.seed)
            # It stays until its job is over, and nobody waits for it.
            rests = (len(works), self.askers.rest)
            threading.Thread(target=self._for_ever, args=rests, daemon=True).start()

    def _have_told(self) -> None:
        """A webhook and two chats hear of what happens from now on."""
        self.receivers += [Receiver(self.diary, self.seed)]
        self.receivers += [Receiver(self.diary, self.seed + n, is_chat=True) for n in range(2)]
        for receiver in self.receivers:
            receiver.register(self.yard)

    def join(self) -> None:
        """Wait until all have gone home."""
        for thread in self._threads:
            thread.join(_TRIES_S * 2)
        if self.is_whole or self.repeats:
            self.repeaters.end()
        with suppress(httpx.HTTPError):
            self.planners.give_all_back()

    def close(self) -> None:
        """Nobody is told of anything any more."""
        for receiver in self.receivers:
            receiver.close()

    def api(self, username: str, way: str = "") -> httpx.Client:
        """The API as this person."""
        token = self.yard.api_tokens[username]
        return httpx.Client(
            base_url=f"{way or self.yard.address}/api/v1",
            headers={"Authorization": f"Bearer {token}"},
            timeout=20,
        )

    def _for_ever(self, number: int, work: Callable[[random.Random], None]) -> None:
        """`number`: tells people who do the same apart, so that each has dice of their own."""
        dice = random.Random(f"{self.seed}-{number}-{work.__name__}")
        while not self.over.is_set():
            try:
                work(dice)
            except (httpx.HTTPError, psycopg.Error, ConnectionClosed):
                self.over.wait(0.3)  # it is being hurt; that is the point
            except Exception:
                logger.exception("somebody of the crowd did not get on")
                self.over.wait(1.0)

    def _submit(self, dice: random.Random) -> None:
        """One job under a key of its own, asked for until it is answered."""
        with psycopg.connect(self.yard.database, connect_timeout=3) as line:
            row = line.execute(_IN_LINE).fetchone()
        if row is not None and row[0] >= self.most:
            self.over.wait(0.3)
            return
        key = f"t-{dice.getrandbits(48):012x}"
        # The next key hangs on nothing that is drawn for this job, nor on what is answered.
        own = random.Random(key)
        if own.random() < _HOSTILE:
            self._submit_hostile(key, own)
        else:
            longest_s = min(20.0, self.yard.timers.grace_s * 0.6)
            ahead_s = self.yard.ahead_s
            sent = draw_job(
                own, self.witness, key, longest_s=longest_s, only=self.only, ahead_s=ahead_s
            )
            try:
                self.submit(key, self.spread.lent(key, sent))
            except ValueError as refused:
                # Asked for again, its moment may be over; a pool whose GPUs were hurt may have too
                # few nodes for a gang by now, which is said to who asks. Nothing else is expected.
                if "finish_by" not in sent and '"field":"nodes"' not in str(refused):
                    raise
        self.over.wait(own.uniform(0.0, 0.6))

    def _misbehave(self, dice: random.Random) -> None:
        """One hostile job at once, so that there is some in any run, and another now and then."""
        self._submit_hostile(f"t-{dice.getrandbits(48):012x}", dice)
        self.over.wait(dice.uniform(*_HOSTILE_PACE_S))

    def _submit_hostile(self, key: str, dice: random.Random) -> None:
        kind, at = next(self._hostile), time.time()
        if self.submit(key, hostile_job(kind, dice, self.witness, key)):
            name = f"hostile-{kind}"
            self.diary.note("fault", at=at, name=name, number=16, target=key, until=None)

    def submit(self, key: str, sent: dict[str, object]) -> list[int]:
        """Ask until it is answered; the numbers of the jobs, none where nobody answers in time."""
        sent = self.spread.placed(key, sent)
        give_up = time.monotonic() + _TRIES_S
        while time.monotonic() < give_up:
            if jobs := self._sent(key, sent):
                return jobs
            time.sleep(0.4)
        return []

    def _sent(self, key: str, sent: dict[str, object]) -> list[int]:
        status, jobs = 0, []
        try:
            with self.api("alice", self.way_in) as api:
                reply = api.post("/jobs/", json=sent, headers={"Idempotency-Key": key})
            status = reply.status_code
            jobs = [int(reply.json()["id"])] if status in _DONE else []
        except (httpx.HTTPError, ValueError):
            status = 0
        # A refusal of the proxies has no words: these are the portal's own.
        words = reply.text[:300] if status >= 500 else ""
        self.diary.note("submit", key=key, status=status, jobs=jobs, words=words)
        self.jobs += jobs
        if 400 <= status < 500 and status != 429:
            raise ValueError(f"{status}: {reply.text[:300]}")
        return jobs

    def _cancel(self, dice: random.Random) -> None:
        """18: at any moment of a job's life, also after its end, sometimes twice at once."""
        self.over.wait(dice.uniform(1.0, 4.0))
        if not self.jobs:
            return
        job = dice.choice(self.jobs[-12:])
        self.cancel(job)

    def cancel(self, job: int) -> None:
        """As its owner, whatever state it is in."""
        with self.api("alice") as api:
            sent_at = time.time()
            status = api.post(f"/jobs/{job}/cancel/").status_code
        # Promised from the answer on: a call that a fault holds up may find a later attempt.
        self.diary.note("cancel", at=time.time(), sent_at=sent_at, job=job, status=status)
        if status in _DONE:
            self.diary.note("fault", name="cancel", number=18, target=str(job), until=None)

    def spare(self, jobs: Sequence[int]) -> None:
        """Nobody cancels these but who has asked for them."""
        for job in set(jobs) & set(self.jobs):
            self.jobs.remove(job)

    def cancel_the_past(self) -> None:
        """18: jobs that have ended are cancelled too, which must change nothing."""
        for job in self.jobs[:8]:
            with suppress(httpx.HTTPError):
                self.cancel(job)

    def _pay(self, dice: random.Random) -> None:
        if self.treasurer is None:
            self.over.wait()
        else:
            self.treasurer.raise_them(self.diary, self.over)

    def _peek(self, dice: random.Random) -> None:
        self.over.wait(1.0)
        if self.jobs:
            job = dice.choice(self.jobs)
            with self.api("carol") as api:
                status = api.get(f"/jobs/{job}/").status_code
            self.diary.note("peek", job=job, status=status)
