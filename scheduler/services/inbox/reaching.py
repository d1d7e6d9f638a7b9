"""The one way out of this server to an address that somebody typed in.

The name is looked up once, every address it has must be of the open internet or of a network that
the operator allowed, and the connection goes to one of these very addresses: a name that means
something else a moment later leads nowhere else. TLS and the Host header keep the name. Redirects
are not followed, of the answer status and head are read and no more than 64 KiB, and all of it ends
soon.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

CONNECT_S, WHOLE_S = 3.0, 10.0
MOST_READ = 64 * 1024
MOST_CHARS = 500
_MOST_ADDRESSES = 3
_DEFAULT_PORTS = {"https": 443, "http": 80}
# The last 32 bits are an address of version 4 behind a translator (RFC 6052).
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
# Not of the open internet, though Python calls them global: one's own translators (RFC 8215, and
# RFC 2765 before), addresses of version 4 in an old way (RFC 4291), of a site (RFC 3879).
_NEVER_OPEN = tuple(
    map(ipaddress.IPv6Network, ("64:ff9b:1::/48", "::ffff:0:0:0/96", "::/96", "fec0::/10"))
)

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; `retry_after` as it was written there, empty for none (RFC 9110, 10.2.3)."""

    status: int
    retry_after: str = ""


def problem_of(url: str) -> str:
    """What is wrong with an address, in a sentence with the remedy; empty: nothing.

    No name is looked up: where it leads may change until it is called.
    """
    try:
        parts = urlsplit(url)
        # The port is only read, and refused, when it is asked for.
        is_whole = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_whole = False
    if not is_whole or parts.scheme not in _DEFAULT_PORTS or len(url) > MOST_CHARS:
        return "Write a whole address, such as https://chat.example.org/hook."
    if parts.username or parts.password:
        return "Leave name and password out: requests are signed instead."
    if not url.isprintable() or " " in url:
        return "Leave spaces and control characters out."
    if not (parts.path + parts.query).isascii():
        return "Behind the host, write letters beyond ASCII as %XX (ö is %C3%B6)."
    try:
        # As it is looked up and told.
        str(parts.hostname).encode("idna")
    except UnicodeError:
        return f"{parts.hostname!r} is no name of a host: each part has 1 to 63 characters."
    return _refused_by_settings(parts)


def _refused_by_settings(parts: SplitResult) -> str:
    if parts.scheme == "http" and not settings.WEBHOOKS_IN_THE_CLEAR:
        return (
            "Write https://: on the way everybody would read what is told. "
            "(TRAINYARD_WEBHOOKS_IN_THE_CLEAR allows http://.)"
        )
    allowed = settings.WEBHOOK_PORTS
    if allowed is not None and _port_of(parts) not in allowed:
        known = ", ".join(map(str, sorted(allowed))) or "none"
        return (
            f"Port {_port_of(parts)} is not among those that may be called: {known}. An operator "
            "adds it to TRAINYARD_WEBHOOK_PORTS."
        )
    literal = _literal(parts.hostname or "")
    return _refused(str(parts.hostname), literal) if literal is not None else ""


