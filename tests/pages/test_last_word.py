"""What is answered where Django gave no answer."""

from __future__ import annotations

import asyncio
import errno
import json

import pytest
from django.db import OperationalError

from portal.serving.last_word import LastWord


def answers(error: Exception, path: str, *, has_begun: bool = False):
    """Status, headers and body of a request that meets this."""
    sent = []

    async def fail(scope, receive, send):
        if has_begun:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        raise error

    async def send(message):
        sent.append(message)

    asyncio.run(LastWord(fail)({"type": "http", "path": path}, None, send))
    start, body = sent
    return start["status"], dict(start["headers"]), body["body"]


def caused_by(error: Exception) -> Exception:
    """What was raised while this was handled."""
    found = ValueError("while it was handled")
    found.__context__ = error
    return found


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EMFILE, "Too many open files"),
        MemoryError(),
        RuntimeError("can't start new thread"),
        OperationalError("unable to open database file"),
        caused_by(OSError(errno.ENFILE, "Too many open files in system")),
    ],
)
def test_what_passes_is_told_to_come_again(error):
    status, headers, body = answers(error, "/api/v1/jobs/")
    assert (status, headers[b"retry-after"]) == (503, b"2")
    assert headers[b"content-type"] == b"application/problem+json"
    assert json.loads(body)["status"] == 503


def test_what_is_broken_is_an_error_of_ours_without_its_words():
    status, headers, body = answers(ValueError("secret"), "/jobs/")
    assert status == 500
    assert headers[b"content-type"] == b"text/plain; charset=utf-8"
    assert b"retry-after" not in headers
    assert b"secret" not in body


def test_a_begun_answer_is_left_to_the_server():
    with pytest.raises(ValueError, match="secret"):
        answers(ValueError("secret"), "/jobs/", has_begun=True)
