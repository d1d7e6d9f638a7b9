"""How often somebody may call: a token bucket for each person (or program) and address.

A bucket holds what may come at once and fills evenly. The buckets are shared by all web processes,
in the Valkey or Redis that Channels and Celery use; while it is away each process counts for itself
(decision 195). What nodes call, and what callers without a good token do, each process counts for
itself: they are many, and a limit some times as high stops a program that runs wild as well. The
latter are counted at the API alone: behind one address may be many nodes, and one among them whose
token is no longer good must keep no other out.
"""

from __future__ import annotations

import hashlib
import threading

from django.conf import settings

from accounts.bounds.networks import network_of
from accounts.origin import current_origin
from portal.limits.memory import Buckets
from portal.limits.rates import Rate
from portal.limits.shared import SharedBuckets

API, SUBMIT, NODE, REFUSED = "api", "submit", "node", "refused"
SEARCH, EXPORT, SOCKET, SIGN_IN = "search", "export", "socket", "sign_in"
INVITE, ELSEWHERE, LETTER = "invite", "elsewhere", "letter"
_MOST_SAID = 200

_own = Buckets()
_shared: SharedBuckets | None = None
_lock = threading.Lock()


class TooFast(Exception):
    """One call too many; `wait_s` whole seconds and the next may be made."""

    def __init__(self, wait_s: int) -> None:
        super().__init__(f"Too many calls in too short a time. Try again in {wait_s} s.")
        self.wait_s = wait_s


def wait_s(kind: str, who: object, *, address: str | None = None, search: str | None = None) -> int:
    """Take a call of `who`; whole seconds to wait first when there is none, 0 when it was had.

    `address`: where from; None, from where the request comes that is being served. `search`: the
    text that is looked for; what is typed on costs a tenth.
    """
    rate = _rate(kind)
    if rate is None:
        return 0
    place = network_of(current_origin().ip if address is None else address)
    said = "" if search is None else f"={search[:_MOST_SAID]}"
    return _store().wait_s(f"{kind}:{who}@{place}", rate, said)


def own_wait_s(kind: str, who: object, *, takes: bool = True) -> int:
    """The same, counted in this process alone; `takes` False only looks."""
    rate = _rate(kind)
    return _own.wait_s(f"{kind}:{who}", rate, takes=takes) if rate else 0


def count(kind: str, who: object, *, search: str | None = None) -> None:
    """Take one call of this kind; raises TooFast where there is none."""
    if seconds := wait_s(kind, who, search=search):
        raise TooFast(seconds)


def letter_wait_s(person: int, to: str) -> int:
    """Take a letter with which this person has an address confirmed: of theirs, wherever they are,
    and of the address, whoever asks."""
    whom = hashlib.sha256(to.strip().casefold().encode("utf-8", "replace")).hexdigest()
    return max(wait_s(LETTER, who, address="") for who in (person, f"to:{whom}"))


def forget() -> None:
    """Begin anew, with the settings of now; for tests."""
    global _own, _shared
    with _lock:
        if _shared is not None:
            _shared.close()
        _own, _shared = Buckets(), None


def _rate(kind: str) -> Rate | None:
    """From the settings; None for no limit."""
    per_minute = settings.CALLS_PER_MINUTE[kind]
    if not per_minute:
        return None
    return Rate(per_minute, max(per_minute, settings.CALLS_AT_ONCE.get(kind, 1)))


def _store() -> SharedBuckets:
    global _shared
    with _lock:
        if _shared is None:
            _shared = SharedBuckets(settings.REDIS_URL)
        return _shared
