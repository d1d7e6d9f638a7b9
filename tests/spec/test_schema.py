"""The job spec: what is accepted, and how each refusal names field and remedy."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.spec import JobSpec, SpecInvalid, parse_spec, wording
from scheduler.spec.text import MAX_ENV_COUNT

GOOD = {"name": "train", "project": "vision/digits", "command": "python train.py"}
FULL_WIDTH_TWO = "\uff12"


def _problems(**change):
    with pytest.raises(SpecInvalid) as caught:
        parse_spec({**GOOD, **change})
    return {problem.field: problem.message for problem in caught.value.problems}


def test_the_shortest_job_takes_safe_defaults():
    spec = parse_spec(GOOD)
    assert spec.command == ("python", "train.py")
    assert (spec.nodes, spec.gpus_per_node, spec.cpus, spec.memory) == (1, 1, 1, 2048)
    assert (spec.time_limit, spec.retries, spec.tier) == (3600, 0, "normal")


def test_a_document_reads_back_as_the_same_spec():
    spec = parse_spec({**GOOD, "time_limit": "1d12h", "memory": "16GB", "env": {"SEED": "1"}})
    assert parse_spec(spec.document()) == spec
    assert parse_spec(spec.readable()) == spec


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("x" * 129, "128"),
        ("x" * 10_000_000, "262144"),
        ("a\x00b", "control character U+0000"),
        ("a\nb", "control character U+000A"),
        ("a\ud800b", "surrogate"),
        ("e" + "\u0301" * 9, "combining"),
        ("\u200b\u200b", "visible"),
    ],
)
def test_b1_to_b11_names(name, words):
    assert words in _problems(name=name)["name"]


@pytest.mark.parametrize(
    "name",
    ["<script>alert(1)</script>", "{{7*7}}", "\u202eevil", "\U0001f469\u200d\U0001f52c", "é"],
)
def test_odd_but_harmless_names_are_kept(name):
    assert parse_spec({**GOOD, "name": name}).name == name


@pytest.mark.parametrize(
    "value",
    [
        0,
        -1,
        2**31,
        2**63,
        "1e309",
        "NaN",
        "Infinity",
        "1_000",
        FULL_WIDTH_TWO,
        1.5,
        "1.5",
        True,
        None,
        [1],
        "",
    ],
)
@pytest.mark.parametrize("field", ["nodes", "gpus_per_node", "cpus"])
def test_b22_b23_numbers(field, value):
    if value == 0 and field == "gpus_per_node":
        value = 65
    assert field in _problems(**{field: value})


@pytest.mark.parametrize(
    "value", [0, "0", "100y", "P1Y", "-1", -5, "99999d", "soon", "1h-", "", "9" * 50, 1.5, None]
)
def test_b25_time_limits(value):
    assert "time_limit" in _problems(time_limit=value)


@pytest.mark.parametrize(
    "value", [0, "0", "-1GB", "12.5", "4 elephants", "1e9GB", True, "9" * 40 + "GB", None]
)
def test_memory(value):
    assert "memory" in _problems(memory=value)


@pytest.mark.parametrize("field", ["owner", "state", "fence", "team_id", "cost"])
def test_b40_fields_of_the_server_are_named_as_such(field):
    assert "set by Trainyard" in _problems(**{field: 1})[field]


def test_b40_unknown_fields_are_listed():
    found = _problems(gpu=1, stop={"signl": "SIGINT"})
    assert set(found) == {"gpu", "stop.signl"}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gpus", "write gpus_per_node, or remove it"),
        ("time", "write time_limit"),
        ("partition", "write pool"),
        ("tme_limit", "write time_limit"),
        ("comand", "write command"),
        ("image", "what their node has installed"),
        ("nonsense", "check the spelling"),
    ],
)
def test_who_writes_another_programs_word_is_told_ours(name, words):
    assert words in _problems(**{name: 1})[name]


def test_every_word_that_is_offered_is_a_field():
    offered = {name.partition(".")[0] for name in wording._FIELDS}
    assert offered <= JobSpec.model_fields.keys()
    # None of them is a field itself, which would never be told.
    assert not wording._ELSEWHERE.keys() & JobSpec.model_fields.keys()
    # What a part has is not meant by a word of the whole job.
    assert "check the spelling" in _problems(stop={"time": 1})["stop.time"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ["x"]),
        ("env", []),
        ("command", {"a": 1}),
        ("code", "x"),
        ("stop", 3),
        ("labels", [1]),
    ],
)
def test_b41_wrong_kinds(field, value):
    assert any(key.split(".")[0] == field for key in _problems(**{field: value}))


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({f"V{n}": "x" for n in range(10_000)}, str(MAX_ENV_COUNT)),
        ({"LD_PRELOAD": "x"}, "LD_PRELOAD is set by Trainyard"),
        ({"PATH": "x"}, "PATH"),
        ({"CUDA_VISIBLE_DEVICES": "0"}, "CUDA_VISIBLE_DEVICES"),
        ({"TRAINYARD_TOKEN": "x"}, "TRAINYARD_TOKEN"),
        ({"A=B": "x"}, "not a variable name"),
        ({"": "x"}, "not a variable name"),
        ({"A": "a\x00b"}, "U+0000"),
        ({"A": "x" * 40_000}, "bytes"),
    ],
)
def test_b60_environment(env, words):
    assert words in _problems(env=env)["env"]


@pytest.mark.parametrize(
    "command", [[], "", "   ", [""], ["x" * 1_000_000], ["a\x00b"], "echo 'open", ["a"] * 2000]
)
def test_b63_commands(command):
    assert "command" in _problems(command=command)


def test_a_job_has_one_program():
    assert "either a command or a script" in _problems(script="true")["command"]
    found = _problems(command=[], script="true", code={"folder": "/srv/code"})
    assert "stands alone" in found["script"]


@pytest.mark.parametrize(
    ("code", "field"),
    [
        ({"folder": "relative"}, "code.folder"),
        ({"folder": "/a/../etc"}, "code.folder"),
        ({"git_url": "ssh://git@host/x"}, "code.git_url"),
        ({"git_url": "https://user:pw@host/x"}, "code.git_url"),
        ({"git_url": "https://"}, "code.git_url"),
        ({"git_url": "http://[::1"}, "code.git_url"),
        ({"git_url": "https://h/x", "git_ref": "--upload-pack=x"}, "code.git_ref"),
        ({"git_ref": "main"}, "code"),
        ({"folder": "/a", "git_url": "https://h/x"}, "code"),
    ],
)
def test_code_that_cannot_be_fetched(code, field):
    assert field in _problems(code=code)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("project", "digits"),
        ("project", "Vision/Digits"),
        ("project", "../../etc"),
        ("pool", "A B"),
        ("tier", "highest"),
        ("working_dir", "~/x"),
        ("checkpoint_dir", "/a/.."),
        ("processes", "8"),
        ("retries", 21),
        ("labels", {"BAD KEY": "x"}),
    ],
)
def test_other_fields(field, value):
    assert field in _problems(**{field: value})


@pytest.mark.parametrize(
    "stop", [{"signal": "SIGKILL"}, {"signal": 9}, {"grace": "2h"}, {"grace": -1}]
)
def test_stop(stop):
    assert any(key.startswith("stop.") for key in _problems(stop=stop))


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from([*GOOD, "env", "nodes", "memory", "stop", "code"]), _json))
def test_nothing_but_a_spec_or_named_problems_comes_out(document):
    try:
        spec = parse_spec({**GOOD, **document})
    except SpecInvalid as refused:
        assert refused.problems
        assert all(problem.field and problem.message for problem in refused.problems)
    else:
        assert parse_spec(spec.document()) == spec


def test_huge_input_is_refused_quickly():
    began = time.perf_counter()
    _problems(script="x" * 5_000_000, name="y" * 5_000_000)
    assert time.perf_counter() - began < 2
