"""What the run times of others tell."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.learning import RunTimes, entry_point

TRAIN = (1, "python train.py", 4)


@pytest.mark.parametrize(
    ("command", "script", "told"),
    [
        (["python", "-u", "train.py", "--lr", "1"], "", "python train.py"),
        ([], "#!/bin/bash\n\n# set up\ntorchrun --nproc=8 main.py\n", "torchrun main.py"),
        ([], "", ""),
        (["a" * 500], "", "a" * 128),
    ],
)
def test_the_entry_point_is_what_runs_without_its_options(command, script, told):
    assert entry_point(command, script) == told


def test_those_of_the_same_kind_tell_first():
    other = (1, "python eval.py", 4)
    runs = [(TRAIN, run_s) for run_s in (100, 200, 300)] + [(other, 9000.0)] * 9
    times = RunTimes(runs)
    assert times.ahead_s(TRAIN, 0) == 200
    assert times.ahead_s(other, 0) == 9000


def test_who_has_run_longer_than_all_of_its_kind_is_told_by_the_next_level():
    times = RunTimes([(TRAIN, 100.0)] * 5 + [((1, "other", 4), 1000.0)] * 5)
    assert times.ahead_s(TRAIN, 100) == 900
    assert times.ahead_s((7, "new", 4), 0) == 550
    assert times.ahead_s((7, "new", 99), 1000) == math.inf


def test_nothing_is_known_at_first():
    assert RunTimes().ahead_s(TRAIN, 0) == math.inf


kinds = st.tuples(st.integers(1, 2), st.sampled_from("ab"), st.integers(1, 2))


@given(st.lists(st.tuples(kinds, st.floats(1, 1e6))), kinds, st.floats(0, 1e6))
def test_it_is_always_positive_and_never_more_than_the_longest(runs, kind, attained_s):
    ahead_s = RunTimes(runs).ahead_s(kind, attained_s)
    assert ahead_s >= 1
    assert ahead_s == math.inf or ahead_s <= max(1, max(run_s for _, run_s in runs) - attained_s)
