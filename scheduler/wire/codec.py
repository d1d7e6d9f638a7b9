"""Messages to and from JSON, strict: wrong types, wrong sizes and odd numbers are refused.

Fields this version does not know are ignored, missing ones take the message's default, so peers
one or two versions apart understand each other.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import types
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

Message = TypeVar("Message")

MAX_DEPTH = 12
MAX_ITEMS = 20_000
MAX_TEXT = 1024 * 1024
MAX_INT = 2**63 - 1
_STRING_OR_BRACKET = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{\]}]', re.DOTALL)
_AS_THEY_ARE = (str, int, float, bool)
_SURROGATE = re.compile("[\ud800-\udfff]")


class WireError(ValueError):
    """A message that cannot be understood; `path` names the field, as in `reports[0].fence`."""

    def __init__(self, path: str, problem: str) -> None:
        self.path = path or "message"
        self.problem = problem
        super().__init__(f"{self.path}: {problem}")


def encode(message: object) -> bytes:
    """A message as compact JSON in UTF-8."""
    return json.dumps(
        _plain(message), ensure_ascii=False, separators=(",", ":"), allow_nan=False
    ).encode("utf-8", "surrogatepass")


def decode(kind: type[Message], raw: bytes) -> Message:
    """Read `raw` as a message of `kind`; raises WireError that names the field."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise WireError("", f"is not UTF-8 (byte {error.start})") from None
    _refuse_depth(text)
    try:
        data = json.loads(text, object_pairs_hook=_unique_pairs, parse_constant=_no_constant)
    except WireError:
        raise
    except (ValueError, RecursionError) as error:
        raise WireError("", f"is not JSON: {error}") from None
    result: Message = _reader(cast(Any, kind))(data, "")
    return result


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def _plain(value: object) -> object:
    if value is None or type(value) in _AS_THEY_ARE:
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: _plain(getattr(value, name)) for name in _names(type(value))}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return value


def _refuse_depth(text: str) -> None:
    """Cheap guard before the parser."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = 0
    for found in _STRING_OR_BRACKET.finditer(text):
        first = found[0][0]
        if first in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise WireError("", f"is nested deeper than {MAX_DEPTH} levels")
        elif first in "]}":
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


Reader = Callable[[Any, str], Any]


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
    return lambda value, path: None if value is None else inner(value, path)


def _sequence(item_kind: Any) -> Reader:
    inner = _reader(item_kind)

    def read(value: Any, path: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise WireError(path, "must be a list")
        if len(value) > MAX_ITEMS:
            raise WireError(path, f"has more than {MAX_ITEMS} items")
        return tuple(inner(item, f"{path}[{index}]") for index, item in enumerate(value))

    return read


def _mapping(value: Any, path: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise WireError(path, "must be an object")
    if len(value) > MAX_ITEMS:
        raise WireError(path, f"has more than {MAX_ITEMS} items")
    return {_text(key, path): _text(item, f"{path}.{key}") for key, item in value.items()}


def _message(kind: Any) -> Reader:
    hints = get_type_hints(kind)
    fields = [(f, _reader(hints[f.name])) for f in dataclasses.fields(kind)]

    def read(value: Any, path: str) -> Any:
        if not isinstance(value, Mapping):
            raise WireError(path, "must be an object")
        found: dict[str, Any] = {}
        for spec, inner in fields:
            where = f"{path}.{spec.name}" if path else spec.name
            if spec.name in value:
                found[spec.name] = inner(value[spec.name], where)
            elif (
                spec.default is dataclasses.MISSING and spec.default_factory is dataclasses.MISSING
            ):
                raise WireError(where, "is missing")
        return kind(**found)

    return read


def _choice(kind: type[Enum]) -> Reader:
    def read(value: Any, path: str) -> Enum:
        try:
            return kind(value)
        except ValueError:
            known = ", ".join(str(member.value) for member in kind)
            raise WireError(path, f"must be one of {known}") from None

    return read


def _text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise WireError(path, "must be text")
    if len(value) > MAX_TEXT:
        raise WireError(path, f"is longer than {MAX_TEXT} characters")
    if "\x00" in value or not (value.isascii() or _SURROGATE.search(value) is None):
        raise WireError(path, "holds a NUL or a lone surrogate")
    return value


def _whole(value: Any, path: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise WireError(path, "must be a whole number")
    if abs(value) > MAX_INT:
        raise WireError(path, "is out of range")
    return value


def _number(value: Any, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise WireError(path, "must be a number")
    if not math.isfinite(value):
        raise WireError(path, "must be finite")
    return float(value)


def _flag(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise WireError(path, "must be true or false")
    return value


_SCALARS: dict[Any, Reader] = {str: _text, int: _whole, float: _number, bool: _flag}
