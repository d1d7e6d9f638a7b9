"""A program that is told over HTTP: a real server that keeps what it gets."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


class Receiver:
    """A real server that keeps what it gets; `answers` (0: hangs up), after `answers_in_turn`."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.answers = 204
        self.answers_in_turn: list[int] = []
        self.retry_after = ""
        outer = self

        class _Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.got.append((self.path, dict(self.headers), body))
                turn = outer.answers_in_turn
                if not (status := turn.pop(0) if turn else outer.answers):
                    return  # hangs up
                self.send_response(status)
                self.send_header("Location", "http://127.0.0.1:9/elsewhere")
                if outer.retry_after:
                    self.send_header("Retry-After", outer.retry_after)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?room=1"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    thread = threading.Thread(target=found.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield found
    found.server.shutdown()
    found.server.server_close()
