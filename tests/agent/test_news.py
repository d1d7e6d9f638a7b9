"""When the agent calls, and what it leaves for the next call."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.agent import news
from scheduler.agent.news import News
from scheduler.states import AttemptState, EndReason
from scheduler.wire.messages import AttemptReport

BEGUN = AttemptReport(fence=1, rank=0, state=AttemptState.STARTING)


@pytest.fixture
def clock(monkeypatch):
    """Seconds that a test moves on."""
    now = [100.0]
    monkeypatch.setattr(news.time, "monotonic", lambda: now[0])
    return now


def is_beyond(report):
    return report.state is not AttemptState.STARTING


def test_a_beginning_waits_for_more_and_is_told_in_the_end(clock):
    known = News()
    assert not known.is_due((BEGUN,), is_beyond)
    assert known.due_at() == pytest.approx(100.05)
    clock[0] += 0.05
    assert known.is_due((BEGUN,), is_beyond)
    known.note_told((BEGUN,))
    assert not known.is_due((BEGUN,), is_beyond)
    assert known.due_at() is None


@pytest.mark.parametrize(
    "changes",
    [
        {"state": AttemptState.RUNNING, "started_at": 1.0},
        {"state": AttemptState.ENDED, "end_reason": EndReason.COMPLETED, "log_size": 9},
    ],
)
def test_what_somebody_acts_on_is_told_at_once(clock, changes):
    known = News()
    known.note_told((BEGUN,))
    assert known.is_due((replace(BEGUN, **changes),), is_beyond)


def test_a_growing_log_and_a_forgotten_attempt_are_no_news(clock):
    known = News()
    runs = replace(BEGUN, state=AttemptState.RUNNING, log_size=1)
    known.note_told((runs,))
    assert not known.is_due((replace(runs, log_size=5),), is_beyond)
    assert not known.is_due((), is_beyond)
