"""F1-F4: the partition, over generated histories."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest

from scheduler.ledger.auditing import audit
from scheduler.ledger.findings import Trouble
from scheduler.ledger.segments import (
    ALLOCATED,
    Bucket,
    DeviceEvent,
    Facts,
    ImpossibleEvent,
    Kind,
    Segment,
    bucket_of,
    partition,
    proven,
    roll_up,
    totals,
)
from tests.ledger.histories import history, overlap

SEEDS = 1_000


def check_identity(seed: int) -> None:
    """F1: in any window, the buckets add up to the time in service, which is counted apart."""
    made = history(seed)
    segments = partition(made.events)
    chance = random.Random(seed + 1)
    windows = [(0, made.end_s)]
    for _ in range(3):
        one, other = chance.randrange(made.end_s + 2), chance.randrange(made.end_s + 2)
        windows.append((min(one, other), max(one, other)))
    for start, end in windows:
        for device in ("d0", "d1", "d2"):
            own = [s for s in segments if s.device == device]
            served = sum(overlap((a, b), (start, end)) for d, a, b in made.service if d == device)
            beyond = max(0, end - made.end_s)
            still = any(d == device and b == made.end_s for d, _, b in made.service)
            rolled = roll_up(totals(own, start, end))
            assert rolled.in_service == served + (min(beyond, end - start) if still else 0)
            assert rolled.allocated + rolled.idle + rolled.unallocated == rolled.in_service
    found = audit(segments, 0, made.end_s)
    assert found.findings == []
    assert found.span == sum(b - a for _, a, b in made.service)


def test_buckets_add_up_to_the_time_in_service():
    for seed in range(SEEDS):
        check_identity(seed)


@pytest.mark.long
def test_buckets_add_up_in_ten_thousand_histories():
    for seed in range(10_000):
        check_identity(seed)
        check_one_holder(seed)


def test_held_seconds_are_the_attempts_own():
    """F2, F3: what an attempt's own book says it held is what the buckets give it, no more."""
    for seed in range(SEEDS):
        made = history(seed)
        segments = partition(made.events)
        by_holder: Counter[str] = Counter()
        for segment in segments:
            if segment.bucket in ALLOCATED:
                by_holder[segment.holder] += segment.seconds(0, made.end_s)
        expected: Counter[str] = Counter()
        for _, attempt, begin, end in made.holds:
            expected[attempt] += end - begin
        assert +by_holder == +expected


def test_a_device_second_has_one_holder():
    """F2: segments of a device touch and never overlap."""
    for seed in range(SEEDS):
        check_one_holder(seed)


def check_one_holder(seed: int) -> None:
    stream: dict[str, Segment] = {}
    for segment in partition(history(seed).events):
        before = stream.get(segment.device)
        assert before is None or before.end_s == segment.start_s
        stream[segment.device] = segment


def test_windows_add_up():
    """F4: cutting a window anywhere changes no total."""
    for seed in range(200):
        made = history(seed)
        segments = partition(made.events)
        cut = random.Random(seed).randrange(made.end_s + 1)
        halves = totals(segments, 0, cut) + totals(segments, cut, made.end_s)
        assert +halves == +totals(segments, 0, made.end_s)


def test_the_order_within_a_commit_does_not_matter():
    """F4: a commit's events may arrive in any order."""
    for seed in range(200):
        made = history(seed)
        shuffled = list(made.events)
        random.Random(seed).shuffle(shuffled)
        assert partition(shuffled) == partition(made.events)


def test_preempted_in_the_round_it_was_planned_in_holds_nothing():
    """F24."""
    events = [
        DeviceEvent(100, 1, "d", Kind.ENROLLED),
        DeviceEvent(200, 2, "d", Kind.HELD, "a1"),
        DeviceEvent(200, 3, "d", Kind.RELEASED, "a1"),
    ]
    segments = partition(events)
    assert totals(segments, 0, 1000) == Counter({Bucket.FREE: 900, Bucket.OVERHEAD: 0})


