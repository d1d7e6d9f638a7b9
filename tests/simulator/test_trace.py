"""Traces in: what is read, what is refused."""

from __future__ import annotations

import dataclasses
import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.policy import Policy
from scheduler.engine.snapshot import floats, ints
from scheduler.simulator.judging.bounds import jct_bound_s
from scheduler.simulator.teams import Teams
from scheduler.simulator.traces.jobs import workload_in, workload_of
from scheduler.simulator.traces.reading import (
    Trace,
    TraceInvalid,
    declared_s,
    parse_trace,
    read_trace,
)
from scheduler.simulator.traces.writing import Results, trace_lines, trace_of, write_trace
from scheduler.simulator.whatif import Setting, run_in
from scheduler.states import Tier

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
        ("submit,duration,gpus\n1,2,1e30\n", "line 2: gpus is 1e30, more than"),
        ("submit,duration,gpus,tier\n1,2,1,vip\n", "line 2: tier is 'vip'; write one of"),
        ("submit,duration,gpus,declared\n1,2,1,\n1,2,1,0\n", "line 3: declared is 0; write"),
        ("submit,duration,gpus,checkpoint\n1,2,1,often\n", "line 2: checkpoint is 'often'"),
        ("submit,duration,gpus,nodes\n1,2,4,\n1,2,4,3\n", "line 3: nodes is 3; write a whole"),
        ("submit,duration,gpus,nodes\n1,2,4,0\n", "line 2: nodes is 0; write a whole"),
        ("submit,duration,gpus,nodes\n1,2,4,1.5\n", "line 2: nodes is 1.5; write a whole"),
    ],
)
def test_a_bad_trace_is_refused_by_line_and_column(text, words):
    with pytest.raises(TraceInvalid, match=words):
        parse_trace(text.splitlines())


def test_who_says_on_how_many_nodes_it_runs_runs_there():
    """Two GPUs each of two nodes of four: beside a job of three it waits, though four are free."""
    text = ["submit,duration,gpus,nodes", "0,100,3,1", "1,10,4,2", "2,10,4,", "3,10,6,3"]
    trace = parse_trace(text)
    assert trace.nodes is not None and trace.nodes.tolist() == [1, 2, 0, 3]
    declared = declared_s(trace, "exact", 1)
    work = workload_of(trace, declared, trace.sorted_rows(), nodes=2, gpus_per_node=4)
    assert work.gpus.tolist() == [3, 4, 4], "nobody has three nodes"
    assert run_in(work, Setting(nodes=2)).outcome.end_s.tolist() == [100, 110, 12]
    written = parse_trace("".join(trace_lines(trace_of(work, ("a",), ()))).splitlines())
    assert written.nodes is not None and written.nodes.tolist() == [1, 2, 0]
    both, _ = workload_in(trace, declared, {"all": 3}, ("a",) * 4, gpus_per_node=4)
    assert both.gpus.tolist() == [3, 4, 4, 6]
    assert [column.tolist() for column in both.shapes()] == [[1, 2, 1, 3], [3, 2, 4, 2], [0] * 4]


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


RICH = (
    "submit,duration,gpus,vc,team,tier,declared,checkpoint,promised\n"
    "0,100,4,a,vision,exploratory,200,30,\n"
    "5,40,2,b,speech,normal,,,60\n"
    "90,10,4,a,vision,urgent,12.5,,\n"
    "95,10,64,a,vision,normal,20,,\n"
)


@pytest.mark.parametrize("name", ["run.csv", "run.csv.gz"])
def test_a_run_is_written_as_a_trace_and_read_again_as_the_same_jobs(tmp_path, name):
    trace = parse_trace(RICH.splitlines())
    declared = declared_s(trace, "stated", 1)
    work, teams = workload_in(trace, declared, {"a": 1, "b": 1}, trace.team, gpus_per_node=4)
    assert len(work) == 3, "the last is larger than its pool"
    policy = Policy(head_patience_s=0, backfill_slack_s=0, preempts=True)
    run = run_in(work, Setting((1, 1), policy, Teams.equal(teams), names=("a", "b")))
    path = tmp_path / name
    write_trace(path, trace_of(work, ("a", "b"), teams), run.results(len(work)))
    again = read_trace(path)
    assert again.submit_s.tolist() == [0, 5, 90]
    for field in dataclasses.fields(trace):
        had, found = getattr(trace, field.name), getattr(again, field.name)
        assert (found is None) == (had is None), field.name
        assert had is None or list(found) == list(had)[:3], field.name
    text = gzip.decompress(path.read_bytes()) if name.endswith("gz") else path.read_bytes()
    lines = text.decode().splitlines()
    assert lines[0].endswith("promised,start,end,waited,stops,failures")
    assert lines[1] == "0,100,4,a,vision,exploratory,200,30,,0,140,10,1,0"
    declared = declared_s(again, "stated", 1)
    second, _ = workload_in(again, declared, {"a": 1, "b": 1}, again.team, gpus_per_node=4)
    repeat = run_in(second, Setting((1, 1), policy, Teams.equal(teams), names=("a", "b")))
    assert repeat.outcome.end_s.tolist() == run.outcome.end_s.tolist()


whole = st.integers(0, 10**6)
seconds = st.one_of(st.integers(1, 10**6).map(float), st.just(np.inf))


job_ = st.tuples(
    whole,
    st.integers(1, 10**6),
    st.integers(1, 999),
    st.sampled_from("ab"),
    st.sampled_from(["x", "y,z", 'q"']),
    st.sampled_from(list(Tier)),
    seconds,
    seconds,
)


@settings(max_examples=25)
@given(st.lists(job_, min_size=1, max_size=8))
def test_whatever_is_written_reads_the_same(jobs):
    submit, run, gpus, pool, team, tier, stated, checkpoint = zip(*jobs, strict=True)
    trace = Trace(
        ints(submit), ints(run), ints(gpus), pool, team, ints(tier), floats(stated),
        floats(checkpoint), None,
    )  # fmt: skip
    again = parse_trace("".join(trace_lines(trace, Results.none(len(trace)))).splitlines())
    for name in ("submit_s", "duration_s", "gpus", "pool", "team", "tier"):
        assert list(getattr(again, name)) == list(getattr(trace, name))
    for name in ("stated_s", "checkpoint_s"):
        had, found = getattr(trace, name), getattr(again, name)
        assert np.array_equal(had, found) if found is not None else np.isinf(had).all()
