"""Rules of templates: what is locked stays, what is bounded stays within, all else is free."""

from __future__ import annotations

import pytest

from scheduler.spec import SpecInvalid, parse_spec
from scheduler.spec.partial import read_partial
from scheduler.spec.rules import (
    read_rule_lines,
    read_rules,
    rule_problems,
    rule_words,
    written_rules,
)
from scheduler.spec.schema import JobSpec

JOB = {"name": "x", "project": "vision/digits", "script": "true"}


@pytest.mark.parametrize(
    ("rules", "good", "bad"),
    [
        ({"gpus_per_node": "1..4"}, {"gpus_per_node": 4}, {"gpus_per_node": 5}),
        ({"nodes": "2.."}, {"nodes": "2..8"}, {"nodes": "1..8"}),
        ({"nodes": "..4"}, {"nodes": "1..4"}, {"nodes": "1..5"}),
        ({"time_limit": "30m..12h"}, {"time_limit": "12h"}, {"time_limit": "12h1s"}),
        ({"memory": "..64GiB"}, {"memory": "64GiB"}, {"memory": "65GiB"}),
        ({"tier": "normal, urgent"}, {"tier": "urgent"}, {"tier": "exploratory"}),
        ({"gpus_per_node": [1, "2"]}, {"gpus_per_node": 2}, {"gpus_per_node": 3}),
        ({"time_limit": "1h, 2h"}, {"time_limit": 3600}, {"time_limit": "90m"}),
        ({"tier": "locked"}, {"tier": "urgent"}, {}),
        ({"retries": "locked"}, {"tier": "urgent"}, {"tier": "urgent", "retries": 1}),
        ({"env": "locked"}, {"env": {"A": "1"}}, {"env": {"A": "1", "B": "2"}}),
        ({"stop": "locked"}, {"stop": {"grace": "1m"}}, {"stop": {"grace": "2m"}}),
        ({"preemptible": "locked"}, {}, {"preemptible": False}),
        ({"max_cost": "..12.5"}, {"max_cost": "12.50"}, {"max_cost": "12.51"}),
        ({"max_cost": "1..50"}, {"max_cost": 1}, {}),
        ({"group": "locked"}, {}, {"group": "mine"}),
        ({"group": "eval, night"}, {"group": "night"}, {"group": "mine"}),
        (
            {"group_policy": "wait, stop"},
            {"group": "a", "group_policy": "stop"},
            {"group": "a", "group_policy": "beside"},
        ),
        ({"max_cost": "10, 20"}, {"max_cost": "10.0"}, {"max_cost": 15}),
    ],
)
def test_a_rule_lets_in_what_it_says_and_nothing_else(rules, good, bad):
    read = read_rules(rules)
    assert read_rules(written_rules(read)) == read
    fields = {"tier": "urgent", "env": {"A": "1"}, "stop": {"grace": "1m"}}
    document = read_partial(fields).document
    [field] = rules
    assert rule_problems(read, document, parse_spec({**JOB, **good})) == []
    assert [one.field for one in rule_problems(read, document, parse_spec({**JOB, **bad}))] == [
        field
    ]


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"nonsense": "locked"}, "not a field"),
        ({"name": "locked"}, "not a field"),
        ({"tier": "1..2"}, "no range"),
        ({"gpus_per_node": "8..1"}, "is no range"),
        ({"gpus_per_node": ".."}, "is no range"),
        ({"gpus_per_node": "1..many"}, "whole number"),
        ({"max_cost": "..much"}, "amount of money"),
        ({"tier": "normal, huge"}, "must be one of"),
        ({"tier": ""}, "must be one of"),
        ({"tier": {"a": 1}}, "is no rule"),
        ({"cpus": list(range(1, 99))}, "is no rule"),
        ({f"f{n}": "locked" for n in range(99)}, "more than 64"),
    ],
)
def test_a_rule_without_sense_is_refused_by_name(rules, words):
    with pytest.raises(SpecInvalid, match=words) as caught:
        read_rules(rules)
    assert caught.value.problems[0].field.startswith("rules")


