"""`bench cycle` on a cluster small enough for a test."""

from __future__ import annotations

import json
from io import StringIO

import numpy as np
import pytest
from django.core.management import CommandError, call_command

from portal.bench.deciding.crowd import Sizes, crowded
from scheduler.engine.checks import check_snapshot
from scheduler.engine.snapshot import NONE


def bench(*words: str) -> dict:
    out = StringIO()
    call_command("bench", *words, stdout=out, stderr=StringIO())
    return json.loads(out.getvalue().splitlines()[-1])


def test_every_job_of_a_full_cluster_is_told_why_it_waits():
    told = bench("cycle", "--nodes=20", "--pending=300", "--queues=3", "--runs=1")
    assert (told["started"], told["stopped"], told["explained"]) == (0, 0, 300)
    assert told["cycle_ms"]["p50"] > 0


def test_a_cluster_that_is_half_in_use_starts_some():
    assert bench("cycle", "--nodes=20", "--pending=300", "--running=0.5", "--runs=1")["started"]


@pytest.mark.parametrize("words", ["--running=1.5", "--pending=0", "--nodes=1000000"])
def test_sizes_that_make_no_sense_are_refused_by_name(words: str):
    with pytest.raises(CommandError, match=words.split("=")[0]):
        bench("cycle", words, "--runs=1")


@pytest.mark.parametrize("gpus", [4, 8])
def test_the_crowd_is_whole_and_the_same_again(gpus: int):
    sizes = Sizes(nodes=30, gpus_per_node=gpus, running=0.8, pending=50, queues=2)
    one, two = crowded(sizes), crowded(sizes)
    check_snapshot(one)
    assert (one.devices.holder == two.devices.holder).all()
    full = np.bincount(one.devices.node[one.devices.holder != NONE], minlength=30)
    assert sorted(set(full.tolist())) == [0, gpus] and (full > 0).sum() == 24
    assert one.running is not None
    held = np.bincount(one.held.job - 1, minlength=len(one.running.jobs))
    assert (held == one.running.jobs.nodes).all()
