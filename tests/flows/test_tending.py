"""A program that supervisord has given up on is started again, while everything else stays up."""

from __future__ import annotations

import pytest

from portal.embedded.places import Places, StackProblem
from portal.embedded.tending import FIRST_PAUSE_S, LONGEST_PAUSE_S, Tending
from portal.fallen import note_fallen, read_fallen


class Supervised:
    """As much of a supervisord as is asked: states, and what it was told to start."""

    def __init__(self) -> None:
        self.said = {"web": "RUNNING", "background": "RUNNING"}
        self.started: list[str] = []
        self.is_broken = False

    def states(self) -> dict[str, str]:
        return dict(self.said)

    def start_program(self, name: str) -> None:
        if self.is_broken:
            raise StackProblem("supervisord does not do what it is asked")
        self.started.append(name)
        self.said[name] = "STARTING"


@pytest.fixture
def tended(tmp_path):
    places = Places(tmp_path / "state", tmp_path / "run")
    places.make()
    now, told, programs = [1000.0], list[str](), Supervised()
    tending = Tending(programs, places, told.append, clock=lambda: now[0])

    def after(seconds: float, **states: str) -> None:
        now[0] += seconds
        programs.said |= states
        tending.look()

    return programs, places, told, after


def test_who_falls_is_told_of_once_and_started_again_more_and_more_seldom(tended):
    programs, places, told, after = tended
    pause_s = FIRST_PAUSE_S
    for number in range(6):
        after(200, background="FATAL")
        (fallen,) = read_fallen(places.state)
        assert fallen.name == "background" and len(programs.started) == number
        again_s = fallen.again_at.timestamp()
        after(pause_s - 1)
        assert len(programs.started) == number
        after(1)
        assert len(programs.started) == number + 1 and read_fallen(places.state) == []
        after(2, background="BACKOFF")
        assert again_s > 1000
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
    assert len(told) == 12, "that it fell, and that it is started again"
    assert "Everything else goes on; it is started again in 1 min." in told[0]
    assert "in 15 min." in told[-2] and "background.log" in told[0]
    assert "web" not in " ".join(told)
    after(10, background="RUNNING")
    after(10)
    assert told[12:] == ["background is up again"]
    after(10, background="FATAL")
    assert "in 1 min." in told[-1]


def test_one_that_cannot_even_be_started_is_tried_again(tended):
    programs, places, told, after = tended
    after(1, web="FATAL")
    programs.is_broken = True
    after(FIRST_PAUSE_S)
    assert told[-1].startswith("supervisord does not do")
    programs.is_broken = False
    after(2)
    assert [one.name for one in read_fallen(places.state)] == ["web"]
    after(2 * FIRST_PAUSE_S)
    assert programs.started == ["web"]


def test_what_an_earlier_start_left_behind_is_forgotten(tended, tmp_path):
    programs, places, *_ = tended
    note_fallen(places.state, {"web": 1.0})
    assert [one.name for one in read_fallen(places.state)] == ["web"]
    Tending(programs, places, print).begin()
    assert read_fallen(places.state) == []
    for odd in ("[", "[1]", '{"web": "soon"}', "7"):
        (places.state / "fallen.json").write_text(odd)
        assert read_fallen(places.state) == []