def post(url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
    """Raises OSError, HTTPException."""
    if problem := problem_of(url):
        raise OSError(problem)
    parts = urlsplit(url)
    line = _Line(parts, _addresses(str(parts.hostname), _port_of(parts)))
    ends = threading.Timer(WHOLE_S, line.abort)
    ends.daemon = True
    ends.start()
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        line.request("POST", target, body, dict(headers))
        response = line.getresponse()
        answer = Answer(response.status, response.getheader("Retry-After", ""))
    except (OSError, HTTPException, ValueError, AttributeError):
        if not line.is_over:
            raise
    finally:
        ends.cancel()
        line.close()
    if line.is_over:
        raise OSError(f"no whole answer within {WHOLE_S:.0f} s")
    return answer


def _addresses(host: str, port: int) -> list[Address]:
    """What the name means now, each looked at. Raises OSError for a single one that is refused."""
    found: list[Address] = []
    for *_, where in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        address = ipaddress.ip_address(str(where[0]).partition("%")[0])
        if refused := _refused(host, address):
            raise OSError(refused)
        if address not in found:
            found.append(address)
    return found[:_MOST_ADDRESSES]


def _refused(host: str, address: Address) -> str:
    """Why this address is not called; empty: it may be."""
    for inner in _meant(address):
        is_allowed = any(inner in network for network in settings.WEBHOOK_NETWORKS)
        if not is_allowed and not _is_open(inner):
            named = str(inner) if host == str(inner) else f"{host} ({inner})"
            return (
                f"{named} is not of the open internet. An operator allows networks of your own in "
                "TRAINYARD_WEBHOOK_NETWORKS."
            )
    return ""


def _is_open(address: Address) -> bool:
    """Whether it is of the open internet."""
    is_never = any(address in network for network in _NEVER_OPEN)
    return address.is_global and not address.is_multicast and not is_never


def _meant(address: Address) -> list[Address]:
    """The address, or those of version 4 that are written in it."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    if address in _TRANSLATED:
        return [ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)]
    inner: list[Address] = [address]
    if address.sixtofour is not None:
        inner.append(address.sixtofour)
    return inner + list(address.teredo or ())


def _literal(host: str) -> Address | None:
    """The address that a host is without being looked up, in any way that the system reads one."""
    if host == "localhost" or host.endswith(".localhost"):
        return ipaddress.IPv4Address("127.0.0.1")
    with suppress(ValueError):
        return ipaddress.ip_address(host.partition("%")[0])
    with suppress(OSError, UnicodeError):
        return ipaddress.IPv4Address(socket.inet_aton(host))
    return None


def _port_of(parts: SplitResult) -> int:
    return parts.port or _DEFAULT_PORTS[parts.scheme]


class _Line(HTTPConnection):
    """A connection to one of the given addresses that says and checks the name of the host."""

    def __init__(self, parts: SplitResult, addresses: list[Address]) -> None:
        self.default_port = _DEFAULT_PORTS[parts.scheme]
        super().__init__(str(parts.hostname), parts.port, timeout=CONNECT_S)
        self.response_class = _Short
        self.is_over = False
        self._is_secret = parts.scheme == "https"
        self._addresses = addresses
        self.sock: Any = None

    def connect(self) -> None:
        """The first address that answers; three seconds for each."""
        refused: OSError | None = None
        for address in self._addresses:
            try:
                self.sock = socket.create_connection((str(address), self.port), CONNECT_S)
                break
            except OSError as error:
                refused = error
        else:
            raise refused or OSError(f"{self.host} has no address")
        self.sock.settimeout(WHOLE_S)
        if self._is_secret:
            context = ssl.create_default_context()
            # Only then shaken hands over: before, `abort` would not know what to shut.
            self.sock = context.wrap_socket(
                self.sock, server_hostname=self.host, do_handshake_on_connect=False
            )
            self.sock.do_handshake()

    def abort(self) -> None:
        """From another thread: whoever waits here is told that it is over."""
        self.is_over = True
        with suppress(OSError, AttributeError):
            self.sock.shutdown(socket.SHUT_RDWR)


class _Short(HTTPResponse):
    """An answer of which at most 64 KiB are read."""

    def __init__(self, sock: Any, *args: Any, **more: Any) -> None:
        super().__init__(sock, *args, **more)
        self.fp: Any = _Capped(self.fp)


class _Capped:
    """A file that ends with an error where it is too long."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._left = MOST_READ

    def readline(self, size: int = -1) -> bytes:
        """One line; raises OSError beyond the cap."""
        most = self._left + 1 if size < 0 else min(size, self._left + 1)
        line: bytes = self._file.readline(most)
        self._left -= len(line)
        if self._left < 0:
            raise OSError(f"its answer is longer than {MOST_READ // 1024} KiB")
        return line

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
