"""When which fault strikes."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from types import SimpleNamespace
from typing import cast

from portal.torture.faults import FAULTS, Fault, Hand, storm
from portal.torture.history import Diary, read_lines


def test_a_kind_that_seldom_finds_anybody_is_tried_more_often(tmp_path, monkeypatch):
    """It hits one time in three, and yet does not fall far behind."""
    tries: Counter[str] = Counter()

    def seldom(hand: Hand) -> str:
        tries["seldom"] += 1
        return "somebody" if tries["seldom"] % 3 == 0 else ""

    faults = {
        "always": Fault("always", 1, lambda hand: "somebody"),
        "seldom": Fault("seldom", 2, seldom),
    }
    monkeypatch.setattr(storm, "FAULTS", faults)
    over, diary = threading.Event(), Diary(tmp_path / "history.jsonl")
    hand = cast(Hand, SimpleNamespace(dice=random.Random(1), over=over))
    made = storm.Storm(hand, diary, list(faults), 0.0005)
    made.start()
    deadline = time.monotonic() + 20
    while made.hits < 200 and time.monotonic() < deadline:
        time.sleep(0.01)
    over.set()
    made.join()
    diary.close()
    hits = Counter(fact["name"] for fact in read_lines(tmp_path / "history.jsonl"))
    assert hits.total() == made.hits >= 200
    assert hits["seldom"] >= 0.8 * hits["always"], hits


def test_who_was_hit_least_comes_first(tmp_path):
    """The bag that the end cuts off lacks those that have hit most."""
    hand = cast(Hand, SimpleNamespace(dice=random.Random(1), over=threading.Event()))
    diary = Diary(tmp_path / "history.jsonl")
    made = storm.Storm(hand, diary, ("often", "now and then", "never"), 1.0)
    made._hit.update({"often": 5, "now and then": 2})
    bag = made._in_order(["often", "now and then", "never", "never", "never", "never"])
    assert bag[:2] == ["never", "never"] and bag[-1] == "often"
    assert set(bag[2:5]) == {"never", "now and then"}
    diary.close()


def test_nobody_waits_for_those_that_never_strike_beside_each_other(monkeypatch):
    faults = {
        "alone": Fault("alone", 1, lambda hand: "somebody", exclusive="one"),
        "other": Fault("other", 1, lambda hand: "somebody", exclusive="one"),
        "free": Fault("free", 2, lambda hand: "somebody"),
    }
    monkeypatch.setattr(storm, "FAULTS", faults)
    hand = cast(Hand, SimpleNamespace(dice=random.Random(1), over=threading.Event()))
    made = storm.Storm(hand, cast(Diary, None), list(faults), 1.0)
    drawn = []
    for _ in range(9):
        fault = made._draw()
        drawn.append(fault.name if fault else None)
        made._hit.update(drawn[-1:])
    first = next(name for name in drawn if name != "free")
    assert drawn.count(first) == 1 and set(drawn) <= {first, "free", None}
    assert drawn.count("free") == 2, "once a bag, and no bag more while one is left over"
    made._busy.clear()
    assert cast(Fault, made._draw()).exclusive == "one"


def test_while_kinds_are_behind_pauses_are_shorter():
    """Eight times in ten minutes is wanted of each; without that wish they stay as they are."""
    hand = cast(Hand, SimpleNamespace(dice=random.Random(1), over=threading.Event()))
    usual_s = 1.5 * 0.6 * storm.AT_ONCE
    made = storm.Storm(hand, cast(Diary, None), ("often", "seldom"), 0.6, every_s=60.0)
    made._began -= 600
    made._hit.update({"often": 30, "seldom": 7})
    assert made._rest_s(1.5) == usual_s * storm.HURRIED
    made._hit.update({"seldom": 2})
    assert made._rest_s(1.5) == usual_s
    # Haste helps nobody who finds nobody.
    many = storm.Storm(hand, cast(Diary, None), [*"abcdefghijkl", "never"], 0.6, every_s=60.0)
    many._began -= 600
    many._hit.update(dict.fromkeys("abcdefghijkl", 10))
    assert many._rest_s(1.5) == usual_s
    careless = storm.Storm(hand, cast(Diary, None), ("never",), 0.6)
    careless._began -= 600
    assert careless._rest_s(1.5) == usual_s


def test_a_strike_draws_the_same_whatever_struck_before(tmp_path):
    made = []
    for _ in range(2):
        hand = cast(Hand, SimpleNamespace(dice=random.Random(1), over=threading.Event()))
        made.append(storm.Storm(hand, cast(Diary, None), list(FAULTS), 1.0))
    fault, other = list(FAULTS.values())[:2]
    made[1]._hand_for(other).dice.random()
    first, again = (each._hand_for(fault).dice.random() for each in made)
    assert first == again != made[0]._hand_for(fault).dice.random()
