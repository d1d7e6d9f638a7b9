"""Whole runs of `manage.py torture`: a minute, ten, and every planted bug."""

from __future__ import annotations

import json
import time

import pytest

from portal.embedded.postgres import NoPostgres, find_binaries
from portal.torture.faults import FAULTS
from portal.torture.plants import PLANTS
from portal.torture.proving import found_by
from portal.torture.reconnect import DIVIDE, is_kept, reconnect
from portal.torture.run import Choice, run
from tests.torture.kept import BREAKS

pytestmark = pytest.mark.stack


@pytest.fixture(autouse=True)
def _needs_postgres():
    try:
        find_binaries()
    except NoPostgres as problem:
        pytest.skip(f"PostgreSQL is not installed: {problem}")


@pytest.mark.timeout(1200)
def test_a_minute_of_faults_breaks_nothing():
    """Always the same dice; how much happens in it is the machine's affair. The least that was
    ever seen, at load 15 to 40, were 23 faults and 14 jobs."""
    first = ("clock-node", "clock-forward")
    choice = Choice(
        minutes=1.0,
        seed=1,
        agents=3,
        pools=2,
        divide=60,
        pause_s=2.5,
        first=first,
        tell=print,
    )
    figures = run(choice)
    print(json.dumps(figures))
    assert (figures["breaks"], figures["broken"], figures["planted_found"]) == (0, [], 0)
    assert figures["faults"] >= 15 and figures["jobs"] >= 10 and figures["attempts"] >= 10
    assert sum(figures["faults_by_kind"].values()) == figures["faults"]
    assert {*first} <= figures["faults_by_kind"].keys() and len(figures["faults_by_kind"]) >= 10
    assert figures["recovery_s"]
    assert figures["pools"]["count"] == 2 and figures["pools"]["chose"]
    # What the portal cannot take it says so of: never a 500.
    assert set(figures["own_5xx"]) <= {"503"}
    # What nothing happened to has shown nothing. Databases are put back in long runs (I27); a busy
    # machine sees no node leave its quarantine (I10), no token used after its end (I25) and perhaps
    # no job with a moment (I30), nor anybody in a session (I36). Nobody rests for so long (I32).
    seldom = {"I10", "I25", "I27", "I30", "I32", "I36"}
    # Where hardly anything begins no hostile program may (F16), and no node be long away (I28).
    seldom |= {"F16", "I28"} if figures["attempts"] < 30 else set()
    assert set(figures["not_looked_at"]) <= seldom


@pytest.mark.long
@pytest.mark.timeout(2400)
def test_ten_minutes_of_faults_break_nothing():
    figures = run(Choice(minutes=10.0, seed=int(time.time()), pools=3, tell=print))
    assert figures["broken"] == [], figures["seed"]
    assert set(figures["own_5xx"]) <= {"503"}
    assert figures["faults"] >= 300 and figures["jobs"] >= 500
    hits = {name: figures["faults_by_kind"].get(name, 0) for name in FAULTS}
    rare = {name: count for name, count in hits.items() if count < 8}
    # Where no small file system can be mounted there is none to fill.
    mounted = {"disk-full", "disk-read-only", "store-full", "wal-full"}
    assert set(rare) <= mounted, rare


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "kept", [kept for kept in BREAKS if kept.seed], ids=lambda kept: kept.cause
)
def test_a_seed_that_broke_something_breaks_it_no_more(kept):
    choice = Choice(
        minutes=1.0,
        seed=kept.seed,
        agents=3,
        pools=kept.pools,
        divide=30,
        pause_s=1.2,
        first=kept.kinds,
        restores=kept.restores,
        tell=print,
    )
    figures = run(choice)
    assert figures["broken"] == []
    assert figures["faults"] >= len(kept.kinds)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_of_forty_that_come_back_at_once_nobody_is_given_up_or_started_twice():
    figures = reconnect(Choice(divide=DIVIDE, tell=print), 40)
    print(json.dumps(figures))
    assert is_kept(figures) and figures["jobs"] > 0, figures
    assert figures["outages"]["cut off"]["silent"] >= 40, "they were never away"
    assert figures["outages"]["cut off"]["all_ready_s"] <= 60


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", sorted(PLANTS))
def test_a_planted_bug_is_found(name):
    began = time.monotonic()
    assert found_by(Choice(seed=5, tell=print), name)
    assert time.monotonic() - began <= 180, "a break has to be reported within three minutes"
