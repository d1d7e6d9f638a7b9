"""The benchmark of pages in small: every page is opened, and what it counts is within budget."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from portal.bench.figures import breaches

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]


def test_it_opens_every_page_and_fails_exactly_when_one_is_over():
    words = "bench pages --jobs 300 --pending 1 --nodes 2 --runs 1 --visits 1 --strict"
    done = subprocess.run(
        [sys.executable, "manage.py", *words.split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    # One visit beside other tests says nothing about time.
    assert [one for one in figures["over_budget"] if one["measure"] != "p95_ms"] == []
    assert figures["not_opened"] == []
    assert done.returncode == (1 if breaches(figures) else 0)
