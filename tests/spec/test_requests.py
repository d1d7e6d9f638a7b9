"""The fields about GPUs, nodes and rules: read, written back, and refused with a remedy."""

from __future__ import annotations

import pytest

from scheduler.spec import SpecInvalid, parse_spec, read_document
from scheduler.spec.partial import read_partial
from scheduler.spec.parts import NodeCount

GOOD = {"name": "train", "project": "vision/digits", "command": "python train.py"}
# What a spec of an earlier version looks like in the database.
STORED = {
    "apiVersion": "trainyard/v1", "kind": "Job", "name": "old", "description": "", "labels": {},
    "project": "vision/digits", "pool": "", "tier": "production", "nodes": 3, "gpus_per_node": 2,
    "gpu_model": "", "cpus": 1, "memory": 2048, "time_limit": 3600, "command": ["true"],
    "script": "", "code": {"folder": "", "git_url": "", "git_ref": ""}, "processes": "node",
    "env": {}, "working_dir": "", "retries": 0, "checkpoint_dir": "",
    "stop": {"signal": "SIGTERM", "grace": 30}, "hold": False,
}  # fmt: skip
EVERYTHING = {
    "nodes": "2..8", "node_sizes": "2,4,8", "gpus_per_node": 4, "gpu_memory": "40GiB",
    "gpu_models": ["NVIDIA H100 80GB HBM3", "NVIDIA A100"], "fallback_after": "2h",
    "share_cards": True, "exclusive": True, "scratch": "200GiB",
    "licences": {"solver": 2, "viewer": 1}, "constraints": ["network=ib", "rack!=r3"],
    "exclude_nodes": "n7, n12", "topology": "rack:preferred", "preemptible": False,
    "min_runtime": "30m", "booking": "exam-week", "begin": "2026-12-31T09:00:00+01:00",
    "disconnect_grace": "4h", "notify": "fail, warn",
}  # fmt: skip


def _problems(**change):
    with pytest.raises(SpecInvalid) as caught:
        parse_spec({**GOOD, **change})
    return {problem.field: problem.message for problem in caught.value.problems}


def test_everything_reads_back_as_the_same_spec():
    spec = parse_spec({**GOOD, **EVERYTHING})
    assert parse_spec(spec.document()) == spec
    assert parse_spec(spec.readable()) == spec
    shown = spec.readable()
    assert (shown["nodes"], shown["node_sizes"], shown["gpu_memory"]) == (
        "2..8",
        [2, 4, 8],
        "40GiB",
    )
    assert (shown["begin"], shown["fallback_after"]) == ("2026-12-31T08:00:00Z", "2h")
    assert (spec.nodes, spec.nodes.least, spec.gpus) == (8, 2, 32)


@pytest.mark.parametrize(
    ("asked", "pools"),
    [
        ({"pool": "a, b,c"}, ("a", "b", "c")),
        ({"pool": "a", "other_pools": "b,c"}, ("a", "b", "c")),
        ({"pool": "a", "other_pools": ["b", "a"]}, ("a", "b")),
        ({"pool": "a,b,a"}, ("a", "b")),
        ({"other_pools": ["b"]}, ("", "b")),
        ({"pool": "a", "other_pools": None}, None),
        ({"pool": "a,b", "other_pools": "c"}, None),
        ({"pool": "a,,b"}, None),
        ({"pool": ",b"}, None),
        ({"other_pools": ["A_"]}, None),
        ({"other_pools": ["b", ""]}, None),
        ({"other_pools": ["b", "b"]}, None),
        ({"other_pools": 7}, None),
        ({"other_pools": [[7]]}, None),
        ({"pool": ["a", "b"]}, None),
        ({"other_pools": [f"p{number}" for number in range(8)]}, None),
        ({"pool": "a,b", "booking": "exam"}, None),
    ],
)
def test_several_pools_are_named_in_one_line_or_beside_the_first(asked, pools):
    if pools is None:
        assert _problems(**asked).keys() <= {"pool", "other_pools"}
        return
    spec = parse_spec({**GOOD, **asked})
    assert (spec.pool, *spec.other_pools) == pools
    assert parse_spec(spec.readable()) == spec == parse_spec(spec.document())
    assert read_partial(asked).document == {
        name: value
        for name, value in spec.document().items()
        if name in ("pool", "other_pools") and (value or name in asked)
    }


