"""Who asks for things beforehand: arrays that wait task for task, and jobs that do nothing under a
rule for idle GPUs, whose owner goes on with them."""

from __future__ import annotations

import random
import threading
import time
from contextlib import suppress
from pathlib import Path

import httpx
import psycopg

from portal.torture.history import Diary
from portal.torture.people.visiting import Door
from portal.torture.program import PROJECT, RESTS_S, joined_jobs, resting_job
from portal.torture.yard import Yard
from scheduler.states import FINAL_JOB_STATES, JobState

_OWNER = "alice"
_NEXT_S = 45.0
_ENDING = frozenset({*FINAL_JOB_STATES, JobState.STOPPING})
# Below what people may set: of a run of minutes a window of ten would be all.
_RULE = """INSERT INTO scheduler_idlerule (project_id, is_on, below_percent, first_minutes,
warn_minutes, act, act_minutes, keep_hours, version, set_at)
SELECT project.id, true, 5, 0, 1, %s, 0, 1, 1, now() FROM accounts_project project
JOIN accounts_team team ON team.id = project.team_id WHERE team.slug = %s AND project.slug = %s"""
# The rule's window is so short that a clock which is put forward makes any job look idle for it.
_CAUGHT = """SELECT job.id FROM scheduler_job job
WHERE job.state = 'held' AND job.name NOT LIKE 'r-%'
AND (SELECT event.detail->>'reason' FROM scheduler_jobevent event WHERE event.job_id = job.id
ORDER BY event.id DESC LIMIT 1) = 'idle_paused'"""


class Askers:
    """Work for the crowd's threads."""

    def __init__(
        self, yard: Yard, diary: Diary, witness: Path, door: Door, over: threading.Event
    ) -> None:
        self.yard, self.diary, self.witness, self.over = yard, diary, witness, over
        self.door = door

    def join(self, dice: random.Random) -> None:
        """Two arrays; where a task has failed already, the second is refused, and rightly so."""
        keys = (f"j-{dice.getrandbits(48):012x}", f"j-{dice.getrandbits(48):012x}")
        own = random.Random(keys[0])
        first, second = joined_jobs(own, self.witness, keys)
        if jobs := self.door.submit(keys[0], first):
            with self.door.api(_OWNER) as api:
                number = api.get(f"/jobs/{jobs[0]}/").raise_for_status().json()["set"]
            self.diary.note("joined", key=keys[1], before=keys[0])
            with suppress(ValueError):
                self.door.submit(keys[1], second | {"depends_on": f"aftercorr:set={number}"})
        self.over.wait(own.uniform(5.0, 10.0))

    def begin(self, seed: int) -> None:
        """The rule, which pauses or stops by the seed."""
        team, project = PROJECT.split("/")
        with psycopg.connect(self.yard.database, autocommit=True) as line:
            line.execute(_RULE, ("pause" if seed % 2 else "stop", team, project))

    def rest(self, dice: random.Random) -> None:
        """A job that does nothing; paused it is resumed once, and cancelled then, or when that took
        too long: nodes that it ran on may have been lost."""
        key = f"r-{dice.getrandbits(48):012x}"
        jobs = self.door.submit(key, resting_job(random.Random(key), self.witness, key))
        self.door.spare(jobs)
        until, was_resumed = time.monotonic() + RESTS_S, False
        while jobs and time.monotonic() < until:
            time.sleep(1.0)
            self.go_on()
            with suppress(httpx.HTTPError, ValueError):
                state = self._state(jobs[0])
                if state in FINAL_JOB_STATES:
                    break
                if state == JobState.HELD and was_resumed:
                    self.door.cancel(jobs[0])
                elif state == JobState.HELD:
                    with self.door.api(_OWNER) as api:
                        was_resumed = api.post(f"/jobs/{jobs[0]}/resume/").status_code == 200
        else:
            self._give_up(jobs)
        self.over.wait(_NEXT_S)

    def go_on(self) -> None:
        """With jobs of others that the rule has paused: nobody else waits for them."""
        with suppress(httpx.HTTPError, psycopg.Error):
            with psycopg.connect(self.yard.database, connect_timeout=3) as line:
                caught = line.execute(_CAUGHT).fetchall()
            for (job,) in caught:
                with self.door.api(_OWNER) as api:
                    api.post(f"/jobs/{job}/resume/")

    def _give_up(self, jobs: list[int]) -> None:
        """Cancel it, also where the portal is away for a while."""
        until = time.monotonic() + RESTS_S
        while jobs and time.monotonic() < until:
            with suppress(httpx.HTTPError, ValueError):
                if self._state(jobs[0]) in _ENDING:
                    return
                self.door.cancel(jobs[0])
            time.sleep(1.0)

    def _state(self, job: int) -> str:
        with self.door.api(_OWNER) as api:
            return str(api.get(f"/jobs/{job}/").raise_for_status().json()["state"])
