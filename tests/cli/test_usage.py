"""`trainyard usage`: against the real servers, and what it makes of amounts that are not there."""

from __future__ import annotations

import json
from decimal import Decimal

import httpx
import pytest

from portal.cli.__main__ import run

pytestmark = pytest.mark.once
SECONDS = dict.fromkeys(("work", "unread", "around", "reserved_idle"), 0)


def _row(day: str, amount: str | None, idle_amount: str | None) -> dict[str, object]:
    seconds = {f"{name}_gpu_seconds": held for name, held in SECONDS.items()}
    seconds |= {"held_gpu_seconds": 3600, "idle_gpu_seconds": 3600}
    amounts = {"amount": amount, "idle_amount": idle_amount, "stands": "so far"}
    return {"day": day, "month": day[:7], **seconds, **amounts}


def test_what_is_not_priced_yet_is_no_nought(portal_is, capsys):
    """Of a day without any price nothing is said; beside a priced one it is left out."""
    rows = [
        _row("2026-11-20", None, None),
        _row("2026-11-21", "3.60", None),
        _row("2026-12-01", "3.60", "1.20"),
    ]
    document = {
        "columns": list(rows[0]),
        "rows": [list(row.values()) for row in rows],
        "next_after": None,
        "currency": "EUR",
    }
    portal_is(lambda _: httpx.Response(200, json=document))
    assert run(["usage", "--by", "month", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["items"]
    amounts = [(one["month"], one["amount"], one["idle_amount"]) for one in told]
    assert amounts == [("2026-12", "3.60", "1.20"), ("2026-11", "3.60", None)]
    assert run(["usage", "--by", "day"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.count("not priced yet") for line in lines[1:]] == [0, 1, 2]


@pytest.mark.stack
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
