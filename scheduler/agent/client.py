"""The three calls a node makes, over HTTP; what may be tried again and what may not."""

from __future__ import annotations

import hashlib
import ipaddress
import random
import time
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import urlsplit

from scheduler.agent.runtime.connections import Answer, Connections, NoAnswer, NobodyListens
from scheduler.wire.codec import WireError, decode, encode
from scheduler.wire.messages import (
    AGENT_VERSION,
    EnrolReply,
    EnrolRequest,
    LogAck,
    Refusal,
    SyncReply,
    SyncRequest,
)
from scheduler.wire.outputs import OutputList, OutputPlan
from scheduler.wire.secrets import SecretsReply

Reply = TypeVar("Reply")

_CONNECT_S = 5.0
_ANSWER_S = 15.0
_SHOWN_BODY = 200
# To be refused costs a server that is down nothing; once it is up, all come within this time.
_DOWN_S = 2.0
# However long a server asks to be left alone: who is not heard for its lease (45 s) is silent.
_LONGEST_ASKED_S = 30.0
_TRY_AGAIN = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})
# What a proxy's own words end: the same message will never come through it.
_OF_THE_MESSAGE = frozenset(
    {
        HTTPStatus.LENGTH_REQUIRED,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.REQUEST_URI_TOO_LONG,
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    }
)


class ServerAway(Exception):
    """No usable answer: unreachable, timed out, 5xx, or not our protocol. Try again later, and not
    within `wait_s`, which the server asked for."""

    def __init__(self, problem: str = "", wait_s: float = 0.0) -> None:
        self.wait_s = wait_s
        super().__init__(problem)


class ServerDown(ServerAway):
    """Nothing listens at the server's address: it is being started again, or its host is new."""


class NotThePortal(ServerAway):
    """A 4xx in other words than the portal's: a proxy that is just loading its rules, or a portal
    too old for the call. Says nothing of the call itself."""

    def __init__(self, status: int, problem: str) -> None:
        self.status = status
        super().__init__(problem)


class Refused(Exception):
    """The server understood and said no (4xx); saying the same again will not help."""

    def __init__(self, status: int, refusal: Refusal) -> None:
        self.status = status
        self.refusal = refusal
        super().__init__(f"{status} {refusal.code}: {refusal.detail}")


class Backoff:
    """Full-jitter waiting times: random up to a bound that doubles from `first_s` to `cap_s`."""

    def __init__(self, cap_s: float, first_s: float = 0.25) -> None:
        self.first_s = min(first_s, cap_s)
        self.cap_s = cap_s
        self._bound_s = self.first_s

    def next_s(self, problem: Exception | None = None) -> float:
        """How long to wait before the next try; a short while after ServerDown, and never less
        than the server asked for: all whom it asked so come one after the other then."""
        if isinstance(problem, ServerDown):
            self._bound_s = min(self._bound_s, _DOWN_S)
        wait_s = random.uniform(self.first_s / 2, self._bound_s)
        self._bound_s = min(self.cap_s, self._bound_s * 2)
        return wait_s + (problem.wait_s if isinstance(problem, ServerAway) else 0.0)

    def reset(self) -> None:
        """It worked: the next failure waits shortly again."""
        self._bound_s = self.first_s


