"""`--reason`: a word for the owner of somebody else's job."""

from __future__ import annotations

import json

import httpx
import pytest

from portal.cli.__main__ import run

pytestmark = pytest.mark.once
JOB = {"id": 7, "shown_state": "held", "state": "held", "tasks": 3}


@pytest.mark.parametrize(
    ("words", "path"),
    [
        *((f"{act} 7", f"/jobs/7/{act}/") for act in ("cancel", "hold", "release", "pause")),
        ("resume 7", "/jobs/7/resume/"),
        ("session stop 7", "/jobs/7/cancel/"),
        ("sets cancel 7", "/sets/7/cancel/"),
        ("bookings cancel 7", "/bookings/7/cancel/"),
    ],
)
def test_it_goes_along_and_nothing_without_it(portal_is, words, path):
    sent = []

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.path.endswith(path)
        sent.append(json.loads(request.content or b"{}"))
        return httpx.Response(200, json=JOB)

    portal_is(answer)
    assert run([*words.split(), "--json", "--reason", "makes room, now"]) == 0
    assert run([*words.split(), "--json"]) == 0
    assert sent == [{"reason": "makes room, now"}, {}]


def test_who_gives_none_is_told_how(portal_is, capsys):
    said = "Job 7 is somebody else's: give a reason."
    refusal = {
        "code": "reason_needed",
        "detail": said,
        "errors": [{"field": "reason", "message": said}],
    }
    portal_is(lambda _: httpx.Response(422, json=refusal))
    assert run(["cancel", "7"]) == 2
    printed = capsys.readouterr().err
    assert "reason: Job 7" in printed and 'Add --reason "…" to the command.' in printed
