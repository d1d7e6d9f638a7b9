"""`trainyard logs` of a log that grows, is long, or begins anew."""

from __future__ import annotations

import json
import socket
import time
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, cast

import httpx
import pytest
from typer.testing import CliRunner

from portal.cli.__main__ import app
from portal.cli.__main__ import run as ends
from portal.cli.client import Api
from portal.cli.config import Config
from portal.cli.exits import TIMED_OUT, TRY_AGAIN, UNREACHABLE, USAGE, Failure
from portal.cli.follow import until_end

pytestmark = pytest.mark.once
PIECE = 10


@dataclass
class Logs:
    """The logs of a job's attempts as the portal answers them, PIECE bytes at once; a call before
    which something happens runs the first of `todo`."""

    attempts: list[bytes]
    is_final: bool = True
    todo: list = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if self.todo:
            self.todo.pop(0)()
        asked, latest = request.url.params, len(self.attempts)
        number = int(asked.get("attempt", latest))
        if "log" not in request.url.path:
            job = {"id": 7, "name": "x", "attempt": latest, "is_final": self.is_final}
            job |= {"state": "succeeded", "shown_state": "done", "end": None, "set": None}
            return httpx.Response(200, json=job | {"pool": "default"})
        log = self.attempts[number - 1] if number else b""
        if "raw" not in request.url.path:
            lines = log[: log.rfind(b"\n") + 1].splitlines(keepends=True)
            first = max(1, len(lines) - int(asked["tail"]) + 1)
            offset = len(b"".join(lines[: first - 1]))
            told: dict[str, Any] = {
                "attempt": number or None,
                "first_line": first,
                "offset": offset,
                "lines": [],
            }
            return httpx.Response(200, json=told)
        offset = int(asked["offset"])
        following = min(len(log), offset + PIECE)
        is_complete = (number < latest or self.is_final) and following == len(log)
        headers = {
            "X-Log-Attempt": str(number),
            "X-Log-Next": str(following),
            "X-Log-Complete": str(int(is_complete)),
        }
        return httpx.Response(200, content=log[offset:following], headers=headers)


def run(*words: str) -> str:
    done = CliRunner().invoke(app, ["logs", "7", *words])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def test_the_last_lines_are_shown_to_their_end(portal_is):
    log = b"one\n" + b"x" * 30 + b"\n\xff three\nfo"
    portal_is(Logs([log]))
    plain = CliRunner().invoke(app, ["logs", "7", "--tail", "2"])
    assert plain.stdout_bytes == b"x" * 30 + b"\n\xff three\nfo"
    said = [json.loads(line) for line in run("--tail", "2", "--json").splitlines()]
    assert said == [
        {"line": 2, "text": "x" * 30},
        {"line": 3, "text": "\ufffd three"},
        {"line": 4, "text": "fo"},
    ]
    portal_is(Logs([log], is_final=False))
    assert [json.loads(line)["line"] for line in run("--json").splitlines()] == [1, 2, 3]


def test_following_the_last_lines_loses_no_begin_of_a_line(portal_is):
    logs = Logs([b"one\ntwo\nthr"], is_final=False)

    def grow() -> None:
        logs.attempts[0] += b"ee\nfour\n"
        logs.is_final = True

    logs.todo = [lambda: None, lambda: None, grow]
    portal_is(logs)
    assert run("--tail", "1", "-f") == "two\nthree\nfour\n"


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_an_attempt_that_begins_meanwhile_follows_whole(portal_is, words):
    logs = Logs([b"one\ntwo\nend"])
    logs.todo = [lambda: None, lambda: logs.attempts.append(b"again\nmore\n")]
    portal_is(logs)
    said = run("--tail", "1", "-f", *words)
    if words:
        told = [tuple(json.loads(line).values()) for line in said.splitlines()]
        assert told == [(2, "two"), (3, "end"), (1, "again"), (2, "more")]
    else:
        assert said == "two\nendagain\nmore\n"


def test_a_job_that_is_followed_as_json_comes_last_of_its_lines(portal_is):
    portal_is(Logs([b"one\ntwo"]))
    words = ["submit", "-p", "v/d", "--follow", "--json", "--script", __file__]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, (done.output, done.exception)
    *lines, job = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines == [{"line": 1, "text": "one"}, {"line": 2, "text": "two"}]
    assert (job["id"], job["state"]) == (7, "succeeded")
    assert "Job 7" in done.stderr


@pytest.mark.parametrize("words", [[], ["--tail", "2"]])
def test_an_answer_that_is_no_portals_is_named(portal_is, words):
    """Of a proxy that asks for a sign-in, and of one that answers the log alone."""

    def answer(request: httpx.Request) -> httpx.Response:
        if "raw" in request.url.path:
            return httpx.Response(200, html="<h1>Sign in</h1>")
        return Logs([b"one\n"])(request)

    portal_is(answer)
    assert ends(["logs", "7", *words]) == UNREACHABLE


def test_an_older_server_is_asked_for_the_whole_log(portal_is, capsys):
    portal_is(lambda _: httpx.Response(200, json={"attempt": 1, "lines": []}))
    assert ends(["logs", "7", "--tail", "2"]) == USAGE
    assert "Leave --tail out" in capsys.readouterr().err


@pytest.mark.parametrize("code", [UNREACHABLE, TRY_AGAIN])
def test_a_timeout_holds_while_the_server_is_away(code):
    class Away:
        def get(self, *_, **__):
            raise Failure("It does not answer.", code=code)

    began = time.monotonic()
    with pytest.raises(Failure) as passed:
        until_end(cast(Api, Away()), 7, timeout_s=0.6)
    assert (passed.value.code, time.monotonic() - began < 2) == (TIMED_OUT, True)
    assert "It does not answer." in passed.value.what


def test_a_timeout_tells_what_was_heard_before_the_server_went_away():
    class Leaves:
        answers = iter([{"id": 7, "state": "running", "is_final": False}])

        def get(self, *_, **__):
            for job in self.answers:
                return job
            raise Failure("It does not answer.", code=UNREACHABLE)

    with pytest.raises(Failure, match="Job 7 was running when it was last heard of"):
        until_end(cast(Api, Leaves()), 7, timeout_s=1.5)


def test_a_timeout_holds_while_the_server_says_nothing():
    with closing(socket.create_server(("127.0.0.1", 0))) as deaf:
        began = time.monotonic()
        config = Config(f"http://127.0.0.1:{deaf.getsockname()[1]}", "ty_x")
        with Api(config) as api, pytest.raises(Failure) as passed:
            until_end(api, 7, timeout_s=0.5)
    assert (passed.value.code, time.monotonic() - began < 5) == (TIMED_OUT, True)