@pytest.mark.parametrize(
    ("field", "sent", "good"),
    [
        ("gpu_milli", "0.25, 0.5", 250),
        ("gpu_milli", [250, 1.0], "0.25"),
        ("session", "shell, jupyter", "jupyter"),
        ("topology", "rack, block:preferred", "rack"),
        ("secrets", "hub-token, other", ["other"]),
        ("licences", "solver=2, viewer", {"viewer": 1}),
        ("datasets", "imagenet, c4", "c4"),
        ("constraints", "network=ib", ["network=ib"]),
        ("exclude_nodes", "n1, n2", ["n2"]),
        ("node_sizes", "2, 4", [4]),
        ("array", "0-9, 0-9%2", "0-9"),
        ("begin", "2099-01-01 08:00", "2099-01-01T08:00:00Z"),
        ("gpu_models", "H100, A100", ["A100"]),
        ("gpu_models", [["H100"], []], []),
        ("depends_on", "singleton, 12", 12),
        ("command", "python train.py, 'a b'", ["a b"]),
        ("fallback_after", "1h, 90m", 5400),
        ("preemptible", "true, false", False),
        ("pool", ["", "big"], "big"),
        ("other_pools", "big, old", "big"),
        ("nodes", [2, "4"], 4),
    ],
)
def test_choices_are_written_as_their_field_is(field, sent, good):
    read = read_rules({field: sent})
    line = f"{field}: {written_rules(read)[field]}"
    assert read_rules(read_rule_lines(line)) == read
    beside = {"node_sizes": {"nodes": "2..4"}, "fallback_after": {"gpu_models": ["A", "B"]}}
    value = read_partial({**beside.get(field, {}), field: good}).document[field]
    assert value in read[field]["choices"]


@pytest.mark.parametrize(
    ("field", "sent"),
    [
        ("nodes", ["2..8"]),
        ("description", ["a, b"]),
        ("script", ["a\nb"]),
        ("pool", ["locked"]),
        ("pool", [""]),
        ("gpu_models", [["H100", "A100"]]),
        ("env", [{"A": "1"}]),
        ("stop", [{"grace": "1m"}]),
        ("session", [{"app": "shell", "idle_stop": "1m"}]),
    ],
)
def test_a_choice_that_is_no_part_of_a_line_is_refused(field, sent):
    with pytest.raises(SpecInvalid, match="in one line with others; write") as caught:
        read_rules({field: sent})
    assert caught.value.problems[0].field == f"rules.{field}"


def test_rules_are_read_from_lines():
    lines = "tier: locked\n\n pool : default, h100 \ntime_limit: ..12h\n"
    read = read_rule_lines(lines)
    assert read == {"tier": "locked", "pool": "default, h100", "time_limit": "..12h"}
    for text in ("tier", "tier:", "tier: locked\ntier: normal"):
        with pytest.raises(SpecInvalid, match="line"):
            read_rule_lines(text)


def test_every_field_can_be_locked_at_its_default():
    spec = parse_spec({**JOB, "command": "", "script": "true"})
    for field in JobSpec.model_fields.keys() - {"apiVersion", "kind", "name", "project", "script"}:
        assert rule_problems(read_rules({field: "locked"}), {}, spec) == [], field


def test_people_are_told_in_words():
    told = {
        "script": "locked",
        "gpus_per_node": "1..8",
        "nodes": "2..",
        "time_limit": "..12h",
        "max_cost": "..50",
        "tier": ["urgent", "normal"],
        "memory": ["64GiB"],
    }
    assert rule_words(read_rules(told)) == {
        "script": "locked",
        "gpus_per_node": "1 to 8",
        "nodes": "2 at least",
        "time_limit": "12h at most",
        "max_cost": "50.00 at most",
        "tier": "urgent, normal",
        "memory": "64GiB",
    }
