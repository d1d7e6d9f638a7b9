"""Whose jobs are of groups in the torture: what they send, and what is written down before."""

from __future__ import annotations

import random
import threading

import pytest

from portal.torture import plants
from portal.torture.history import Diary, read_lines
from portal.torture.people.grouping import Groupers
from portal.torture.proving import with_plant
from portal.torture.run import Choice
from scheduler.spec import parse_spec


class Door:
    """Takes what is sent, and refuses a highest price."""

    def __init__(self):
        self.sent = []

    def submit(self, key, sent):
        self.sent.append(parse_spec(sent))
        assert sent["name"] == key
        if "max_cost" in sent:
            raise ValueError("422: max_cost")
        return [len(self.sent)]


@pytest.fixture
def mine(tmp_path):
    over = threading.Event()
    over.set()
    return Groupers(Diary(tmp_path / "history.jsonl"), tmp_path, Door(), over)


def test_jobs_of_two_groups_come_each_way_and_each_is_told_before(mine):
    dice = random.Random(4)
    for _ in range(60):
        mine.group(dice)
    specs, told = mine.door.sent, read_lines(mine.diary.path)
    assert {one.group for one in specs} == {"push", "night"}
    assert {one.group_policy for one in specs} == {"wait", "stop", "beside"}
    assert {one.array is not None for one in specs} == {True, False}
    assert {one.max_cost is not None for one in specs} == {True, False}
    assert [(one["key"], one["group"], one["policy"]) for one in told] == [
        (one.name, one.group, one.group_policy) for one in specs
    ]


def test_the_bug_in_groups_brings_them():
    choice = with_plant(Choice(), "older-left")
    assert choice.groups and choice.watch == plants.PLANTS["older-left"].shows == ("I37",)