class Client:
    """Calls to one server; safe to share between threads."""

    def __init__(self, server: str, node_token: str = "") -> None:
        self.server = server.rstrip("/")
        self._root = f"{urlsplit(self.server).path}/api/agent/v1"
        self._headers = {"User-Agent": f"trainyard-agent/{AGENT_VERSION}"}
        # A proxy set for the outer world cannot know this host's loopback.
        self._connections = Connections(
            self.server, connect_s=_CONNECT_S, knows_proxies=not is_loopback(self.server)
        )
        if node_token:
            self.use_token(node_token)

    def use_token(self, node_token: str) -> None:
        """Calls from now on carry this node token."""
        self._headers = {**self._headers, "Authorization": f"Bearer {node_token}"}

    def close(self) -> None:
        """Drop all connections; a held call ends with ServerAway."""
        self._connections.close()

    def enrol(self, request: EnrolRequest) -> EnrolReply:
        """Buy a node token with the single-use token."""
        return self._call(EnrolReply, "/enrol", encode(request))

    def sync(self, request: SyncRequest) -> SyncReply:
        """Say how things are, hear how they should be; may be held `request.hold_s`."""
        return self._call(SyncReply, "/sync", encode(request), extra_s=request.hold_s)

    def send_log(self, fence: int, rank: int, offset: int, chunk: bytes) -> LogAck:
        """Send bytes of a stream with their digest; the answer says how many are durable."""
        digest = hashlib.sha256(chunk).hexdigest()
        place = f"/attempts/{fence}/log?rank={rank}&offset={offset}&sha256={digest}"
        return self._call(LogAck, place, chunk, kind="application/octet-stream")

    def secrets(self, fence: int) -> SecretsReply:
        """The values of the secrets of an attempt that is about to start here."""
        return self._call(SecretsReply, f"/attempts/{fence}/secrets", b"")

    def send_outputs(self, fence: int, rank: int, found: OutputList) -> OutputPlan:
        """Tell what lies in a rank's output folder; the answer says what is wanted of it."""
        return self._call(OutputPlan, f"/attempts/{fence}/outputs?rank={rank}", encode(found))

    def send_output(self, fence: int, rank: int, number: int, offset: int, part: bytes) -> LogAck:
        """Send a part of a wanted file; the answer says how many of its bytes are durable."""
        place = f"/attempts/{fence}/outputs/{number}?rank={rank}&offset={offset}"
        return self._call(LogAck, place, part, kind="application/octet-stream")

    def clock_ahead_s(self) -> float | None:
        """This clock less the server's, by its Date header whatever it answers; None: it tells no
        time. Raises ServerAway."""
        try:
            answer = self._connections.call("GET", f"{self._root}/", b"", self._headers, _CONNECT_S)
            return time.time() - parsedate_to_datetime(answer.date).timestamp()
        except NoAnswer as error:
            raise ServerAway(f"{self.server} does not answer: {error}") from None
        except (TypeError, ValueError):
            return None

    def _call(
        self,
        reply: type[Reply],
        place: str,
        body: bytes,
        *,
        kind: str = "application/json",
        extra_s: float = 0.0,
    ) -> Reply:
        headers = {**self._headers, "Content-Type": kind}
        try:
            answer = self._connections.call(
                "POST", f"{self._root}{place}", body, headers, _ANSWER_S + extra_s
            )
        except NoAnswer as problem:
            is_down = isinstance(problem, NobodyListens)
            kind_of = ServerDown if is_down else ServerAway
            raise kind_of(f"{self.server}{place}: {problem}") from None
        if answer.status >= 500 or answer.status in _TRY_AGAIN:
            asked_s = _asked_s(answer.retry_after)
            raise ServerAway(f"{self.server}{place} answered {answer.status}", asked_s)
        if answer.status >= 400:
            raise self._no(place, answer)
        try:
            return decode(reply, answer.body)
        except WireError as error:
            raise ServerAway(
                f"{self.server}{place} answered {answer.status} with something else than "
                f"expected ({error}); is the address right?"
            ) from None

    def _no(self, place: str, answer: Answer) -> Refused | NotThePortal:
        """What a 4xx means: the portal says no in a Refusal, and whatever else is between it and
        here may say it for a moment."""
        try:
            return Refused(answer.status, decode(Refusal, answer.body))
        except WireError:
            words = answer.body[:_SHOWN_BODY].decode("utf-8", "replace")
        if answer.status in _OF_THE_MESSAGE:
            return Refused(answer.status, Refusal("unknown", words))
        problem = f"{self.server}{place} answered {answer.status}, not as the portal does"
        return NotThePortal(answer.status, f"{problem}: {words!r}; is the address right?")


def _asked_s(retry_after: str) -> float:
    """How long a server wants to be left alone; 0 where it says nothing, or a date."""
    whole = retry_after if retry_after.isascii() and retry_after.isdigit() else "0"
    return min(_LONGEST_ASKED_S, float(whole))


def is_loopback(server: str) -> bool:
    """Whether an address is this host's own."""
    name = urlsplit(server).hostname or ""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"
