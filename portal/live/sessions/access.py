"""Who may come in: addresses, cookies, and the right behind them, looked at again and again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from channels.db import database_sync_to_async
from django.conf import settings
from django.db import Error as DatabaseFault
from django.http.cookie import parse_cookie
from django.utils import timezone

from portal.live.session import keep_signed_in, user_of_session
from scheduler.services.sessions import Entry, entry_of, note_activity

logger = logging.getLogger(__name__)

RECHECK_S = 5.0
NOTED_EVERY_S = 10.0
_KNOWN_KEYS = 2000
_PATH = re.compile(r"/s/([1-9][0-9]{0,17})/", re.ASCII)
COOKIE = "trainyard_session"


def job_of_path(path: str) -> int | None:
    """Whose program an address belongs to."""
    found = _PATH.match(path)
    return int(found[1]) if found else None


def own_origin() -> str:
    """Where sessions are served, as browsers name it: `https://sessions.example.org`."""
    return _apart() or str(settings.PUBLIC_URL)


def _apart() -> str:
    """Where sessions are served if not with the portal; else empty."""
    return str(settings.TRAINYARD["session_origin"])


def is_shared() -> bool:
    """Whether sessions are served under the portal's own address."""
    return not _apart()


def is_right_host(scope: Any) -> bool:
    """Whether sessions are served under the name that was called: with an origin of their own
    nowhere else."""
    apart = _apart()
    return not apart or header(scope, b"host").lower() == urlsplit(apart).netloc.lower()


def is_sessions_alone(scope: Any) -> bool:
    """Whether the name that was called is that of sessions, where the portal has no pages."""
    apart = _apart()
    is_other = urlsplit(apart).netloc.lower() != urlsplit(settings.PUBLIC_URL).netloc.lower()
    return bool(apart) and is_other and is_right_host(scope)


def is_own_page(scope: Any) -> bool:
    """Whether a socket is asked for by a page of the same origin; programs send no Origin."""
    origin = urlsplit(header(scope, b"origin"))
    return origin.netloc.lower() == header(scope, b"host").lower() and bool(origin.netloc)


def header(scope: Any, name: bytes) -> str:
    """A request header's value, the last one's if there are several."""
    value: bytes = dict(scope["headers"]).get(name, b"")
    return value.decode("latin-1")


@dataclass(frozen=True, slots=True)
class Caller:
    """What a browser shows: the key to a session, and who is signed in to the portal there."""

    key: str = field(repr=False)
    signed_in: str = field(repr=False)


def caller_of(scope: Any) -> Caller:
    """Read from the cookies that came."""
    return Caller(_cookie(scope, COOKIE), _cookie(scope, settings.SESSION_COOKIE_NAME))


def _cookie(scope: Any, wanted: str) -> str:
    for name, value in scope["headers"]:
        if name == b"cookie" and (found := parse_cookie(value.decode("latin-1")).get(wanted)):
            return found
    return ""


def may_look_on(caller: Caller, user_id: int) -> bool:
    """Whether a program's pages of this person may be shown in that browser.

    Under the portal's own address they could use whatever the browser's cookies open there: nobody
    may be led to another's session, so its owner alone sees it, signed in. Under a name of their
    own no cookie of the portal comes, and none is needed.
    """
    if not is_shared():
        return True
    person = user_of_session(caller.signed_in)
    return person is not None and person.pk == user_id


def _looked_up(caller: Caller, job_id: int) -> Entry | None:
    found = entry_of(key=caller.key, job_id=job_id)
    return found if found is not None and may_look_on(caller, found.user_id) else None


def _note(caller: Caller | None, job_id: int) -> None:
    now = timezone.now()
    note_activity(job_id=job_id, at=now)
    if caller is not None and is_shared():
        # Who works here is not idle there, where being signed in is what keeps them here.
        keep_signed_in(caller.signed_in, now=now)


@dataclass(slots=True)
class _Known:
    entry: Entry
    until: float


@dataclass(slots=True)
class Doorkeeper:
    """What keys opened a moment ago, so that a page of a hundred files asks once."""

    known: dict[tuple[Caller, int], _Known] = field(default_factory=dict)
    noted: dict[tuple[Caller | None, int], float] = field(default_factory=dict)

    async def entry(self, caller: Caller, job_id: int, *, afresh: bool = False) -> Entry | None:
        """What the key opens in this browser; at most RECHECK_S old."""
        if not caller.key:
            return None
        known = self.known.get((caller, job_id))
        if known is not None and known.until > time.monotonic() and not afresh:
            return known.entry
        found = await database_sync_to_async(_looked_up)(caller, job_id)
        if len(self.known) > _KNOWN_KEYS:
            self.known.clear()
        if found is None:
            self.known.pop((caller, job_id), None)
        else:
            self.known[caller, job_id] = _Known(found, time.monotonic() + RECHECK_S)
        return found

    async def watch(
        self, caller: Caller, entry: Entry, revoke: Callable[[], Awaitable[None]]
    ) -> None:
        """Call `revoke` once the key does not open the same any more."""
        while True:
            await asyncio.sleep(RECHECK_S)
            now: Entry | None = entry
            with contextlib.suppress(Exception):  # a database that is away takes no right
                now = await self.entry(caller, entry.job_id, afresh=True)
            if now is None or now.fence != entry.fence:
                await revoke()
                return

    async def touch(self, caller: Caller | None, job_id: int) -> None:
        """Something was done in the session, by a person or (None) its program; written down now
        and then, and not where the database is away: that breaks off nobody's work."""
        now = time.monotonic()
        if now - self.noted.get((caller, job_id), -NOTED_EVERY_S) < NOTED_EVERY_S:
            return
        if len(self.noted) > _KNOWN_KEYS:
            self.noted.clear()
        self.noted[caller, job_id] = now
        try:
            await database_sync_to_async(_note)(caller, job_id)
        except DatabaseFault as error:
            logger.warning("what is done in session %s is not noted now: %s", job_id, error)


doorkeeper = Doorkeeper()
