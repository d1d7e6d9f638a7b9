"""Calls of an agent: kept connections, ones that the server gave up, proxies, and the end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest

from scheduler.agent.client import Client, ServerAway
from scheduler.agent.runtime.connections import Connections, NoAnswer
from scheduler.wire.messages import PROTOCOL, SyncRequest

pytestmark = pytest.mark.once


class Server(ThreadingHTTPServer):
    """Answers every call with `{}`; counts connections and keeps what was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        self.connections = 0
        self.asked: list[tuple[str, str]] = []
        self.hangs_up = False
        self.status, self.wait = 200, ""
        self.held, self.release = threading.Event(), threading.Event()
        self.hung_up = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                server.connections += 1
                super().setup()

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                server.asked.append((self.path, self.headers.get("Proxy-Authorization", "")))
                if self.path == "/hold":
                    server.held.set()
                    server.release.wait(10)
                self.send_response(server.status)
                if server.wait:
                    self.send_header("Retry-After", server.wait)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")
                # Without a word, as a server does that is started again.
                self.close_connection = server.hangs_up

            def log_message(self, *_: object) -> None: ...

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self.hung_up.set()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running
        running.release.set()
        running.shutdown()


def call(connections: Connections, path: str = "/a") -> bytes:
    return connections.call("POST", path, b"x", {}, 5.0).body


def test_a_connection_is_kept_until_the_server_gives_it_up(server: Server) -> None:
    connections = Connections(server.address, connect_s=5, knows_proxies=False)
    for _ in range(3):
        assert call(connections) == b"{}"
    assert server.connections == 1
    server.hangs_up = True
    for _ in range(3):
        assert call(connections) == b"{}"
        assert server.hung_up.wait(10)
        server.hung_up.clear()
    assert len(server.asked) == 6 and server.connections == 3
    connections.close()
    with pytest.raises(NoAnswer, match="ending"):
        call(connections)


def test_a_held_call_ends_with_the_agent_and_a_lost_answer_is_no_answer(server: Server) -> None:
    connections = Connections(server.address, connect_s=5, knows_proxies=False)
    problems = []

    def hold() -> None:
        try:
            call(connections, "/hold")
        except NoAnswer as problem:
            problems.append(problem)

    waiting = threading.Thread(target=hold)
    waiting.start()
    assert server.held.wait(5)
    connections.close()
    waiting.join(5)
    assert not waiting.is_alive() and len(problems) == 1
    hasty = Connections(server.address, connect_s=5, knows_proxies=False)
    with pytest.raises(NoAnswer, match="timed out"):
        hasty.call("POST", "/hold", b"", {}, 0.05)
    server.release.set()
    # What was left half said on the connection is nobody else's answer.
    assert call(hasty) == b"{}" and server.connections == 3
    hasty.close()


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("wait", "wait_s"),
    [("7", 7), ("", 0), ("3600", 30), ("9" * 400, 30), ("-1", 0), ("soon", 0), ("\xb2", 0)],
)
def test_a_busy_server_says_for_how_long_it_is_to_be_left_alone(
    server: Server, status: int, wait: str, wait_s: float
) -> None:
    """But not for so long that this node would be taken for silent."""
    server.status, server.wait = status, wait
    client = Client(server.address)
    with pytest.raises(ServerAway, match=f"answered {status}") as told:
        client.secrets(1)
    assert told.value.wait_s == wait_s
    client.close()


def test_proxies_of_the_environment(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    netloc = urlsplit(server.address).netloc
    monkeypatch.setenv("http_proxy", f"http://me:p%40ss@{netloc}")
    connections = Connections("http://portal.invalid:8080", connect_s=5, knows_proxies=True)
    assert call(connections, "/a?b=1") == b"{}"
    assert server.asked == [("http://portal.invalid:8080/a?b=1", "Basic bWU6cEBzcw==")]
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    direct = Connections(server.address, connect_s=5, knows_proxies=True)
    call(direct)
    assert server.asked[-1] == ("/a", "")
    monkeypatch.setenv("http_proxy", "socks5://there:1080")
    client = Client("http://portal.invalid")
    with pytest.raises(ServerAway, match="begins with http://"):
        client.sync(SyncRequest(PROTOCOL, "1", "a", "b", 0, 0.0, 0.0))
    for one in (connections, direct, client):
        one.close()
