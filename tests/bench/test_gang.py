"""`bench gang` on a cluster small enough for a test."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command


def bench(*words: str) -> dict:
    out = StringIO()
    call_command("bench", "gang", *words, stdout=out, stderr=StringIO())
    return json.loads(out.getvalue().splitlines()[-1])


def test_a_gang_stops_no_more_than_it_needs():
    told = bench("--nodes=40", "--gpus=64", "--runs=1")
    assert told["started"] == 1 and told["victims"] > 0
    # A gang among the victims may span more nodes than are wanted, others hold just what is.
    assert 64 <= told["victim_gpus"] <= 64 + 3 * 8
    assert told["cycle_ms"]["p50"] > 0


@pytest.mark.parametrize("words", ["--gpus=12", "--gpus=8000", "--gpus=0"])
def test_gangs_that_cannot_be_are_refused(words: str):
    with pytest.raises(CommandError, match="--gpus"):
        bench("--nodes=10", words)
