"""Benchmarks run as people type them and end with one line of JSON."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from portal.embedded.places import ROOT
from portal.embedded.postgres import NoPostgres, find_binaries


def _bench(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "manage.py", "bench", *words]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_loop_fills_a_cluster_and_counts_statements(database):
    if database == "postgres":
        try:
            find_binaries()
        except NoPostgres as problem:
            pytest.skip(f"no PostgreSQL: {problem}")
    done = _bench(
        *("loop", "--nodes", "3", "--pending", "20", "--cycles", "2", "--database", database)
    )
    assert done.returncode == 0, done.stderr[-2000:]
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["database"] == database
    assert figures["first_cycle_started"] == 3
    assert figures["started_per_cycle"] >= 1
    # 41, and some 28 more once a second, when the cycle also looks for what is late and writes down
    # what it did; one for each of the waiting jobs would be too many.
    assert 0 < figures["statements"] < 80
    assert {"p50", "p95"} == figures["cycle_ms"].keys() == figures["load_ms"].keys()


def test_sizes_out_of_range_are_named():
    done = _bench("loop", "--nodes", "0")
    assert done.returncode == 1
    assert "--nodes must be 1 to" in done.stderr
