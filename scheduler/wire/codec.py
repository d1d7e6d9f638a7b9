"""Messages to and from JSON, strict: wrong types, wrong sizes and odd numbers are refused.

Fields this version does not know are ignored, missing ones take the message's default, so peers
one or two versions apart understand each other. For the same reason a field that has its default is
not sent: most of a message is that. Readers and writers are made once for each kind of message.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import types
from collections.abc import Callable
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

Message = TypeVar("Message")

MAX_DEPTH = 12
MAX_ITEMS = 20_000
MAX_TEXT = 1024 * 1024
MAX_INT = 2**63 - 1
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_NO_BRACKETS = re.compile(r"[^\[\]{}]+")
_SURROGATE = re.compile("[\ud800-\udfff]")
# As it is written, behind whole backslashes.
_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
_REQUIRED = object()


class WireError(ValueError):
    """A message that cannot be understood; `path` names the field, as in `reports[0].fence`."""

    def __init__(self, path: str, problem: str) -> None:
        self.path = path or "message"
        self.problem = problem
        super().__init__(f"{self.path}: {problem}")


class _Odd(Exception):
    """Something inside a message; its place is put together on the way out."""

    def __init__(self, problem: str, place: str = "") -> None:
        self.problem, self.place = problem, place
        super().__init__(problem)


def prepare(kind: Any) -> None:
    """Make the reader and the writer of a kind now: processes forked from here find them."""
    _reader(kind)
    _writer(kind)


def encode(message: object) -> bytes:
    """A message as compact JSON in UTF-8; what `decode` refuses of a text is sent as `?`.

    A name of odd bytes, or a program's word, would make the whole message one that is refused.
    """
    write = _writer(cast(Any, type(message)))
    text = _ENCODER.encode(write(message) if write else message)
    if "\\u0000" in text:
        text = _NUL.sub(r"\1?", text)
    return text.encode("utf-8", "replace")


def decode(kind: type[Message], raw: bytes) -> Message:
    """Read `raw` as a message of `kind`; raises WireError that names the field."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise WireError("", f"is not UTF-8 (byte {error.start})") from None
    _refuse_depth(text)
    try:
        data = _DECODER.decode(text)
    except WireError:
        raise
    except (ValueError, RecursionError) as error:
        raise WireError("", f"is not JSON: {error}") from None
    try:
        result: Message = _reader(cast(Any, kind))(data)
    except _Odd as odd:
        raise WireError(odd.place.removeprefix("."), odd.problem) from None
    return result


def _refuse_depth(text: str) -> None:
    """Cheap guard before the parser."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = 0
    for bracket in _NO_BRACKETS.sub("", _STRING.sub("", text)):
        if bracket in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise WireError("", f"is nested deeper than {MAX_DEPTH} levels")
        else:
            depth -= 1


def _unique_pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise WireError(key, "appears twice")
            seen.add(key)
    return result


def _no_constant(name: str) -> object:
    raise WireError("", f"{name} is not a number in JSON")


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_DECODER = json.JSONDecoder(object_pairs_hook=_unique_pairs, parse_constant=_no_constant)

Writer = Callable[[Any], Any]
Reader = Callable[[Any], Any]


@cache
def _writer(kind: Any) -> Writer | None:
    """How values of this type become what JSON has; None for those that already are."""
    arguments = get_args(kind)
    if get_origin(kind) in (Union, types.UnionType):
        return _maybe(_writer(next(arg for arg in arguments if arg is not type(None))))
    if get_origin(kind) is tuple:
        return _each(_writer(arguments[0]))
    if dataclasses.is_dataclass(kind):
        return _message_writer(kind)
    if isinstance(kind, type) and issubclass(kind, Enum) and not issubclass(kind, (str, int)):
        return lambda value: value.value
    return None


def _maybe(inner: Writer | None) -> Writer | None:
    return inner and (lambda value: None if value is None else inner(value))


def _each(inner: Writer | None) -> Writer | None:
    return inner and (lambda value: [inner(item) for item in value])


def _message_writer(kind: Any) -> Writer:
    hints = get_type_hints(kind)
    fields = dataclasses.fields(kind)
    rows = [(field.name, _default_of(field), _writer(hints[field.name])) for field in fields]
    # One call for all fields is half of the work; of a single name it would give no tuple.
    values_of = attrgetter("__class__", *(name for name, _, _ in rows))

    def write(message: Any) -> dict[str, Any]:
        return {
            name: inner(value) if inner else value
            for (name, usual, inner), value in zip(rows, values_of(message)[1:], strict=True)
            if value != usual
        }

    return write


def _default_of(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return _REQUIRED


@cache
def _reader(kind: Any) -> Reader:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _optional(kind)
    if origin is tuple:
        return _sequence(get_args(kind)[0])
    if origin is dict:
        return _mapping
    if dataclasses.is_dataclass(kind):
        return _message(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _choice(kind)
    return _SCALARS[kind]


def _optional(kind: Any) -> Reader:
    inner = _reader(next(arg for arg in get_args(kind) if arg is not type(None)))
    return lambda value: None if value is None else inner(value)


def _sequence(item_kind: Any) -> Reader:
    inner = _reader(item_kind)

    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise _Odd("must be a list")
        if len(value) > MAX_ITEMS:
            raise _Odd(f"has more than {MAX_ITEMS} items")
        found: list[Any] = []
        try:
            for item in value:
                found.append(inner(item))
        except _Odd as odd:
            raise _Odd(odd.problem, f"[{len(found)}]{odd.place}") from None
        return tuple(found)

    return read


def _mapping(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise _Odd("must be an object")
    if len(value) > MAX_ITEMS:
        raise _Odd(f"has more than {MAX_ITEMS} items")
    found: dict[str, str] = {}
    for key, item in value.items():
        name = _text(key)
        try:
            found[name] = _text(item)
        except _Odd as odd:
            raise _Odd(odd.problem, f".{name}") from None
    return found


def _message(kind: Any) -> Reader:
    hints = get_type_hints(kind)
    fields = dataclasses.fields(kind)
    readers = {field.name: _reader(hints[field.name]) for field in fields}
    required = [field.name for field in fields if _default_of(field) is _REQUIRED]

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _Odd("must be an object")
        found: dict[str, Any] = {}
        for name, item in value.items():
            inner = readers.get(name)
            if inner is None:
                continue
            try:
                found[name] = inner(item)
            except _Odd as odd:
                raise _Odd(odd.problem, f".{name}{odd.place}") from None
        for name in required:
            if name not in found:
                raise _Odd("is missing", f".{name}")
        return kind(**found)

    return read


def _choice(kind: type[Enum]) -> Reader:
    def read(value: Any) -> Enum:
        try:
            return kind(value)
        except ValueError:
            known = ", ".join(str(member.value) for member in kind)
            raise _Odd(f"must be one of {known}") from None

    return read


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _Odd("must be text")
    if len(value) > MAX_TEXT:
        raise _Odd(f"is longer than {MAX_TEXT} characters")
    if "\x00" in value or not (value.isascii() or _SURROGATE.search(value) is None):
        raise _Odd("holds a NUL or a lone surrogate")
    return value


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _Odd("must be a whole number")
    if abs(value) > MAX_INT:
        raise _Odd("is out of range")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _Odd("must be a number")
    if not math.isfinite(value):
        raise _Odd("must be finite")
    return float(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Odd("must be true or false")
    return value


_SCALARS: dict[Any, Reader] = {str: _text, int: _whole, float: _number, bool: _flag}