@pytest.mark.parametrize(
    ("facts", "bucket"),
    [
        (Facts(), Bucket.OUT),
        (Facts(in_service=True), Bucket.FREE),
        (Facts(in_service=True, holder="a"), Bucket.RUN),
        (Facts(in_service=True, holder="a", is_preparing=True), Bucket.OVERHEAD),
        (Facts(in_service=True, holder="a", is_drained=True), Bucket.RUN),
        (Facts(in_service=True, holder="a", is_silent=True, is_preparing=True), Bucket.UNREACHABLE),
        (Facts(in_service=True, holder="a", is_down=True), Bucket.UNREACHABLE),
        (Facts(in_service=True, is_silent=True, is_drained=True), Bucket.DOWN),
        (Facts(in_service=True, is_quarantined=True, is_drained=True), Bucket.QUARANTINE),
        (Facts(in_service=True, is_drained=True, reserved_for="t"), Bucket.DRAINED),
        (Facts(in_service=True, reserved_for="t"), Bucket.RESERVED_IDLE),
    ],
)
def test_what_is_true_decides_the_bucket(facts, bucket):
    assert bucket_of(facts)[0] is bucket


@pytest.mark.parametrize(
    "kind_and_holder",
    [(Kind.HELD, "b"), (Kind.RELEASED, "b"), (Kind.RETIRED, "")],
)
def test_a_held_device_cannot_change_hands_by_itself(kind_and_holder):
    kind, holder = kind_and_holder
    events = [
        DeviceEvent(0, 1, "d", Kind.ENROLLED),
        DeviceEvent(5, 2, "d", Kind.HELD, "a"),
        DeviceEvent(9, 3, "d", kind, holder),
    ]
    with pytest.raises(ImpossibleEvent, match="d at 9"):
        partition(events)


def segment(device: str, start: int, end: int | None, bucket: Bucket = Bucket.RUN) -> Segment:
    return Segment(device, start, end, bucket)


class TestAudit:
    def test_an_overlap_is_found_and_never_clamped(self):
        stored = [segment("d", 0, 60), segment("d", 50, 100)]
        found = audit(stored, 0, 100)
        assert {f.trouble for f in found.findings} == {Trouble.OVERLAP, Trouble.NEGATIVE_IDLE}

    def test_two_open_segments_are_an_overlap(self):
        found = audit([segment("d", 0, None), segment("d", 50, None)], 0, 100)
        assert Trouble.OVERLAP in {f.trouble for f in found.findings}

    def test_a_gap_is_found(self):
        found = audit([segment("d", 0, 40), segment("d", 50, 100)], 0, 100)
        assert [f.trouble for f in found.findings] == [Trouble.GAP]

    def test_a_gap_at_the_window_is_found_for_a_device_known_before(self):
        stored = [segment("d", 10, 100)]
        assert audit(stored, 0, 100).findings == []
        found = audit(stored, 0, 100, known_before={"d"})
        assert [f.trouble for f in found.findings] == [Trouble.GAP]

    def test_a_device_that_begins_before_the_window_is_in_order(self):
        found = audit([segment("d", -50, 40), segment("d", 40, None)], 0, 100, known_before={"d"})
        assert found.findings == []
        assert found.span == 100

    def test_out_of_service_is_no_capacity(self):
        stored = [
            segment("d", 0, 40),
            segment("d", 40, 90, Bucket.OUT),
            segment("d", 90, None, Bucket.FREE),
        ]
        found = audit(stored, 0, 100)
        assert (found.findings, found.span) == ([], 50)


@pytest.mark.parametrize("seed", range(200))
def test_what_a_node_proves_splits_its_silence_and_loses_no_second(seed: int) -> None:
    """F3: run before unreachable, none of no length, and none outside of the silence."""
    chance = random.Random(seed)
    start = chance.randrange(100)
    end = start + chance.randrange(1, 100)
    began = chance.randrange(200)
    ran = (began, began + chance.randrange(200)) if chance.random() < 0.9 else None
    found = proven(start, end, ran)
    assert [found[0][1], found[-1][2]] == [start, end]
    assert all(one[2] == two[1] for one, two in pairwise(found))
    assert all(one[1] < one[2] for one in found)
    used = {at for bucket, b, e in found if bucket is Bucket.RUN for at in range(b, e)}
    really = set(range(start, min(end, ran[1]))) if ran and ran[0] <= start else set()
    assert used == really
