"""Connections to one server that are kept and lent; HTTP/1.1 as the standard library speaks it.

An agent makes the same few small calls all day. A client library for everything spends four times
as long on each of them as the call needs, and jobs want the node's processors for themselves.
Equals opening a connection for every call, without the opening.
"""

from __future__ import annotations

import base64
import http.client
import select
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

# Servers keep an idle connection for 30 s or more; ours are given up before theirs are.
_IDLE_S = 20.0
_MOST = 64
_BROKEN = (OSError, http.client.HTTPException, UnicodeError)


class NoAnswer(Exception):
    """The server was not reached, or the connection ended before its answer was whole."""


class NobodyListens(NoAnswer):
    """The host refused the connection: the server is down, and was not asked anything."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; `date` and `retry_after` are the server's headers of those names."""

    status: int
    body: bytes
    date: str
    retry_after: str = ""


class Connections:
    """Calls to one server; safe to share between threads, each call has a connection of its own.

    `knows_proxies`: proxies named by the environment are used.
    """

    def __init__(self, server: str, *, connect_s: float, knows_proxies: bool) -> None:
        self._parts = urlsplit(server)
        self._connect_s = connect_s
        self._proxy = _proxy_of(self._parts) if knows_proxies else None
        is_forwarded = self._proxy is not None and self._parts.scheme == "http"
        self._prefix = f"http://{self._parts.netloc}" if is_forwarded else ""
        self._tls = ssl.create_default_context() if self._parts.scheme == "https" else None
        self._idle: deque[tuple[http.client.HTTPConnection, float]] = deque()
        self._lent: set[http.client.HTTPConnection] = set()
        self._room = threading.BoundedSemaphore(_MOST)
        self._lock = threading.Lock()
        self._closed = False

    def call(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str], timeout_s: float
    ) -> Answer:
        """One request and its whole answer; raises NoAnswer.

        `timeout_s` bounds each wait for the server, the connection included where it must be made.
        """
        with self._one(timeout_s) as connection:
            try:
                connection.request(method, f"{self._prefix}{path}", body, self._with_proxy(headers))
                answer = connection.getresponse()
                date, later = (answer.getheader(name, "") for name in ("Date", "Retry-After"))
                return Answer(answer.status, answer.read(), date, later)
            except BaseException as problem:
                # Half a call may lie on it; nobody else may find that.
                connection.close()
                if isinstance(problem, _BROKEN):
                    raise NoAnswer(f"{problem}" or type(problem).__name__) from None
                raise

    def close(self) -> None:
        """Give up all connections; whoever waits for an answer gets NoAnswer."""
        with self._lock:
            self._closed = True
            idle, lent = list(self._idle), list(self._lent)
            self._idle.clear()
        for connection, _ in idle:
            connection.close()
        for connection in lent:
            # Its own thread closes it: a number that was closed here could be another file by then.
            held = connection.sock
            if held is not None:
                with suppress(OSError):
                    held.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def _one(self, timeout_s: float) -> Iterator[http.client.HTTPConnection]:
        if not self._room.acquire(timeout=timeout_s):
            raise NoAnswer("too many calls are on their way")
        try:
            connection = self._take(timeout_s)
            try:
                yield connection
            finally:
                self._put_back(connection)
        finally:
            self._room.release()

    def _take(self, timeout_s: float) -> http.client.HTTPConnection:
        connection = self._rested() or self._make()
        try:
            if connection.sock is None:
                connection.connect()
            connection.sock.settimeout(timeout_s)
        except _BROKEN as problem:
            connection.close()
            is_refused = isinstance(problem, ConnectionRefusedError)
            raise (NobodyListens if is_refused else NoAnswer)(
                f"{problem}" or type(problem).__name__
            ) from None
        with self._lock:
            self._lent.add(connection)
            if not self._closed:
                return connection
        self._put_back(connection)
        raise NoAnswer("the agent is ending")

    def _rested(self) -> http.client.HTTPConnection | None:
        """One that is still good, the last used first: the others may then grow old and go."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection, at = self._idle.pop()
            if time.monotonic() - at <= _IDLE_S and not _has_ended(connection.sock):
                return connection
            connection.close()

    def _put_back(self, connection: http.client.HTTPConnection) -> None:
        old = []
        with self._lock:
            self._lent.discard(connection)
            now = time.monotonic()
            self._idle.append((connection, now))
            while self._idle and (self._closed or now - self._idle[0][1] > _IDLE_S):
                old.append(self._idle.popleft()[0])
        for one in old:
            one.close()

    def _make(self) -> http.client.HTTPConnection:
        if self._proxy is not None and self._proxy.scheme != "http":
            raise NoAnswer(
                f"the proxy {self._proxy.scheme}://{self._proxy.hostname} cannot be used; name one "
                "that begins with http://, or put the server into NO_PROXY"
            )
        via = self._proxy or self._parts
        # Always said: without it the last part of an IPv6 address would be taken for the port.
        port = via.port or (80 if via.scheme == "http" else 443)
        host = via.hostname or ""
        if self._tls is None:
            return http.client.HTTPConnection(host, port, timeout=self._connect_s)
        connection = http.client.HTTPSConnection(
            host, port, timeout=self._connect_s, context=self._tls
        )
        if self._proxy is not None:
            connection.set_tunnel(
                self._parts.hostname or "", self._parts.port or 443, _proxy_login(self._proxy)
            )
        return connection

    def _with_proxy(self, headers: Mapping[str, str]) -> dict[str, str]:
        return {**headers, **_proxy_login(self._proxy)} if self._prefix else dict(headers)


def _has_ended(sock: socket.socket | None) -> bool:
    """Whether the server has hung up a connection that nothing is expected on."""
    if sock is None:
        return True
    watch = select.poll()
    watch.register(sock, select.POLLIN)
    return bool(watch.poll(0))


def _proxy_of(server: SplitResult) -> SplitResult | None:
    """The proxy that the environment names for this server, as programs on Unix read it."""
    named = getproxies()
    address = named.get(server.scheme) or named.get("all")
    if not address or proxy_bypass(server.hostname or ""):
        return None
    return urlsplit(address if "://" in address else f"http://{address}")


def _proxy_login(proxy: SplitResult | None) -> dict[str, str]:
    if proxy is None or not proxy.username:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
