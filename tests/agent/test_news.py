"""When the agent calls, and what it leaves for the next call."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from scheduler.agent import news
from scheduler.agent.config import Options
from scheduler.agent.news import News
from scheduler.agent.runtime.notices import wake_agent
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


def test_hints_are_taken_a_thousand_at_a_time_and_from_nobody_else(tmp_path):
    """Only a folder of the agent's own has the socket, so no job can take its name or fill it."""
    place = news.hint_place(Options(tmp_path, tmp_path))
    heard = news.listen_for_hints(place)
    assert place.parent.stat().st_mode & 0o777 == 0o700
    wake_agent(str(place), 7)
    wake_agent(str(place), 8)
    assert news.hinted(heard) == {7, 8} and news.hinted(heard) == set()
    # An agent that was killed leaves its name there.
    with heard, news.listen_for_hints(place) as again:
        wake_agent(str(place), 9)
        assert news.hinted(again) == {9}
    asked = []
    flood = SimpleNamespace(recv=lambda _: asked.append(1) or str(len(asked)).encode())
    assert len(news.hinted(flood)) == len(asked) == 1000


def test_an_agent_without_room_for_its_socket_goes_on_without_hints(tmp_path):
    (tmp_path / "hints").write_text("in the way")
    with news.listen_for_hints(news.hint_place(Options(tmp_path, tmp_path))) as heard:
        assert news.hinted(heard) == set()
    wake_agent(str(tmp_path / ("long" * 50)), 7)
