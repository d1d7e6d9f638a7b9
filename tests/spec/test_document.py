"""YAML and JSON text: the traps of both formats are closed."""

from __future__ import annotations

import json
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.spec import SpecInvalid, read_document


def test_yaml_and_json_say_the_same():
    assert read_document("a: 1\nb: [x, y]") == read_document('{"a": 1, "b": ["x", "y"]}')


@pytest.mark.parametrize("text", ["smile \U0001f600", "\u2028\u0085", "\x7f", "tab\t"])
@pytest.mark.parametrize("is_ascii", [True, False])
def test_any_json_is_read_as_json(text, is_ascii):
    document = {"name": text, "nodes": 2, "env": {"A": "1e999"}, "array": None, "hold": True}
    written = json.dumps(document, ensure_ascii=is_ascii, indent="\t")
    assert read_document(f"\n {written}\n") == document


def test_a_mapping_in_braces_may_be_yaml_and_a_text_may_say_so():
    assert read_document("{a: 1, b: [x], c: 'no', }") == {"a": 1, "b": ["x"], "c": "no"}
    assert read_document('{"a": 1e999}') == {"a": "1e999"}
    assert read_document("a: !!str 012\nb: ! x") == {"a": "012", "b": "x"}


def test_what_yaml_would_guess_stays_as_written():
    found = read_document("no: no\ntime: 1:30:00\ncode: 012\nday: 2026-11-20\nyes: true\nn: 3")
    assert found == {
        "no": "no", "time": "1:30:00", "code": "012", "day": "2026-11-20", "yes": True, "n": 3,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: &x [1]\nb: *x", "aliases"),
        ("a: 1\na: 2", "twice"),
        ('{"a": {"b": 1, "b": 2}}', "twice"),
        ('{"a": 1,\t"a": 2}', "twice"),
        ("!!python/object/apply:os.system ['true']", "tag"),
        ("a: !!python/name:os.system", "tag"),
        ("a: !!bool foo", "tag"),
        ("a: !!int ''", "tag"),
        ("a: !!timestamp x", "tag"),
        ("a: !!binary aGk=", "tag"),
        ("a: !!set {b}", "tag"),
        ("a: !!str [b]", "scalar"),
        ('{"a": ' * 5000 + "1" + "}" * 5000, "deep"),
        ('{"a": ' * 17 + "1" + "}" * 17, "deep"),
        ('{"a": [' + "1," * 10_000 + "1]}", "too large"),
        ("[" * 5000, "deep"),
        ("- a\n- b", "name fields with their values"),
        ("just words", "name fields with their values"),
        ("", "name fields with their values"),
        ('{"a": ', "line 1"),
        ("a:\n\t- b", "line 2"),
        ("a: 1\n---\nb: 2", "document"),
        ("a: \x00", "not"),
        ("x: " + "y" * 300_000, "256 KiB"),
    ],
)
def test_b71_is_refused_with_a_place(text, words):
    with pytest.raises(SpecInvalid) as caught:
        read_document(text)
    (problem,) = caught.value.problems
    assert problem.field == "document"
    assert words in problem.message


def test_a_byte_order_mark_is_no_key():
    assert read_document("\ufeffname: x") == {"name": "x"}


def test_a_bomb_is_refused_quickly():
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "\n".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]" for n in range(9)
    )
    began = time.perf_counter()
    with pytest.raises(SpecInvalid):
        read_document(bomb)
    assert time.perf_counter() - began < 0.5


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=200))
def test_any_text_gives_a_mapping_or_a_refusal(text):
    try:
        assert isinstance(read_document(text), dict)
    except SpecInvalid as refused:
        assert refused.problems


def test_a_tab_and_a_line_that_is_no_field_are_named_in_plain_words():
    for text, words in (
        ("name: a\n\tcommand: x\n", "a tab, where YAML takes spaces alone (line 2, column 1)"),
        ("python train.py --epochs 4\n", "such as time_limit: 2h"),
    ):
        with pytest.raises(SpecInvalid, match=re.escape(words)):
            read_document(text)
