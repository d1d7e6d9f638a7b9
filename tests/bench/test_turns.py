"""The turns of devices that `bench throughput` prints."""

from __future__ import annotations

import pytest

from portal.bench.load.turns import turns_of

pytestmark = pytest.mark.once


def test_gaps_are_those_between_jobs_of_one_device():
    rows = [
        (1, 10.0, 10.2, 10.5),
        (1, 10.8, 10.9, 11.0),
        (2, 10.0, 10.3, 10.9),
        (2, 11.4, 11.5, 11.6),
    ]
    assert turns_of(rows) == {"begin": 200.0, "end": 300.0, "free": 300.0, "all": 800.0}
    assert turns_of(rows[:1]) == {}
