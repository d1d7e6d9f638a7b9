"""A server that says: too fast. The command line waits as long as it says, within reason."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import httpx
import pytest

from portal.cli.__main__ import run
from portal.cli.client import Api
from portal.cli.config import Config
from portal.cli.exits import TRY_AGAIN, Failure


@pytest.fixture
def server() -> Iterator[SimpleNamespace]:
    """Answers what `pauses` holds with 429 and that Retry-After, then 200."""
    told = SimpleNamespace(pauses=[], calls=0, address="")

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.calls += 1
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            pause = told.pauses.pop(0) if told.pauses else None
            self.send_response(200 if pause is None else 429)
            if pause is not None:
                self.send_header("Retry-After", pause)
            body = json.dumps({"detail": "Too many calls in too short a time."}).encode()
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    listening = HTTPServer(("127.0.0.1", 0), Answering)
    told.address = f"http://127.0.0.1:{listening.server_port}"
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield told
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()


def test_it_waits_as_long_as_the_server_says_and_then_goes_on(server):
    server.pauses = ["0", "0"]
    with Api(Config(server.address, "ty_x")) as api:
        assert "detail" in api.post("/jobs/")
    assert server.calls == 3


@pytest.mark.parametrize("pause", ["3600", "soon", "-1"])
def test_it_does_not_wait_for_an_hour_or_for_words(server, pause):
    server.pauses = [pause]
    with Api(Config(server.address, "ty_x")) as api, pytest.raises(Failure) as refused:
        api.post("/jobs/")
    assert (refused.value.code, server.calls) == (TRY_AGAIN, 1)


@pytest.mark.parametrize("words", ["session start --project v/d --wait", "simulate ask nodes=3"])
def test_who_waits_is_told_the_number_and_waits_through_an_outage(portal_is, capsys, words):
    """Seven calls without an answer are more than one call tries, and less than five minutes."""
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(f"{request.method} {request.url.path.removeprefix('/api/v1')}")
        waits = {"id": 7, "name": "shell", "state": "queued", "actions": [], "progress": "waiting"}
        if request.method == "POST" and len(asked) == 1:
            return httpx.Response(200, json=waits)
        is_first_ticket = "ticket" in asked[-1] and asked.count(asked[-1]) == 1
        if 2 < len(asked) < 10 or is_first_ticket:
            return httpx.Response(503)
        if len(asked) < 10:
            return httpx.Response(200, json=waits)
        done = {"actions": ["connect"], "progress": "empty", "answer": {}, "url": "https://in"}
        return httpx.Response(200, json=waits | done)

    portal_is(answer)
    assert run(words.split()) == 0
    out, err = capsys.readouterr()
    assert "7" in err + out and "Trying again" in err
    if "session" in words:
        assert out == "https://in\n" and err.startswith("Session 7 'shell' is queued")
