"""How long a cancel may take (I16), and how somebody who rests is got rid of."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from portal.torture.invariants import check_all
from portal.torture.people import asking
from portal.torture.people.asking import Askers
from tests.torture.stories import Story


def cancelled_until(moment: float, reason: str) -> list[str]:
    """What I16 says of a cancel at 205 whose job ended then, its last rank for this reason."""
    story = Story()
    story.row("job", 1)["ended_at"] = story.row("attempt", 12)["ended_at"] = moment
    for rank in story.tables["placement"]:
        rank["end_reason"] = reason if rank["attempt_id"] == 12 else rank["end_reason"]
    return [words for words in check_all(story.evidence())["I16"].breaks if " took " in words]


@pytest.mark.parametrize(
    ("moment", "reason", "is_late"),
    [
        (290.0, "completed", False),
        (300.0, "completed", True),
        (310.0, "node_lost", False),
        (320.0, "node_lost", True),
    ],
)
def test_a_node_that_is_not_heard_is_waited_for_until_it_is_given_up(moment, reason, is_late):
    assert bool(cancelled_until(moment, reason)) is is_late


def test_of_a_late_cancel_is_told_what_became_of_its_attempts():
    (words,) = cancelled_until(300.0, "completed")
    assert "attempt 11 " in words and "node_lost; attempt 12 " in words, words


def test_who_rests_is_cancelled_however_long_the_portal_is_away(monkeypatch):
    calls = []

    def away(job: int) -> None:
        calls.append(job)
        if len(calls) < 4:
            raise httpx.ConnectError("nobody listens")

    monkeypatch.setattr(asking.time, "sleep", lambda _: None)
    door = SimpleNamespace(cancel=away)
    askers = Askers(*cast(Any, (None, None, None, door)), threading.Event())
    states = ["running"] * 4 + ["stopping"]
    askers._state = lambda job: states[len(calls)]
    askers._give_up([7])
    assert calls == [7] * 4
