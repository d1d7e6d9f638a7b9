"""Harm to what brings hints: the broker, those who keep house, those who listen (fault 17)."""

from __future__ import annotations

import contextlib
import json
import socket
from contextlib import closing

import httpx
import redis
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect
from websockets.typing import Origin

from portal.embedded.programs import BACKGROUND, BEAT, BROKER
from portal.torture.faults.hand import Fault, Hand
from portal.torture.people.doors import signed_in

_TRIES = 20
_PAGES = 8
_LEAST_BUFFER = 2_048
_LISTENER = "alice"


def kill_broker(hand: Hand) -> str:
    """Hints are lost."""
    return BROKER if hand.kill(hand.yard.pid_of(BROKER)) else ""


def stop_broker(hand: Hand) -> str:
    """It takes connections and never answers."""
    with hand.stopping(hand.yard.pid_of(BROKER)) as reached:
        hand.nap(hand.dice.uniform(2.0, 4.0))
    return BROKER if reached else ""


def fill_broker(hand: Hand) -> str:
    """It answers, and takes nothing that needs room."""
    if not _may_hold(hand, 1):
        return ""
    hand.nap(hand.dice.uniform(2.0, 5.0))
    for _ in range(_TRIES):
        if _may_hold(hand, 0):
            return BROKER
        hand.yard.pause(0.5)
    raise RuntimeError("the broker could not be given room again")


def _may_hold(hand: Hand, most_bytes: int) -> bool:
    with contextlib.suppress(redis.RedisError, OSError):
        path = str(hand.yard.places.broker_socket)
        with redis.Redis(unix_socket_path=path, socket_timeout=3) as line:
            return bool(line.config_set("maxmemory", most_bytes))
    return False


def kill_background(hand: Hand) -> str:
    """What may be late is later."""
    name = hand.dice.choice((BACKGROUND, BEAT))
    return name if hand.kill(hand.yard.pid_of(name)) else ""


def never_read(hand: Hand) -> str:
    """Pages that ask for everything and take nothing: who writes must not wait for them."""
    logs = [f"log:{slot.name}:0" for _, slot, _ in hand.guarded()]
    wish = json.dumps({"subscribe": ["queue", "nodes", *logs[:40]]})
    with contextlib.ExitStack() as pages:
        count = 0
        # Whoever cannot come in any more has been refused by another fault.
        with contextlib.suppress(OSError, httpx.HTTPError, WebSocketException):
            with closing(signed_in(hand.yard, _LISTENER)) as person:
                cookie = "; ".join(f"{name}={value}" for name, value in person.cookies.items())
            for _ in range(_PAGES):
                _open_deaf(hand, pages, cookie, wish)
                count += 1
        hand.nap(hand.dice.uniform(3.0, 6.0) if count else 0.0)
    return f"{count} pages" if count else ""


def _open_deaf(hand: Hand, pages: contextlib.ExitStack, cookie: str, wish: str) -> None:
    """One page with next to no room for what it does not read."""
    address = hand.yard.address.removeprefix("http://")
    host, _, port = address.partition(":")
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _LEAST_BUFFER)
    pages.callback(line.close)
    line.settimeout(5)
    line.connect((host, int(port)))
    page = pages.enter_context(
        connect(
            f"ws://{address}/ws/",
            sock=line,
            origin=Origin(hand.yard.address),
            additional_headers={"Cookie": cookie},
            compression=None,
            max_queue=1,
            ping_interval=None,
            close_timeout=0.5,
        )
    )
    page.send(wish)


FAULTS = (
    Fault("broker-kill", 17, kill_broker),
    Fault("broker-stop", 17, stop_broker, "broker"),
    Fault("broker-full", 17, fill_broker, "broker"),
    Fault("background-kill", 17, kill_background),
    Fault("pages-deaf", 17, never_read, "pages"),
)
