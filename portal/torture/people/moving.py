"""Who sends waiting jobs to other pools, while the scheduler starts and moves them itself."""

from __future__ import annotations

import random
import threading
import time

import httpx
import psycopg

from portal.torture.history import Diary
from portal.torture.people.spreading import Spread
from portal.torture.people.visiting import Door
from portal.torture.yard import Yard

_OWNER, _OPERATOR = "alice", "admin"
_CONSENT, _DONE = 403, 200
# Of those in line some that nobody has looked at for long; a booking is of one pool.
_WAITING = """SELECT job.id, job.nodes, team.slug || '/' || project.slug FROM scheduler_job job
JOIN accounts_project project ON project.id = job.project_id
JOIN accounts_team team ON team.id = project.team_id
WHERE job.state = 'queued' AND job.booked_in_id IS NULL ORDER BY job.id DESC LIMIT 12"""


class Movers:
    """Work for one of the crowd's threads."""

    def __init__(
        self, yard: Yard, diary: Diary, spread: Spread, door: Door, over: threading.Event
    ) -> None:
        self.yard, self.diary, self.spread, self.over = yard, diary, spread, over
        self.door = door

    def move(self, dice: random.Random) -> None:
        """A job that waits is to wait in another pool, or to choose from others; where somebody
        else would start later for it, an operator says so."""
        self.over.wait(dice.uniform(1.5, 4.0))
        with psycopg.connect(self.yard.database, connect_timeout=3) as line:
            waiting = line.execute(_WAITING).fetchall()
        if not waiting or self.over.is_set():
            return
        job, nodes, project = dice.choice(waiting)
        pools = self.spread.drawn(dice, nodes, project)
        if self._ask(job, pools, _OWNER) == _CONSENT:
            self._ask(job, pools, _OPERATOR)

    def _ask(self, job: int, pools: list[str], who: str) -> int:
        status, sent_at = 0, time.time()
        try:
            with self.door.api(who) as api:
                asked = {"pool": ", ".join(pools)}
                status = api.post(f"/jobs/{job}/change/", json=asked).status_code
        except httpx.HTTPError:
            status = 0
        # Also where no answer came: it may have been done.
        self.diary.note("moved", job=job, pools=pools, status=status, sent_at=sent_at)
        return status
