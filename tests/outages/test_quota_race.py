"""Eight processes start and end jobs of one team at once, on PostgreSQL: no limit gives way."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from portal.embedded.places import ROOT
from portal.embedded.postgres import Cluster, NoPostgres, find_binaries

RACERS, MOST_GPUS, HOUR_S = 8, 12, 3600
# 3.60 an hour.
STEPS_PER_S = 3_600_000


def _race(url: str, *words: str) -> dict[str, int]:
    environment = {
        **os.environ,
        "DATABASE_URL": url,
        "DJANGO_SETTINGS_MODULE": "portal.settings.test",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.outages.quota_racer", *words],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.timeout(300)
def test_no_limit_gives_way_to_eight_at_once() -> None:
    """640 jobs, in bulks; 480 turns to start one."""
    assert_no_limit_gives_way(jobs=RACERS * 80)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_no_limit_gives_way_to_two_thousand_submits_and_as_many_turns() -> None:
    """Two thousand submits of one job each by eight processes; every job has its turn."""
    assert_no_limit_gives_way("--each", jobs=RACERS * 250)


def assert_no_limit_gives_way(*words: str, jobs: int) -> None:
    """Races on a PostgreSQL of its own and looks at what is left."""
    try:
        find_binaries()
    except NoPostgres as problem:
        pytest.skip(str(problem))
    with Cluster() as cluster:
        left = _race(cluster.url(), *words)
    assert left["worst_excess"] == 0
    assert left["jobs"] == jobs
    # What commits at the submit was used up once, and is what the waiting add up to.
    assert left["refused"] > 0
    assert left["pledged_s"] == left["pledges_s"] == left["accepted"] * HOUR_S
    assert left["pledged_s"] <= left["pledge_limit_s"]
    assert left["accepted"] == left["pledge_waiting"]
    # Money is the tightest of the three, and it was really met: once no start more was paid for.
    assert left["limit_money"] - left["most_taken_money"] < HOUR_S * STEPS_PER_S
    assert left["committed_money"] == left["unsettled_money"]
    assert left["spent_money"] == left["settled_money"]
    assert left["committed_money"] + left["spent_money"] <= left["limit_money"]
    assert left["held"] == left["held_one_by_one"] <= MOST_GPUS
    assert left["committed_s"] == left["unsettled_s"]
    assert left["spent_s"] == left["spent_one_by_one_s"]
    assert left["committed_s"] + left["spent_s"] <= left["limit_s"]
    assert left["live"] == left["open_holds"]