def test_old_specs_load_and_mean_what_they_meant():
    spec = parse_spec(STORED)
    assert (spec.nodes, spec.nodes.least, spec.gpu_milli) == (3, 3, 1000)
    assert not spec.is_preemptible
    assert parse_spec(spec.document()) == spec


def test_what_is_usual_is_not_shown():
    assert set(parse_spec(GOOD).readable()) == {
        "apiVersion", "kind", "name", "project", "command", "memory", "time_limit"}  # fmt: skip


@pytest.mark.parametrize(
    ("value", "milli"),
    [
        ("0.25", 250),
        (0.25, 250),
        ("0.5", 500),
        ("250m", 250),
        (10, 10),
        ("1.0", 1000),
        (1000, 1000),
    ],
)
def test_parts_of_a_gpu(value, milli):
    spec = parse_spec({**GOOD, "gpu_milli": value})
    assert spec.gpu_milli == milli
    assert parse_spec(spec.readable()) == spec


@pytest.mark.parametrize(
    "value", [0, 1, 9, 1001, "1.5", "0.001", "-0.5", 1e-9, "NaN", float("inf"), "", "half", True,
              None, [1], "0,25", "\uff10.5"]
)  # fmt: skip
def test_odd_parts_of_a_gpu_name_the_remedy(value):
    assert "write it like 0.25" in _problems(gpu_milli=value)["gpu_milli"]


@pytest.mark.parametrize(
    "value", ["8..2", "0..3", "1..", "..4", "1..9999", "2..8..9", "a..b", "1.5..2", "-1..4", "1 ..",
              {"min": 1}, 2.5]
)  # fmt: skip
def test_odd_node_ranges_name_the_remedy(value):
    assert "2..8" in _problems(nodes=value)["nodes"]


