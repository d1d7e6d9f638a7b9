"""Traces in: what is read, what is refused."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from scheduler.engine.snapshot import floats, ints
from scheduler.simulator.bounds import jct_bound_s
from scheduler.simulator.trace import TraceInvalid, declared_s, parse_trace, read_trace
from scheduler.simulator.workload import workload_of

TEXT = "submit,duration,gpus,vc\n5,0,2,b\n3.0,10,1,a\n3,4,16,a\n"


@pytest.mark.parametrize("packed", [False, True])
def test_a_trace_is_read_plain_or_packed(tmp_path, packed):
    path = tmp_path / ("trace.csv.gz" if packed else "trace.csv")
    path.write_bytes(gzip.compress(TEXT.encode()) if packed else TEXT.encode())
    trace = read_trace(path)
    assert trace.duration_s.tolist() == [1, 10, 4]
    assert {pool: rows.tolist() for pool, rows in trace.by_pool().items()} == {
        "a": [2, 1],
        "b": [0],
    }


def test_a_trace_without_pools_is_one_pool():
    trace = parse_trace(["submit,duration,gpus,model,batch", "0,9,4,vgg19,16"])
    assert trace.pool == ("all",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("submit,gpus\n", "no column duration"),
        ("submit,duration,gpus\n", "no jobs"),
        ("submit,duration,gpus\n1,2,0\n", "line 2: gpus is 0"),
        ("submit,duration,gpus\n1,-2,1\n", "line 2: duration is -2"),
        ("submit,duration,gpus\n1,2,1\nx,2,1\n", "line 3: submit is 'x'"),
        ("submit,duration,gpus\n1,2\n", "line 2: gpus is None"),
    ],
)
def test_a_bad_trace_is_refused_by_line_and_column(text, words):
    with pytest.raises(TraceInvalid, match=words):
        parse_trace(text.splitlines())


def test_declared_durations_are_true_hidden_or_noisy_by_the_seed():
    trace = parse_trace(TEXT.splitlines())
    assert declared_s(trace, "exact", 1).tolist() == [1, 10, 4]
    assert np.isinf(declared_s(trace, "hidden", 1)).all()
    expected = ints([1, 10, 4]) * 3 ** np.random.default_rng(7).uniform(-1, 1, 3)
    assert np.allclose(declared_s(trace, "noisy:3", 7), expected)


@pytest.mark.parametrize("word", ["perhaps", "noisy", "noisy:x", "noisy:0.5", "exact:2"])
def test_unknown_durations_are_refused(word):
    with pytest.raises(TraceInvalid, match="exact, hidden, noisy:F or padded:F"):
        declared_s(parse_trace(TEXT.splitlines()), word, 1)


def test_jobs_larger_than_the_pool_are_left_out():
    trace = parse_trace(TEXT.splitlines())
    rows = trace.sorted_rows()
    work = workload_of(trace, declared_s(trace, "exact", 1), rows, nodes=1, gpus_per_node=8)
    assert work.gpus.tolist() == [1, 2]


def test_the_bound_of_two_jobs_that_cannot_overlap():
    """Two jobs of 10 s on all GPUs, at once: one ends at 10, the other at 20."""
    bound = jct_bound_s(floats([0, 0]), floats([10, 10]), ints([8, 8]), 8)
    assert bound == pytest.approx(15)


def test_the_bound_of_jobs_narrower_than_the_pool_counts_their_run_time():
    """Areas of 5 s each are worked through by 5 and 10, at 2.5 and 7.5 in the mean; plus half of
    10 s each: (7.5 + 12.5) / 2.
    """
    bound = jct_bound_s(floats([0, 0]), floats([10, 10]), ints([4, 4]), 8)
    assert bound == pytest.approx(10)
