"""`trainyard usage` against the real servers."""

from __future__ import annotations

from decimal import Decimal

import pytest

pytestmark = [pytest.mark.stack, pytest.mark.once]


def test_weeks_days_and_months_come_to_the_same(terminal_of, stack):
    job = stack.submit(name="used", script="sleep 2")["id"]
    stack.wait_for(job)
    alice, found = terminal_of("alice"), {}
    for by in ("week", "day", "month"):
        told = alice.json("usage", "--by", by, "--project", "vision/digits")
        found[by] = sum(one["held_gpu_seconds"] for one in told["items"])
        assert {one["cost_is"] for one in told["items"]} == {"so far"}
        assert all(Decimal(one["idle_amount"]) >= 0 and one[by] for one in told["items"])
    assert found["week"] == found["day"] == found["month"] >= 1
    out, _ = alice.run("usage")
    assert "AT WORK" in out and "so far" in out
    assert "No GPU was held" in "".join(
        alice.run("usage", "--from", "2020-01-01", "--to", "2020-02-01")
    )
    _, err = alice.run("usage", "--from", "yesterday", code=2)
    assert "2026-11-20" in err
    alice.run("usage", "--team", "nobodys", code=3)
