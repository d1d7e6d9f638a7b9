"""The command: figures on standard output, and what it says about bad words."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

TRACE = "submit,duration,gpus,vc\n0,100,6,a\n10,50,4,a\n20,60,2,a\n30,100,2,a\n90,10,6,b\n"


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text(TRACE)
    return str(path)


def figures(trace: str, *words: str) -> dict[str, float]:
    out = StringIO()
    call_command("bench", "replay", "--trace", trace, *words, stdout=out)
    return json.loads(out.getvalue().splitlines()[-1])


def test_one_pool_of_all_jobs(trace):
    found = figures(trace, "--pools", "1", "--durations", "exact", "--policy", "fifo")
    assert (found["avg_jct_s"], found["jobs"], found["preemptions"]) == (104.0, 5, 0)
    assert found["max_wait_s"] == 90


def test_pools_by_name_and_the_rest_left_out(trace):
    found = figures(trace, "--pools", "a=1", "--policy", "shortest")
    assert (found["jobs"], found["skipped"]) == (4, 1)


def test_preemption_is_counted(trace):
    found = figures(trace, "--pools", "1", "--policy", "shortest", "--preempt")
    assert found["preemptions"] > 0 and not found["is_guarded"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--pools", "x"], "--pools 'x'"),
        (["--pools", "a=0"], "--pools 'a=0'"),
        (["--pools", "c=3"], "no job of the trace"),
        (["--pools", "1", "--gpus-per-node", "0"], "--gpus-per-node"),
        (["--pools", "1", "--gpus-per-node", "1"], "no job of the trace fits"),
        (["--pools", "1", "--durations", "maybe"], "exact, hidden, noisy:F or padded:F"),
        (["--pools", "1", "--policy", "fifo", "--preempt"], "shortest or las"),
    ],
)
def test_bad_words_are_refused(trace, words, problem):
    with pytest.raises(CommandError, match=problem):
        figures(trace, *words)


def test_a_missing_trace_is_named(tmp_path):
    with pytest.raises(CommandError, match="--trace cannot be read"):
        figures(str(tmp_path / "none.csv"), "--pools", "1")
