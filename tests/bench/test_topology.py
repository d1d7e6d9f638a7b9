"""`bench topology` on a cluster small enough for a test."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import call_command


def bench(*words: str) -> dict:
    out = StringIO()
    call_command("bench", "topology", *words, stdout=out, stderr=StringIO())
    return json.loads(out.getvalue().splitlines()[-1])


@pytest.mark.parametrize("mode", ["required", "preferred", "balanced"])
def test_gangs_fill_the_racks(mode: str):
    told = bench("--racks=3", "--rack-nodes=8", "--gangs=20", f"--mode={mode}", "--runs=1")
    assert told["started"] > 0 and told["starts_per_s"] > 0
    assert 0 < told["filled_nodes"] <= told["free_nodes"]
    if mode == "required":
        assert set(told["racks_of_a_gang"]) == {"1"}
    else:
        assert told["filled_nodes"] >= told["free_nodes"] - 7
