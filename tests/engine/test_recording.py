"""A recorded decision is decided again to the identical plan, byte for byte."""

from __future__ import annotations

import json
import zlib

import pytest
from hypothesis import given

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.policy import DEFAULT_POLICY, Order, PlacementRule, Policy
from scheduler.engine.recording import (
    RecordingInvalid,
    plan_bytes,
    read_recording,
    record,
    write_recording,
)
from scheduler.engine.snapshot import Snapshot
from tests.builders import draw, job
from tests.engine.test_properties import snapshots


@given(snapshots())
def test_a_recording_replays_to_the_same_bytes(snapshot: Snapshot) -> None:
    raw = write_recording(record(snapshot, DEFAULT_POLICY))
    kept = read_recording(raw)
    assert kept.replay() == kept.plan == plan_bytes(plan_cycle(snapshot))
    assert write_recording(kept) == raw


def test_the_policy_comes_back() -> None:
    policy = Policy(Order.SHORTEST, 5.5, float("inf"), PlacementRule.PACK, True)
    assert read_recording(write_recording(record(draw("a ."), policy))).policy == policy


def test_a_plan_that_differs_is_noticed() -> None:
    kept = record(draw("a 1...", jobs=[job(5, "1x4"), job(6)]), DEFAULT_POLICY)
    other = record(draw("a 1...", jobs=[job(5, "1x4"), job(7)]), DEFAULT_POLICY)
    assert kept.plan != other.plan
    assert b'"start": 6' in kept.plan


def test_columns_that_are_new_since_get_their_usual_value() -> None:
    raw = write_recording(record(draw("a ..", jobs=[job(5)]), DEFAULT_POLICY))
    whole = json.loads(zlib.decompress(raw))
    del whole["snapshot"]["has"]["waiting"]["has"]["learnt_s"]
    kept = read_recording(zlib.compress(json.dumps(whole).encode()))
    assert kept.replay() == kept.plan


@pytest.mark.parametrize(
    "broken",
    [
        {"snapshot": {"is": "Nonsense", "has": {}}},
        {"snapshot": {"is": "Snapshot", "has": {"now_s": 1}}},
        {"snapshot": 5},
        {"policy": {"is": "Order", "value": "random"}},
        {"format": 99},
    ],
)
def test_what_this_version_does_not_know_is_refused(broken: dict) -> None:
    whole = json.loads(zlib.decompress(write_recording(record(draw("a ."), DEFAULT_POLICY))))
    raw = zlib.compress(json.dumps(whole | broken).encode())
    with pytest.raises(RecordingInvalid):
        read_recording(raw)
    with pytest.raises(RecordingInvalid, match="no recording"):
        read_recording(raw[:-5])
