"""Who works in sessions: comes in by a ticket, talks, comes back, and is out when it is over."""

from __future__ import annotations

import json
import random
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from itertools import cycle
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import httpx
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from portal.torture.history import Diary
from portal.torture.people.doors import signed_in
from portal.torture.program import SESSION_IDLE_S, SESSIONS, session_job
from portal.torture.yard import Yard
from scheduler.states import FINAL_JOB_STATES, JobState

_OWNER, _STRANGER = "alice", "carol"
_STARTS_WITHIN_S = 40.0
_ANSWERS_WITHIN_S = 15.0
# The idle clock, and time for whoever looks at it (to tell, and to stop), the grace and the log.
_ENDS_WITHIN_S = SESSION_IDLE_S + 45.0
# Well after the time that the end of a session may take to be heard of.
_TRIED_AFTER_S = 12.0
# How often somebody who does not come in again tries, each time for `_ANSWERS_WITHIN_S`.
_TRIES = 3


class Door(Protocol):
    """What the crowd does for others."""

    def submit(self, key: str, sent: dict[str, object]) -> list[int]: ...
    def cancel(self, job: int) -> None: ...
    def spare(self, jobs: Sequence[int]) -> None: ...
    def api(self, username: str) -> httpx.Client: ...


class Visitors:
    """Work for the crowd's threads."""

    def __init__(
        self, yard: Yard, diary: Diary, witness: Path, door: Door, over: threading.Event
    ) -> None:
        self.yard, self.diary, self.witness, self.over = yard, diary, witness, over
        self.door = door
        # One of each kind is there in any run.
        self._apps = cycle(SESSIONS)

    def visit(self, dice: random.Random) -> None:
        """A session from its submit until well after its end."""
        app = next(self._apps)
        key = f"s-{dice.getrandbits(48):012x}"
        dice = random.Random(key)
        jobs = self.door.submit(key, session_job(app, dice, self.witness, key))
        if not jobs or not self._is_in(jobs[0], {JobState.RUNNING}, _STARTS_WITHIN_S):
            self.over.wait(dice.uniform(0.5, 2.0))
            return
        job, talk = jobs[0], self._type if app == "shell" else self._read
        with (
            closing(signed_in(self.yard, _OWNER)) as browser,
            ExitStack() as lines,
        ):
            browser.follow_redirects = False
            self._come_in(job, browser)
            with self.door.api(_STRANGER) as api:
                status = api.post(f"/sessions/{job}/ticket/").status_code
            self.diary.note("peek", job=job, status=status)
            # Whoever comes back finds what was left; the second line stays open.
            for again in (False, True):
                line = talk(job, browser)
                for _ in range(_TRIES if again else 0):
                    if line is not None or self._is_over(job):
                        break
                    line = talk(job, browser)
                self.diary.note("reached", job=job, app=app, ok=line is not None, again=again)
                if line is not None:
                    lines.callback(line.close)
                if line is not None and not again:
                    line.close()
            self._end(job, app, browser, dice)
            if self._is_in(job, set(FINAL_JOB_STATES), _ENDS_WITHIN_S):
                self._stay(job, browser, line)
        self.over.wait(dice.uniform(0.5, 2.0))

    def _is_in(self, job: int, states: set[JobState], within_s: float) -> bool:
        """Whether the job comes into one of these states in time."""
        until = time.monotonic() + within_s
        with self.door.api(_OWNER) as api:
            while time.monotonic() < until:
                state = api.get(f"/jobs/{job}/").raise_for_status().json()["state"]
                if state in states or state in FINAL_JOB_STATES:
                    return state in states
                if JobState.RUNNING in states and self.over.is_set():
                    return False
                time.sleep(0.4)
        return False

    def _is_over(self, job: int) -> bool:
        """Whether there is nothing to come back to any more; not, where nobody can say."""
        with suppress(httpx.HTTPError):
            return not self._is_in(job, {JobState.RUNNING}, 0.5)
        return False

    def _come_in(self, job: int, browser: httpx.Client) -> None:
        """A ticket, used and used again."""
        with self.door.api(_OWNER) as api:
            reply = api.post(f"/sessions/{job}/ticket/").raise_for_status()
        place, ticket = urlsplit(reply.json()["url"]), secrets.token_hex(4)
        for _ in range(2):
            status = browser.get(f"{place.path}?{place.query}").status_code
            self.diary.note("entered", job=job, ticket=ticket, status=status)

    def _read(self, job: int, browser: httpx.Client) -> Line | None:
        """The page, which says whose it is; None: not reached in time."""
        until = time.monotonic() + _ANSWERS_WITHIN_S
        while time.monotonic() < until:
            with suppress(httpx.HTTPError):
                reply = browser.get(f"/s/{job}/")
                if reply.status_code == 200:
                    self.diary.note("answered", job=job, by=int(reply.text))
                    return Line(None)
            time.sleep(0.4)
        return None

    def _type(self, job: int, browser: httpx.Client) -> Line | None:
        """The shell, which reckons and says whose it is."""
        until = time.monotonic() + _ANSWERS_WITHIN_S
        while time.monotonic() < until:
            with suppress(OSError, WebSocketException):
                line = Line(self._open(job, browser))
                by = line.ask(b"echo $((6*7))=$TRAINYARD_JOB_ID=\n", b"42=")
                if by:
                    self.diary.note("answered", job=job, by=int(by))
                    return line
                line.close()
            time.sleep(0.4)
        return None

    def _open(self, job: int, browser: httpx.Client) -> ClientConnection:
        address = self.yard.address.removeprefix("http://")
        # Without a jar's rules: the cookie's path is this one.
        cookies = "; ".join(f"{each.name}={each.value}" for each in browser.cookies.jar)
        return connect(
            f"ws://{address}/s/{job}/terminal",
            origin=Origin(self.yard.address),
            additional_headers={"Cookie": cookies},
            open_timeout=10,
            close_timeout=0.5,
            proxy=None,
        )

    def _end(self, job: int, app: str, browser: httpx.Client, dice: random.Random) -> None:
        """Cancelled, ended by its program, or left alone until its idle clock has run down."""
        how = dice.choice(("cancel", "idle", "quit"))
        if how == "cancel":
            self.door.cancel(job)
        elif how == "quit" and app == "command":
            with suppress(httpx.HTTPError):
                browser.get(f"/s/{job}/quit")

    def _stay(self, job: int, browser: httpx.Client, line: Line | None) -> None:
        """It is over: what is still open must fall silent, and the cookie opens nothing."""
        whose = {"what": "tunnel", "token": str(job)}
        self.diary.note("revoked", **whose)
        until = time.monotonic() + _TRIED_AFTER_S
        for _ in line.frames(until) if line is not None else ():
            self.diary.note("frame", **whose)
        time.sleep(max(0.0, until - time.monotonic()))
        self.diary.note("used", status=browser.get(f"/s/{job}/").status_code, **whose)


class Line:
    """What is open to a session's program; a page has nothing open between its requests."""

    def __init__(self, socket: ClientConnection | None) -> None:
        self._open = ExitStack()
        self.socket = self._open.enter_context(socket) if socket is not None else None

    def ask(self, keys: bytes, before: bytes) -> bytes:
        """Type `keys`; the word between `before` and the next "=", empty if none comes in time."""
        assert self.socket is not None
        self.socket.send(json.dumps([100, 30]))
        self.socket.send(keys)
        heard, until = b"", time.monotonic() + _ANSWERS_WITHIN_S / 3
        with suppress(TimeoutError):
            while (left_s := until - time.monotonic()) > 0:
                piece = self.socket.recv(timeout=left_s)
                heard += piece if isinstance(piece, bytes) else b""
                word, end, _ = heard.partition(before)[2].partition(b"=")
                if end and word.isdigit():
                    return word
        return b""

    def frames(self, until: float) -> Iterator[str | bytes]:
        """Each frame that still comes."""
        with suppress(TimeoutError, ConnectionClosed):
            while self.socket is not None and (left_s := until - time.monotonic()) > 0:
                yield self.socket.recv(timeout=left_s)

    def close(self) -> None:
        """Let go of it."""
        self._open.close()
