"""Retry rules as people write them, and which of them an end meets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.spec import SpecInvalid, parse_spec
from scheduler.spec.retrying.matching import End, first_met, rule_words
from scheduler.spec.retrying.rules import CLASSES, read_rules
from scheduler.spec.rules import read_rules as read_template_rules
from scheduler.spec.rules import rule_problems
from scheduler.states import EndReason, FailureClass

GOOD = {"name": "train", "project": "vision/digits", "command": "python train.py"}


def spec_of(value):
    return parse_spec({**GOOD, "retry_rules": value})


@pytest.mark.parametrize(
    ("value", "lines"),
    [
        ("exit=75,77:3:wait=60", ["exit=75,77:3:wait=1m"]),
        ("exit=64-70:2\n\nfailure=hang:stop", ["exit=64..70:2", "failure=hang:stop"]),
        ([{"exit": [75, "64..70"], "max": 2}], ["exit=75,64..70:2"]),
        ([{"signal": "kill,11", "max": "2"}], ["signal=SIGKILL,SIGSEGV:2"]),
        ("exit=1:retry:2:wait=1m..1h:log=a: b=c", ["exit=1:2:wait=1m..1h:log=a: b=c"]),
        ("3:log_pattern=timed? out: .*", ["3:log_pattern=timed? out: .*"]),
        ({"failure": "user_code", "max": 1, "wait": None, "log": ""}, ["failure=user_code:1"]),
        ([], []),
        ("", []),
    ],
)
def test_rules_are_read_and_written(value, lines):
    spec = spec_of(value)
    assert [rule.line for rule in spec.retry_rules] == lines
    assert parse_spec(spec.document()) == spec == parse_spec(spec.readable())
    assert spec_of(lines) == spec == spec_of("\n".join(lines))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("exit=1:1\nexit=0:3", "rule 2: '0' is no exit code; write 1 to 255"),
        ("exit=9..3:1", "'9..3' is no exit code"),
        ("exit=75", "rule 1: say how often it may try again, 1 to 20: max: 3"),
        ("exit=75:21", "max is '21'; say how often"),
        ([{"exit": 1, "max": True}], "max is True; say how often"),
        ("3", "has no condition; give one of exit, signal"),
        ([{"log": "  ", "max": 1}], "has no condition"),
        ("exit=1:stop:wait=1m", "stops, so it has no wait; remove that"),
        ("exit=1:signal=9:1", "has both exit and signal; make two rules of it"),
        ("exit=1:exit=2:1", "says exit twice; say it once"),
        ("signal=foo:1", "'foo' is no signal; write it like SIGKILL"),
        ("failure=bad:1", "'bad' is no class; failure is one of user_code"),
        ("exit=1:1:log_pattern=(", "'(' is no pattern of RE2: missing )"),
        ("exit=1:1:wait=25h", "write up to 24h, such as 1m, or 1m..1h"),
        ("exit=1:1:wait=soon", "wait: 'soon' is not a duration"),
        ("exit=1:1:wait=0..5m", "wait begins with nothing"),
        ("exit=1:", "rule 1: say how often"),
        ("exit=:1", "'exit=' says nothing; write it like exit=75,77:3"),
        ([{"exit": 1, "often": 2}], "has the field 'often'; a rule has exit, signal"),
        ([{"log": "a\nb", "max": 1}], "log holds the control character U+000A; remove it"),
        ([{"exit": list(range(1, 50)), "max": 1}], "lists 49 values; write at most 32, or ranges"),
        (["exit=1:1"] * 9, "has 9 rules; at most 8 are allowed"),
        (7, "must be a list of rules; write it like"),
        ([None], "None is no rule; write it like"),
    ],
)
def test_a_refusal_names_the_rule_and_the_remedy(value, said):
    with pytest.raises(SpecInvalid) as caught:
        spec_of(value)
    (problem,) = caught.value.problems
    assert problem.field == "retry_rules" and said in problem.message


def test_a_session_has_none():
    with pytest.raises(SpecInvalid, match="retry_rules: a session is one program"):
        parse_spec({**GOOD, "command": "", "session": "shell", "retry_rules": "exit=1:1"})


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_in_words(text):
    try:
        rules = read_rules(text)
    except ValueError as error:
        assert str(error)
    else:
        assert read_rules("\n".join(one.line for one in rules)) == rules


def met(lines, reason=EndReason.EXIT_CODE, failure=FailureClass.USER_CODE, code=1, log=()):
    found = first_met(read_rules(lines), End(reason, failure, code, lambda: log))
    return (found.number, found.why) if found else None


def test_the_first_rule_wins_that_meets_the_end_in_all_it_asks():
    lines = "exit=75:3\nexit=70..79:stop\nsignal=SIGKILL:1\nfailure=hang:1\nexit=1:1:log=NCCL"
    assert met(lines, code=75) == (1, "exit code 75")
    assert met(lines, code=77) == (2, "exit code 77")
    assert met(lines, code=137) == met(lines, code=-9) == (3, "signal SIGKILL")
    assert met(lines, failure=FailureClass.HANG) == (4, "hang")
    assert met(lines, log=["x", "an NCCL error"]) == (5, "exit code 1 and a line of its log")
    assert met(lines, log=["nccl"]) is None
    assert met("1:log_pattern=^a+b$", log=["aab"]) == (1, "a line of its log")
    assert met("1:log_pattern=^a+b$", log=["aabc"]) is None


def test_the_log_is_read_only_where_a_rule_wants_it():
    def refuse():
        raise AssertionError("nobody asked for the log")

    end = End(EndReason.EXIT_CODE, FailureClass.USER_CODE, 1, refuse)
    assert first_met(read_rules("exit=2:1:log=a\nexit=1:1"), end).number == 2


def test_ends_by_limits_and_nodes_are_met_by_their_class_alone_others_never():
    any_code = "exit=1..255:3\n1:log=a"
    limit = {"reason": EndReason.TIME_LIMIT, "failure": FailureClass.TIMEOUT, "code": 143}
    assert met(any_code, **limit, log=["a"]) is None
    assert met("failure=timeout:2", **limit) == (1, "time limit")
    lost = {"reason": EndReason.NODE_LOST, "failure": FailureClass.INFRA_NODE, "code": None}
    assert met(any_code, **lost, log=["a"]) is None
    assert met("failure=infra_node:stop", **lost) == (1, "node failure")
    assert met(any_code, reason=EndReason.OUT_OF_MEMORY, code=137) == (1, "exit code 137")
    every = f"failure={','.join(CLASSES)}:3"
    for reason in (EndReason.PREEMPTED, EndReason.NODE_DRAINED, EndReason.CANCELLED_BY_USER):
        assert met(every, reason=reason, failure=FailureClass.PREEMPTED) is None


def test_waits_double_up_to_their_bound():
    (growing, fixed, none) = read_rules("exit=1:9:wait=1m..5m\nexit=2:9:wait=90\nexit=3:9")
    assert [growing.wait_before(used) for used in range(5)] == [60, 120, 240, 300, 300]
    assert growing.wait_before(10**6) == 300
    assert {fixed.wait_before(used) for used in range(9)} == {90}
    assert none.wait_before(3) == 0


def test_rules_in_words():
    lines = "exit=75,64..70:2:wait=1m..1h\nfailure=user_resource:stop\nsignal=SEGV:1:log=a: b"
    assert [rule_words(one) for one in read_rules(lines)] == [
        "exit code 75 or 64 to 70: tried again after 1m, twice as long each time up to 1h, "
        "twice at most",
        "not enough resources: not tried again",
        "signal SIGSEGV and “a: b” in its log: tried again, once at most",
    ]


def test_a_template_locks_rules_or_bounds_how_often_they_try_in_all():
    spec = spec_of("exit=75:3\nexit=77:4")
    assert rule_problems(read_template_rules({"retry_rules": "..7"}), {}, spec) == []
    (problem,) = rule_problems(read_template_rules({"retry_rules": "..6"}), {}, spec)
    assert (problem.field, problem.message) == (
        "retry_rules", "must lie in ..6: so the template says")  # fmt: skip
    locked = read_template_rules({"retry_rules": "locked"})
    assert rule_problems(locked, spec.document(), spec) == []
    assert rule_problems(locked, {}, spec)[0].field == "retry_rules"
    with pytest.raises(SpecInvalid, match="one line with others"):
        read_template_rules({"retry_rules": ["exit=1:1\nexit=2:1"]})
