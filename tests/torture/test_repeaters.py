"""Whose jobs come again in the torture: what is written down of it, and how it comes to an end."""

from __future__ import annotations

import json
import random
import threading
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import httpx
import pytest

from portal.torture import under
from portal.torture.faults import looking
from portal.torture.history import Diary, read_lines
from portal.torture.people import repeating
from portal.torture.people.repeating import Repeaters
from portal.torture.people.spreading import Spread
from portal.torture.program import DUE_EVERY_S, EVERY_TIME
from portal.torture.yard import Yard
from scheduler.services.recurring import running
from scheduler.spec import parse_spec
from scheduler.spec.recurring import dues
from scheduler.spec.recurring.rules import read_time_rule
from tests.scenes import NOON


class Portal:
    """Schedules as the API tells of them; each look at the list may move their next time."""

    def __init__(self, moves=True):
        self.moves, self.made, self.asked = moves, dict[int, Any](), list[str]()

    def __call__(self, request):
        place = request.url.path.removeprefix("/api/v1/schedules/").strip("/")
        self.asked.append(place)
        if request.method == "GET" and not place:
            for one in self.made.values():
                one["next_due_at"] = one["next_due_at"] and one["next_due_at"] + "+" * self.moves
            return httpx.Response(200, json={"items": list(self.made.values())})
        number, _, verb = place.partition("/")
        if not place:
            number = str(len(self.made) + 1)
            parse_spec(json.loads(request.content)["spec"])
            self.made[int(number)] = {"id": int(number), "next_due_at": "soon", "state": "active"}
        if verb == "runs":
            return httpx.Response(200, json={"items": [{"job": 9}, {"job": None}]})
        if verb == "pause":
            self.made[int(number)].update(next_due_at=None, state="paused")
        if verb == "delete":
            del self.made[int(number)]
        return httpx.Response(200, json=self.made.get(int(number), {}))


@pytest.fixture
def portal(monkeypatch):
    monkeypatch.setattr(repeating.time, "sleep", lambda _: None)
    return Portal()


def people(portal, tmp_path):
    over = threading.Event()
    over.set()

    def api(_):
        base = "http://portal/api/v1"
        return httpx.Client(base_url=base, transport=httpx.MockTransport(portal))

    diary = Diary(tmp_path / "history.jsonl")
    spread = Spread({"default": 2, "pool-2": 2}, diary)
    return Repeaters(cast(Yard, SimpleNamespace()), diary, tmp_path, api, over, [], spread)


def test_three_kinds_are_made_and_what_is_done_to_them_is_written_down(portal, tmp_path):
    mine, dice = people(portal, tmp_path), random.Random(4)
    for _ in range(30):
        mine.repeat(dice)
    told = read_lines(mine.diary.path)
    whats = [fact["what"] for fact in told if fact["kind"] == "schedule"]
    assert {*whats} >= {"make", "pause", "resuming", "resume", "change", "run", "delete"}
    assert whats.index("resuming") == whats.index("resume") - 1
    assert mine.jobs == [9]


@pytest.mark.parametrize("moves", [True, False])
def test_all_are_carried_out_once_more_and_paused_in_the_end(portal, tmp_path, monkeypatch, moves):
    monkeypatch.setattr(repeating, "_LOOKED_AT_WITHIN_S", 0.2)
    mine, portal.moves = people(portal, tmp_path), moves
    for _ in range(3):
        mine.repeat(random.Random(4))
    mine.end()
    told = [fact for fact in read_lines(mine.diary.path) if fact["kind"] == "repeated"]
    assert [fact["came"] for fact in told] == [moves] * 3
    assert {one["state"] for one in portal.made.values()} == {"paused"}


def test_a_rule_of_each_minute_is_due_more_often_there_and_no_other_is(monkeypatch):
    monkeypatch.setattr(dues, "dues_after", dues.dues_after)
    monkeypatch.setattr(dues, "ON_TIME", dues.ON_TIME)
    under._hurry_rules()
    zone = ZoneInfo("UTC")
    often, daily = read_time_rule(EVERY_TIME), read_time_rule("@daily")
    first: datetime | None = dues.next_due(often, zone, NOON)
    assert first == NOON + timedelta(seconds=DUE_EVERY_S)
    until = NOON + timedelta(seconds=100)
    latest = dues.latest_due(often, zone, after=NOON, until=until)
    assert latest == NOON + timedelta(seconds=90)
    assert dues.next_due(daily, zone, NOON) == NOON + timedelta(hours=12)


def test_looks_are_made_by_all_threads(monkeypatch):
    monkeypatch.setattr(looking, "_LOOKS_FOR_S", 0.0)
    looks = list[int]()
    monkeypatch.setattr(running, "submit_due", lambda *, now: looks.append(1) or 1)
    monkeypatch.setattr(looking, "_LOOKS_FOR_S", 0.05)
    assert looking.look_at_once() == len(looks) >= 3
