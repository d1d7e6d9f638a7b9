"""What the run times of others tell."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.learning import EndChances, RunTimes, entry_point, kind_of, kind_of_spec
from scheduler.engine.learning.hazards import SHAPE
from scheduler.engine.snapshot import floats, ints

TRAIN = (1, "python train.py", 4, 0)


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
    other = (1, "python eval.py", 4, 0)
    runs = [(TRAIN, run_s) for run_s in (100, 200, 300)] + [(other, 9000.0)] * 9
    times = RunTimes(runs)
    assert times.ahead_s(TRAIN, 0) == 200
    assert times.ahead_s(other, 0) == 9000


def test_who_has_run_longer_than_all_of_its_kind_is_told_by_the_next_level():
    times = RunTimes([(TRAIN, 100.0)] * 5 + [((1, "other", 4, 0), 1000.0)] * 5)
    assert times.ahead_s(TRAIN, 100) == 900
    assert times.ahead_s((7, "new", 4, 0), 0) == 550
    assert times.ahead_s((7, "new", 99, 0), 1000) == math.inf


def test_those_from_the_same_template_tell_before_those_of_the_same_program():
    short, long, plain = (1, "python train.py", 4, 5), (1, "python train.py", 4, 6), TRAIN
    runs = [(short, 10.0)] * 3 + [(long, 1000.0)] * 3 + [(plain, 100.0)] * 1
    times = RunTimes(runs)
    assert (times.ahead_s(short, 0), times.ahead_s(long, 0)) == (10, 1000)
    # Without a template all runs of the program tell, and so for one that nobody has run yet.
    assert times.ahead_s(plain, 0) == times.ahead_s((1, "python train.py", 4, 7), 0) == 100
    assert times.spread_s(short) == (10, 10, 3, "from the same template on as many GPUs")
    assert times.spread_s(plain)[2:] == (7, "of the same program on as many GPUs")


def test_sessions_and_jobs_tell_nothing_of_each_other():
    shell, notebook = (kind_of(1, 1, 4, None, None, app) for app in ("shell", "jupyter"))
    served = kind_of_spec(2, 1, 1, {"session": {"app": "command"}, "command": ["python", "app.py"]})
    times = RunTimes([(TRAIN, 10.0)] * 5)
    assert times.ahead_s(shell, 0) == math.inf
    assert times.spread_s(shell) is None
    times = RunTimes([(TRAIN, 10.0)] * 2 + [(shell, 7200.0)] * 3)
    assert times.spread_s(TRAIN) is None
    assert times.spread_s(shell)[2:] == (3, "of such sessions on as many GPUs")
    assert times.spread_s(notebook)[2:] == (3, "of the project's sessions")
    assert times.spread_s(served)[2:] == (3, "of all sessions")


def test_nothing_is_known_at_first():
    assert RunTimes().ahead_s(TRAIN, 0) == math.inf


kinds = st.tuples(st.integers(1, 2), st.sampled_from("ab"), st.integers(1, 2), st.integers(0, 2))


@given(st.lists(st.tuples(kinds, st.floats(1, 1e6))), kinds, st.floats(0, 1e6))
def test_it_is_always_positive_and_never_more_than_the_longest(runs, kind, attained_s):
    ahead_s = RunTimes(runs).ahead_s(kind, attained_s)
    assert ahead_s >= 1
    assert ahead_s == math.inf or ahead_s <= max(1, max(run_s for _, run_s in runs) - attained_s)


def index_s(chances, kind, *attained_s, job=1_000):
    whose = ints([job] * len(attained_s))
    return chances.ahead_s(whose, [kind] * len(attained_s), floats(attained_s)).tolist()


def runs_of(kind, *run_s, first=1):
    return [(first + at, kind, float(one)) for at, one in enumerate(run_s)]


def test_those_of_its_kind_that_were_submitted_with_it_say_how_likely_it_ends_soon():
    other = (1, "python eval.py", 4, 0)
    known = runs_of(TRAIN, *[60] * 15, *[500_000] * 15)
    early_s, late_s = (index_s(EndChances(known), TRAIN, 0, job=job)[0] for job in (7, 25))
    assert early_s < late_s / 5
    # What is of another kind but on as many GPUs is told by all of these, whenever it came.
    chances = EndChances(known)
    assert index_s(chances, other, 0, job=7) == index_s(chances, other, 0, job=25)


def test_who_waits_between_counts_as_distance_and_tells_nothing():
    """The last that ran ended at once; thirty that wait behind it make it nobody's neighbour."""
    ended = runs_of(TRAIN, *[60] * 4)
    chances = EndChances(ended, runs_of(TRAIN, *[0] * 31, first=5))
    near_s, far_s = (index_s(chances, TRAIN, 0, job=job)[0] for job in (5, 35))
    assert near_s < far_s
    assert far_s == index_s(EndChances(ended), (2, "other", 4), 0)[0]


def test_a_job_that_outlived_those_alike_goes_behind_a_fresh_one():
    """Half of them end at once: running a fresh one on is worth more than one of an hour."""
    chances = EndChances(runs_of(TRAIN, *[60, 90_000] * 10))
    fresh_s, old_s = index_s(chances, TRAIN, 0, 3600)
    assert fresh_s < old_s / 10


def test_those_that_run_without_an_end_count_as_survivors_but_not_for_themselves():
    ended, live = runs_of(TRAIN, *[600] * 4), runs_of(TRAIN, *[500_000] * 4, first=5)
    before, after = EndChances(ended), EndChances(ended, live)
    assert index_s(after, TRAIN, 0)[0] > index_s(before, TRAIN, 0)[0]
    alone = EndChances(runs_of(TRAIN, 600), runs_of(TRAIN, 500_000, first=2))
    assert index_s(alone, TRAIN, 0, job=2)[0] < index_s(alone, TRAIN, 0, job=3)[0]


def test_before_anything_is_known_the_tail_of_a_usual_list_tells():
    """A Pareto tail ends `SHAPE` times in a doubling, whoever asks, so what is ahead grows."""
    nobody = EndChances()
    first_s, later_s = index_s(nobody, (9, "new", 1), 0, 600 * 2**10)
    assert first_s < later_s
    assert first_s == pytest.approx(600 / (SHAPE * math.log(2)), rel=0.2)
    assert index_s(nobody, (9, "new", 0), 0)[0] == first_s


@given(st.lists(st.tuples(kinds, st.floats(1, 1e6))), kinds, st.floats(0, 1e6), st.integers(1, 9))
def test_an_index_is_positive_whatever_was_learnt_and_whoever_asks(runs, kind, attained_s, job):
    known = [(at + 1, *run) for at, run in enumerate(runs)]
    (ahead_s,) = index_s(EndChances(known[3:], known[:3]), kind, attained_s, job=job)
    assert 0 < ahead_s < math.inf