def test_a_node_count_is_the_most_and_knows_the_least():
    assert NodeCount.read("2..8") == NodeCount(8, 2) != NodeCount(8)
    assert NodeCount(4) == 4
    assert {NodeCount(4): "x"}[4] == "x"


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"gpus_per_node": 0, "gpu_model": "H100"}, "gpu_model", "without GPUs"),
        ({"gpus_per_node": 0, "gpu_milli": 500}, "gpu_milli", "without GPUs"),
        ({"gpus_per_node": 0, "processes": "gpu"}, "processes", "use node"),
        ({"gpus_per_node": 0, "isolation": "mig"}, "isolation", "without GPUs"),
        ({"gpus_per_node": 2, "gpu_milli": "0.5"}, "gpu_milli", "set gpus_per_node to 1"),
        ({"isolation": "mig"}, "isolation", "set gpu_milli"),
        ({"gpu_model": "A", "gpu_models": "A,B"}, "gpu_models", "name all models"),
        ({"fallback_after": "1h"}, "fallback_after", "two or more models"),
        ({"gpu_models": "A,A"}, "gpu_models", "twice"),
        ({"gpu_models": "A,\x00"}, "gpu_models", "control character"),
        ({"gpu_models": [""]}, "gpu_models", "1 to 96"),
        ({"gpu_models": [str(n) for n in range(65)]}, "gpu_models", "at most 64"),
        ({"nodes": "2..8", "node_sizes": [2, 16]}, "node_sizes", "end with 8"),
        ({"nodes": "2..8", "node_sizes": [8, 2]}, "node_sizes", "must rise"),
        ({"nodes": 8, "node_sizes": [8]}, "node_sizes", "nodes: 2..8"),
        ({"min_runtime": "2h"}, "min_runtime", "time limit"),
        ({"disconnect_grace": "59s"}, "disconnect_grace", "least"),
        ({"disconnect_grace": "25h"}, "disconnect_grace", "at most 1d, not '25h'"),
        ({"licences": {"UPPER": 1}}, "licences", "lower-case"),
        ({"licences": {"solver": 0}}, "licences", "1 to 10000"),
        ({"licences": {"solver": "many"}}, "licences.solver", "whole number"),
        ({"licences": "a=1,a=2"}, "licences", "twice"),
        ({"licences": [["a"]]}, "licences", "lower-case"),
        ({"constraints": ["network"]}, "constraints", "label=value"),
        ({"constraints": ["a==b"]}, "constraints", "label=value"),
        ({"constraints": "a=1,a=1"}, "constraints", "twice"),
        ({"exclude_nodes": ["../etc"]}, "exclude_nodes", "not the name of a node"),
        ({"topology": "galaxy"}, "topology.level", "must be one of"),
        ({"topology": {"level": "rack", "mode": "maybe"}}, "topology.mode", "must be one of"),
        ({"topology": {"rack": 1}}, "topology.rack", "not a field"),
        ({"topology": "rack:balanced"}, "topology", "several nodes"),
        ({"booking": "Exam Week"}, "booking", "lower-case"),
        ({"booking": True}, "booking", "must be text, not True"),
        ({"begin": "tomorrow"}, "begin", "2026-12-31"),
        ({"begin": 5}, "begin", "2026-12-31"),
        ({"begin": "1999-01-01"}, "begin", "2000"),
        ({"begin": "2100-01-01T00:00"}, "begin", "2099"),
        ({"begin": "9999-12-31T23:59:59Z"}, "begin", "2099"),
        ({"begin": "9999-12-31T23:59:59-14:00"}, "begin", "2026-12-31"),
        ({"begin": "2026-02-30T08:00"}, "begin", "not a time"),
        ({"begin": "2026-03-29T02:30+25:00"}, "begin", "not a time"),
        ({"begin": "2026-03-29T02:30 Europe/Berlin"}, "begin", "not a time"),
        ({"begin": "0001-01-01T00:00:00+14:00"}, "begin", "2026-12-31"),
        ({"begin": "9" * 9999}, "begin", "not a time"),
        ({"scratch": "lots"}, "scratch", "'lots' is not a size; write it like 16GB"),
        ({"gpu_memory": "9999TiB"}, "gpu_memory", "at most 4096GiB, not '9999TiB'"),
        ({"preemptible": "perhaps"}, "preemptible", "true or false, not 'perhaps'"),
        ({"isolation": "total"}, "isolation", "must be one of"),
    ],
)
def test_what_does_not_fit_together_names_field_and_remedy(fields, field, words):
    assert words in _problems(**fields)[field]


def test_yaml_reads_them_as_written():
    text = "name: x\nproject: a/b\ncommand: ['true']\nnodes: 2..4\nbegin: 2026-12-31 08:00\n"
    spec = parse_spec(read_document(text + "gpu_models: [A, B]\nlicences: {solver: 1}\n"))
    assert (spec.nodes.least, spec.begin.hour, spec.licences) == (2, 8, {"solver": 1})


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        # In the hour that Europe's clocks skip, and in the one they have twice: no offset is UTC.
        ("2026-03-29T02:30", "2026-03-29T02:30:00Z"),
        ("2026-10-25 02:30", "2026-10-25T02:30:00Z"),
        ("2026-03-29T02:30+01:00", "2026-03-29T01:30:00Z"),
        ("2026-11-21T08:00+05:45", "2026-11-21T02:15:00Z"),
        ("2026-11-21T08:00-12:34:56", "2026-11-21T20:34:56Z"),
        # What has passed keeps nobody waiting.
        ("2001-01-01", "2001-01-01T00:00:00Z"),
    ],
)
def test_b26_a_begin_is_one_moment_whatever_clocks_do(written, meant):
    assert parse_spec({**GOOD, "begin": written}).document()["begin"] == meant
