"""Who sends drop by drop or without end is let go, and nobody else waits (B44): a real server."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from portal.embedded.programs import WEB
from portal.serving.patience import HEAD_S, MOST_BYTES, PIECE_S

pytestmark = [pytest.mark.stack, pytest.mark.once, pytest.mark.timeout(240)]

MANY = 40
CHUNKED = b"POST /api/v1/jobs/ HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
HALF = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nx-a: "
NODES = b"POST /api/agent/v1/sync HTTP/1.1\r\nhost: x\r\ncontent-length: 900\r\n\r\n{"


@pytest.fixture
def caller(stack):
    """Opens a connection to the server and sends so much."""
    place = urlsplit(stack.address)
    with ExitStack() as kept:

        def call(words: bytes) -> socket.socket:
            one = kept.enter_context(socket.create_connection((place.hostname, place.port)))
            one.sendall(words)
            return one

        yield call


def answer_of(one: socket.socket, within_s: float) -> bytes:
    """All that came until the server hung up; fails if it does not."""
    one.settimeout(within_s)
    said = b""
    while piece := one.recv(65536):
        said += piece
    return said


def wait_until(is_so) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def held_by(stack) -> int:
    """How many connections the server holds."""
    process = psutil.Process(stack.supervisor.pid_of(WEB))
    return sum(one.status == psutil.CONN_ESTABLISHED for one in process.net_connections("tcp"))


def test_a_crowd_of_slow_senders_is_let_go_and_nobody_else_waits(stack, caller):
    before = held_by(stack)
    began = time.monotonic()
    heads = [caller(HALF) for _ in range(MANY)]
    silent = caller(b"")
    bodies = [caller(CHUNKED + b"1\r\n{\r\n") for _ in range(MANY)]
    node = caller(NODES)
    wait_until(lambda: held_by(stack) >= before + 2 * MANY)
    slowest_s = 0.0
    while time.monotonic() - began < HEAD_S - 3:
        asked = time.monotonic()
        assert httpx.get(f"{stack.address}/healthz", timeout=10).status_code == 200
        slowest_s = max(slowest_s, time.monotonic() - asked)
        # A drop now and then is no request: the clock of a head runs from its first byte.
        for one in heads:
            one.sendall(b"a")
        time.sleep(0.5)
    assert slowest_s < 3
    patience_s = began + PIECE_S + 15 - time.monotonic()
    assert {answer_of(one, patience_s).split(b"\r\n")[0] for one in heads} == {
        b"HTTP/1.1 408 Request Timeout"
    }
    assert answer_of(silent, patience_s) == b""
    for one in (*bodies, node):
        said = answer_of(one, patience_s)
        assert said.startswith(b"HTTP/1.1 408 ") and b'"code": "too_slow"' in said
    assert HEAD_S < time.monotonic() - began < PIECE_S + 15
    wait_until(lambda: held_by(stack) < before + 10)


def test_a_body_without_end_is_refused_once_it_is_too_much(stack, caller):
    piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    one = caller(CHUNKED)
    one.settimeout(20)
    sent = 0
    try:
        while sent < 20 * MOST_BYTES:
            one.sendall(piece)
            sent += 0x10000
    except (ConnectionError, TimeoutError):
        pass
    assert MOST_BYTES <= sent < 20 * MOST_BYTES


def test_a_body_that_says_it_is_too_large_is_refused_unread(stack, caller):
    size = 100 * 2**20
    head = f"POST /api/v1/jobs/ HTTP/1.1\r\nhost: x\r\ncontent-length: {size}\r\n\r\n"
    began = time.monotonic()
    said = answer_of(caller(head.encode()), 20)
    assert said.startswith(b"HTTP/1.1 413 ") and b"larger than 4 MiB" in said
    assert time.monotonic() - began < 5


def test_an_ordinary_body_in_pieces_arrives(stack):
    """Sent slowly, but sent: the answer is the application's own."""

    def pieces():
        for piece in (b'{"na', b'me": ', b'"x"}'):
            time.sleep(0.3)
            yield piece

    with stack.api("alice") as api:
        reply = api.post("/jobs/", content=pieces(), headers={"content-type": "application/json"})
    assert reply.status_code in (400, 411, 422)
    assert reply.json()["code"] != "too_slow"
