"""Who has a page open: its socket hears of jobs, and falls silent once its person signs out."""

from __future__ import annotations

import json
import random
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress

import httpx
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import ClientConnection

from portal.torture import aftermath
from portal.torture.history import Diary
from portal.torture.people.doors import open_page, signed_in
from portal.torture.yard import Yard

_WATCHED = 20
# Well after the time that the end of a session may take to be heard of.
_TRIED_AFTER_S = 12.0
_LISTENER = "bob"
# A little more than an open page is given to hear of an end when all is quiet.
_STAYS_S = 12.0


class Listeners:
    """Work for the crowd's threads. `jobs`: what was accepted so far, the last ones are watched."""

    def __init__(
        self, yard: Yard, diary: Diary, over: threading.Event, jobs: Sequence[int]
    ) -> None:
        self.yard, self.diary, self.over, self.jobs = yard, diary, over, jobs

    def listen(self, dice: random.Random) -> None:
        """A page for some seconds; then it is closed, or its person signs out beside it."""
        with closing(signed_in(self.yard, _LISTENER)) as person:
            cookies = dict(person.cookies)
            try:
                page = open_page(self.yard, cookies)
            except (OSError, WebSocketException) as refused:
                raise httpx.ConnectError(str(refused)) from None
            with page:
                self._watch(page, self.jobs[-_WATCHED:])
                until = time.monotonic() + dice.uniform(4.0, 10.0)
                heard = self._hear(page, person, until, self.over)
                self._count_missed(person, heard)
                if dice.random() < 0.5:
                    self._sign_out(person, page, cookies)
        self.over.wait(dice.uniform(0.5, 2.0))

    @contextmanager
    def stay(self) -> Iterator[None]:
        """A page on what still goes on, now that the storm is over, until a while after this."""
        left = aftermath.unfinished(self.yard.database) or []
        done, shows = threading.Event(), list[tuple[int, str]]()
        hears = threading.Thread(
            target=self._stay, args=([job for job, _ in left][-_WATCHED:], done, shows)
        )
        hears.start()
        try:
            yield
            done.wait(_STAYS_S if hears.is_alive() else 0.0)
        finally:
            done.set()
            hears.join()
        self.diary.note("quiet", shows=shows)

    def _stay(
        self, jobs: Sequence[int], done: threading.Event, shows: list[tuple[int, str]]
    ) -> None:
        """Fills `shows`; a page whose socket was closed, or could not be opened, shows nothing."""
        found: dict[int, str] = {}
        with suppress(OSError, WebSocketException, httpx.HTTPError):
            with (
                closing(signed_in(self.yard, _LISTENER)) as person,
                open_page(self.yard, dict(person.cookies)) as page,
            ):
                self._watch(page, jobs)
                while not done.is_set():
                    heard = self._hear(page, person, time.monotonic() + 1.0, done)
                    if heard is None:
                        return
                    found |= heard
            shows += found.items()

    def _watch(self, page: ClientConnection, jobs: Sequence[int]) -> None:
        watched = [f"job:{job}" for job in jobs]
        page.send(json.dumps({"subscribe": ["queue:default", "nodes", *watched]}))

    def _hear(
        self, page: ClientConnection, person: httpx.Client, until: float, over: threading.Event
    ) -> dict[int, str] | None:
        """What the page shows of each job: asked for when its topic greets or hints, as pages do.

        None where the socket was closed: its page polls from then on.
        """
        shows: dict[int, str] = {}
        with suppress(TimeoutError):
            while (left_s := until - time.monotonic()) > 0 and not over.is_set():
                try:
                    frame = json.loads(page.recv(timeout=left_s))
                except ConnectionClosed:
                    return None
                kind, _, ref = frame["topic"].partition(":")
                if kind == "job" and frame["kind"] != "refused":
                    shows[int(ref)] = self._state(person, int(ref))
        return shows

    def _state(self, person: httpx.Client, job: int) -> str:
        return str(person.get(f"/api/v1/jobs/{job}/").raise_for_status().json()["state"])

    def _count_missed(self, person: httpx.Client, shows: dict[int, str] | None) -> None:
        """Of an open page: what is shown, and what is so by now and was not told."""
        if shows is None:
            self.diary.note("page", jobs=0, missed=0, closed=True)
            return
        now = {job: self._state(person, job) for job in shows}
        late = [job for job in shows if shows[job] != now[job]]
        self.diary.note("page", jobs=len(shows), missed=len(late), closed=False)

    def _sign_out(
        self, person: httpx.Client, page: ClientConnection, cookies: dict[str, str]
    ) -> None:
        """The session ends; its socket must fall silent, and its cookies open nothing."""
        whose = {"what": "session", "token": secrets.token_hex(4)}
        form = {"csrfmiddlewaretoken": cookies.get("csrftoken", "")}
        person.post("/accounts/logout/", data=form).raise_for_status()
        self.diary.note("revoked", **whose)
        until = time.monotonic() + _TRIED_AFTER_S
        with suppress(TimeoutError, ConnectionClosed):
            while (left_s := until - time.monotonic()) > 0:
                page.recv(timeout=left_s)
                self.diary.note("frame", **whose)
        time.sleep(max(0.0, until - time.monotonic()))
        with httpx.Client(base_url=self.yard.address, cookies=cookies, timeout=20) as past:
            self.diary.note("used", status=past.get("/jobs/").status_code, **whose)
