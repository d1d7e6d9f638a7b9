"""The codec: what was said is heard, and nothing else ever gets through."""

from __future__ import annotations

import dataclasses
import json
from enum import Enum
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler.wire import codec
from scheduler.wire.codec import WireError, decode, encode
from scheduler.wire.messages import (
    AttemptReport,
    EnrolReply,
    EnrolRequest,
    LogAck,
    Refusal,
    SyncReply,
    SyncRequest,
)

KINDS = (EnrolRequest, EnrolReply, SyncRequest, SyncReply, LogAck, Refusal)
TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=20)
SCALARS = {
    str: TEXT,
    int: st.integers(-(2**63) + 1, 2**63 - 1),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
}


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Any value a field of this type may hold."""
    arguments = get_args(kind)
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind)
        fields = {field.name: values_of(hints[field.name]) for field in dataclasses.fields(kind)}
        return st.builds(kind, **fields)
    if get_origin(kind) is tuple:
        return st.lists(values_of(arguments[0]), max_size=3).map(tuple)
    if get_origin(kind) is dict:
        return st.dictionaries(TEXT, TEXT, max_size=3)
    if type(None) in arguments:
        return st.none() | values_of(next(arg for arg in arguments if arg is not type(None)))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return st.sampled_from(list(kind))
    return SCALARS[kind]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner),
    max_leaves=25,
)
FIELD_NAMES = sorted({field.name for kind in KINDS for field in dataclasses.fields(kind)})
NEAR_MISSES = st.dictionaries(st.sampled_from(FIELD_NAMES), JSON, max_size=12)


@given(st.sampled_from(KINDS).flatmap(lambda kind: st.tuples(st.just(kind), values_of(kind))))
def test_what_was_said_is_heard(said: tuple[Any, Any]) -> None:
    kind, message = said
    assert decode(kind, encode(message)) == message


@given(st.text(max_size=20))
@example("a\x00\\\x00\\\\\x00\\u0000")
@example("\udcff\ud83d")
def test_whatever_is_said_can_be_heard(text: str) -> None:
    """Names of files and words of programs hold anything; one of them must not spoil a message."""
    heard = decode(Refusal, encode(Refusal(text, text, {"text": text})))
    kept = "".join("?" if one == "\0" or "\ud800" <= one <= "\udfff" else one for one in text)
    assert heard == Refusal(kept, kept, {"text": kept})


@given(st.sampled_from(KINDS), JSON | NEAR_MISSES)
def test_any_json_is_heard_or_refused_by_name(kind: Any, value: Any) -> None:
    raw = json.dumps(value).encode("utf-8", "surrogatepass")
    try:
        assert isinstance(decode(kind, raw), kind)
    except WireError as problem:
        assert problem.path and problem.problem


@given(st.sampled_from(KINDS), st.binary(max_size=200))
@example(SyncReply, b"\xff\xfe")
@example(SyncReply, b"")
@example(SyncReply, b"[" * 100_000)
@example(LogAck, b'{"size":' + b"9" * 10_000 + b"}")
@example(LogAck, b'{"size":1e999}')
@example(Refusal, b'{"code":"\\ud800","detail":""}')
def test_any_bytes_are_heard_or_refused(kind: Any, raw: bytes) -> None:
    try:
        decode(kind, raw)
    except WireError as problem:
        assert str(problem)


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        (LogAck, '{"size":1,"size":2}', "size: appears twice"),
        (LogAck, '{"size":true}', "size: must be a whole number"),
        (LogAck, '{"size":1.0}', "size: must be a whole number"),
        (LogAck, '{"size":"1"}', "size: must be a whole number"),
        (LogAck, '{"size":9223372036854775808}', "size: is out of range"),
        (LogAck, '{"size":NaN}', "message: NaN is not a number in JSON"),
        (LogAck, "{}", "size: is missing"),
        (LogAck, "[]", "message: must be an object"),
        (LogAck, '{"size":' + "[" * 13, "message: is nested deeper than 12 levels"),
        (Refusal, '{"code":1,"detail":""}', "code: must be text"),
        (Refusal, '{"code":"a\\u0000","detail":""}', "code: holds a NUL or a lone surrogate"),
        (Refusal, '{"code":"","detail":"","facts":{"n":1}}', "facts.n: must be text"),
        (Refusal, '{"code":"","detail":"","facts":[]}', "facts: must be an object"),
        (
            AttemptReport,
            '{"fence":1,"rank":0,"state":"sleeping"}',
            "state: must be one of assigned, starting, running, stopping, ended",
        ),
        (
            SyncReply,
            '{"protocol":1,"revision":1,"node_state":"ready","forget":[1,"2"]}',
            "forget[1]: must be a whole number",
        ),
        (
            SyncReply,
            '{"protocol":1,"revision":1,"node_state":"ready","assignments":[{"fence":1}]}',
            "assignments[0].job_id: is missing",
        ),
    ],
)
def test_a_refusal_names_the_field_and_the_fault(kind: Any, text: str, words: str) -> None:
    with pytest.raises(WireError) as caught:
        decode(kind, text.encode())
    assert words in str(caught.value)


def test_unknown_fields_are_ignored_and_missing_ones_take_their_default() -> None:
    raw = b'{"fence":4,"rank":0,"state":"ended","mood":"good"}'
    assert decode(AttemptReport, raw).log_size == 0


def test_lists_and_texts_have_bounds() -> None:
    head = '{"protocol":1,"revision":1,"node_state":"ready","forget":['
    raw = head + ",".join(["1"] * (codec.MAX_ITEMS + 1)) + "]}"
    with pytest.raises(WireError, match="forget: has more than"):
        decode(SyncReply, raw.encode())
    long = json.dumps({"code": "x" * (codec.MAX_TEXT + 1), "detail": ""})
    with pytest.raises(WireError, match="code: is longer than"):
        decode(Refusal, long.encode())


def test_odd_numbers_are_never_sent() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode({"at": float("nan")})
