"""`trainyard patch`: the local changes of a job's code, as they were."""

from __future__ import annotations

import json

import httpx
import pytest

from portal.cli.__main__ import run
from portal.cli.exits import OK, UNREACHABLE, USAGE

pytestmark = pytest.mark.once

PATCH = "diff --git a/train.py b/train.py\n-first\n+zw\u00f6lf\x1b[2J\n"


def portal(patch: str = PATCH, **headers: str):
    """A job that has been started twice."""
    sent = {"Content-Type": "text/plain; charset=utf-8", "X-Code-Commit": "c0ffee", **headers}

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/jobs/7/"):
            return httpx.Response(200, json={"id": 7, "attempt": 2})
        if request.url.path.endswith("/jobs/8/"):
            return httpx.Response(200, json={"id": 8, "attempt": None})
        number = request.url.path.split("/")[-3]
        text = f"{number}: {patch}" if patch else ""
        return httpx.Response(200, content=text.encode(), headers=sent)

    return answer


def test_into_a_pipe_go_its_very_bytes(portal_is, capfdbinary):
    portal_is(portal())
    assert run(["patch", "7"]) == OK
    out, err = capfdbinary.readouterr()
    assert out == f"2: {PATCH}".encode()
    assert b"Attempt 2 ran commit c0ffee with these changes." in err
    assert run(["patch", "7", "--attempt", "1"]) == OK
    assert capfdbinary.readouterr().out == f"1: {PATCH}".encode()


def test_as_a_document_and_without_any(portal_is, capsys):
    portal_is(portal(""))
    assert run(["patch", "7", "--json"]) == OK
    told = {"attempt": 2, "code_commit": "c0ffee", "patch": ""}
    assert json.loads(capsys.readouterr().out) == told
    assert run(["patch", "7"]) == OK
    assert "with no local changes" in capsys.readouterr().err


def test_a_job_that_was_not_started_and_a_foreign_server_are_named(portal_is, capsys):
    portal_is(portal())
    assert run(["patch", "8"]) == USAGE
    assert "Job 8 was not started yet" in capsys.readouterr().err
    portal_is(lambda _: httpx.Response(200, json={"attempt": 1}))
    assert run(["patch", "7"]) == UNREACHABLE
    assert "X-Code-Commit" not in capsys.readouterr().out
