"""Dependencies and arrays as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.spec import SpecInvalid, parse_spec
from scheduler.spec.order import MAX_TASKS, of_task, read_range, write_range

GOOD = {"name": "train", "project": "vision/digits", "command": "python train.py"}


def _problem(field, value):
    with pytest.raises(SpecInvalid) as caught:
        parse_spec({**GOOD, field: value})
    (problem,) = caught.value.problems
    return problem.field, problem.message


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (12, ["afterok:12"]),
        ("12", ["afterok:12"]),
        ("#12", ["afterok:12"]),
        ("afterany:12:13", ["afterany:12", "afterany:13"]),
        ("afterok:1,singleton", ["afterok:1", "singleton"]),
        (["after:3", {"job": 4}], ["after:3", "afterok:4"]),
        ([5, 5, "afterok:5"], ["afterok:5"]),
        ([], []),
        ("set=4", ["afterok:set=4"]),
        ("afterany:12:set=4:set=#5", ["afterany:12", "afterany:set=4", "afterany:set=5"]),
        ("afterok:4_3,after:4_0", ["afterok:4_3", "after:4_0"]),
        ({"set": 4}, ["afterok:set=4"]),
        ([{"kind": "after", "set": "4", "job": None}], ["after:set=4"]),
        ([{"set": 4, "index": 3}, "4_3"], ["afterok:4_3"]),
        (
            [{"job": "set=4"}, {"job": "4_3"}],
            [{"kind": "afterok", "job": "set=4"}, {"kind": "afterok", "job": "4_3"}],
        ),
        ([{"kind": "afterok", "job": "a: b"}], [{"kind": "afterok", "job": "a: b"}]),
    ],
)
def test_dependencies_are_read_and_written(value, written):
    spec = parse_spec({**GOOD, "depends_on": value})
    assert spec.document()["depends_on"] == written
    assert parse_spec(spec.document()) == spec == parse_spec(spec.readable())


@pytest.mark.parametrize(
    "value",
    [
        "afterwards:1", "afterok:", "afterok", "singleton:3", 0, -1, 2**63, True, 1.5, None,
        {"a": 1},
        {"kind": "afterok"}, {"kind": "soon", "job": 1}, {"job": [1]}, [["afterok:1"]], [None],
        list(range(1, 40)), "afterok:" + ":".join(map(str, range(1, 50))), {"job": "x" * 200},
        {"job": "a\x00b"},
        "singleton:set=4", "afterok:set=0", "soon:set=4", "singleton:4_3", "afterok:4_9999999",
        {"set": 0}, {"set": "sweep"}, {"set": True}, {"set": [4]}, {"set": 2**63},
        {"set": 4, "job": 1}, {"index": 3}, {"job": 1, "index": 3}, {"set": 4, "index": -1},
        {"set": 4, "index": 1.5}, "aftercorr:4", "aftercorr:4_3", "aftercorr:set=4",
        {"kind": "aftercorr", "set": 4, "index": 1},
        {"set": 4, "index": 10**6}, {"kind": "soon", "set": 4}, {"kind": "singleton", "set": 4},
    ],
)  # fmt: skip
def test_odd_dependencies_name_field_and_remedy(value):
    field, message = _problem("depends_on", value)
    assert field == "depends_on"
    assert message


def test_a_wait_task_for_task_needs_an_array_and_names_one():
    spec = parse_spec({**GOOD, "array": "0-3", "depends_on": "aftercorr:set=4:set=5"})
    assert spec.document()["depends_on"] == ["aftercorr:set=4", "aftercorr:set=5"]
    assert parse_spec(spec.document()) == spec == parse_spec(spec.readable())
    assert [one.written() for one in of_task(spec.depends_on, 3)] == ["afterok:4_3", "afterok:5_3"]
    _, told = _problem("depends_on", "aftercorr:set=4")
    assert told == "aftercorr waits task for task; give this job an array as well, or use afterok"
    _, told = _problem("depends_on", "aftercorr:4")
    assert told == "aftercorr names an array: write aftercorr:set=4 for array 4"


@pytest.mark.parametrize(
    ("value", "indexes", "parallel"),
    [
        ("0-3", (0, 1, 2, 3), 0),
        ("0-3%2", (0, 1, 2, 3), 2),
        ("1, 3, 5-6", (1, 3, 5, 6), 0),
        ("0-60:20", (0, 20, 40, 60), 0),
        ({"range": "7", "max_parallel": "3"}, (7,), 3),
        (7, (7,), 0),
    ],
)
def test_arrays_are_read_and_written(value, indexes, parallel):
    spec = parse_spec({**GOOD, "array": value})
    assert (spec.array.indexes, spec.array.max_parallel) == (indexes, parallel)
    assert parse_spec(spec.document()) == spec == parse_spec(spec.readable())


@pytest.mark.parametrize(
    "value",
    [
        "a-b", "3-1", "0-3:0", "-1", "0--3", "0-3%", "0-3%x", "0-3%-1", "0-10000", "0-9,5",
        "1000000", "9" * 30, ",", "0-3,", "\uff11-3", {"range": ""}, {"range": None},
        {"max_parallel": 2},
        {"range": "0-3", "step": 1}, [0, 1], True, {"range": "0-3", "max_parallel": 10_001},
        ",".join(["0-9999"] * 100_000),
    ],
)  # fmt: skip
def test_odd_arrays_name_field_and_remedy(value):
    field, message = _problem("array", value)
    assert field.split(".")[0] == "array"
    assert message


def test_an_array_of_singletons_is_refused():
    with pytest.raises(SpecInvalid, match="max_parallel: 1"):
        parse_spec({**GOOD, "array": "0-3", "depends_on": "singleton"})


@given(st.sets(st.integers(0, 999_999), min_size=1, max_size=60))
def test_a_written_range_reads_back(indexes):
    assert read_range(write_range(indexes)) == tuple(sorted(indexes))


def test_the_longest_array():
    assert len(read_range(f"0-{MAX_TASKS - 1}")) == MAX_TASKS
