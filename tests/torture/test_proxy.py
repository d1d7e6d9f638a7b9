"""The proxy: what it passes, loses, repeats and refuses."""

from __future__ import annotations

import http.server
import threading
import time

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.sync.server import serve

from portal.torture.proxy import Proxies, Weather


class Portal(http.server.BaseHTTPRequestHandler):
    """Answers with what was sent, and remembers it."""

    heard: list[bytes] = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.heard.append(body)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        """Say nothing."""


@pytest.fixture
def way():
    Portal.heard = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Portal)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    proxies = Proxies(1)
    proxy = proxies.open(f"http://127.0.0.1:{server.server_address[1]}")
    try:
        yield proxies, proxy
    finally:
        proxies.close()
        server.shutdown()
        server.server_close()


def post(proxy, body=b"hello"):
    return httpx.post(f"{proxy.address}/x", content=body, timeout=30, trust_env=False)


def test_good_weather_passes_everything(way):
    _, proxy = way
    assert post(proxy, b"x" * 100_000).content == b"x" * 100_000
    assert Portal.heard == [b"x" * 100_000]


def test_a_lost_request_never_arrives(way):
    _, proxy = way
    proxy.weather = Weather(lose=1.0)
    with pytest.raises(httpx.HTTPError):
        post(proxy)
    assert Portal.heard == []


def test_a_cut_answer_leaves_the_work_done(way):
    _, proxy = way
    proxy.weather = Weather(cut=1.0)
    with pytest.raises(httpx.HTTPError):
        post(proxy)
    assert Portal.heard == [b"hello"]


def test_a_repeated_request_arrives_twice_and_is_answered_once(way):
    _, proxy = way
    proxy.weather = Weather(repeat=1.0)
    assert post(proxy).content == b"hello"
    assert Portal.heard == [b"hello", b"hello"]


def test_a_refusal_is_the_proxys_own(way):
    _, proxy = way
    proxy.weather = Weather(refuse=1.0)
    assert post(proxy).status_code in (500, 502, 503, 429)
    assert Portal.heard == []


@pytest.mark.parametrize(("block", "heard"), [("both", []), ("out", [b"hello"])])
def test_half_open_connections_hang_until_the_weather_is_good(way, block, heard):
    proxies, proxy = way
    proxy.weather = Weather(block=block)
    failed = threading.Event()

    def call():
        try:
            post(proxy)
        except httpx.HTTPError:
            failed.set()

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not proxy.hits and time.monotonic() < deadline:
        thread.join(0.02)
    assert thread.is_alive()
    proxies.clear(proxy)
    assert failed.wait(30)
    assert Portal.heard == heard
    assert post(proxy).content == b"hello"


@pytest.fixture
def tunnel():
    """A proxy before a WebSocket that says everything back."""

    def say_back(line):
        for message in line:
            line.send(message)

    proxies = Proxies(1)
    with serve(say_back, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        proxy = proxies.open(f"http://127.0.0.1:{server.socket.getsockname()[1]}")
        try:
            yield proxies, proxy
        finally:
            proxies.close()
            server.shutdown()


def opened(proxy):
    address = proxy.address.replace("http", "ws", 1)
    return connect(address, proxy=None, compression=None, close_timeout=0.2)


def test_a_websocket_passes_byte_by_byte(tunnel):
    _, proxy = tunnel
    with opened(proxy) as line:
        for message in (b"x" * 300_000, "words"):
            line.send(message)
            assert line.recv(timeout=30) == message


@pytest.mark.parametrize("block", ["both", "in", "out"])
def test_a_blocked_websocket_is_silent_until_the_weather_is_good_and_then_opened_anew(
    tunnel, block
):
    proxies, proxy = tunnel
    with opened(proxy) as line:
        proxy.weather = Weather(block=block)
        line.send("into the fog")
        with pytest.raises(TimeoutError):
            line.recv(timeout=0.5)
        proxies.clear(proxy)
        with pytest.raises(ConnectionClosed):
            line.recv(timeout=30)
    with opened(proxy) as line:
        line.send("again")
        assert line.recv(timeout=30) == "again"


def test_a_websocket_that_loses_a_piece_ends(tunnel):
    _, proxy = tunnel
    with opened(proxy) as line:
        proxy.weather = Weather(lose=1.0)
        line.send("gone")
        with pytest.raises(ConnectionClosed):
            line.recv(timeout=30)
    assert proxy.hits >= 1
