"""Bodies in: strict JSON for everything, YAML where a job spec is expected.

Stricter than `json.loads`: no duplicate keys, no NaN or Infinity, no deep nesting, no NUL and no
lone surrogates, nothing after the document. Each refusal says what and where.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import IO, Any
from urllib.parse import unquote_to_bytes

from django.conf import settings
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.fields import CharField, DictField, Field, ListField
from rest_framework.parsers import BaseParser

from portal.api.errors import BadRequest, TooLarge
from portal.api.shapes import Spelled
from scheduler.spec import read_document

MAX_DEPTH = 32
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{\]}]', re.DOTALL)
_SUSPECT = re.compile(r"\\u0000|\\u[dD][89a-fA-F]|\x00")


class StrictJSONParser(BaseParser):
    """JSON as the module describes it."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """The body as plain values; raises BadRequest (400) or TooLarge (413)."""
        return read_json(_text(stream, media_type, parser_context))


class YAMLParser(BaseParser):
    """A job spec as YAML; raises SpecInvalid for what is not."""

    media_type = "application/yaml"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        return read_document(_text(stream, media_type, parser_context))


def read_json(text: str) -> Any:
    """One JSON document; raises BadRequest."""
    _refuse_depth(text)
    try:
        value = json.loads(
            text,
            object_pairs_hook=_unique_pairs,
            parse_constant=_no_constant,
            parse_float=_finite,
        )
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise BadRequest(f"The body is not JSON: {error.msg} ({where}).", code="not_json") from None
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"The body is not JSON: {error}.", code="not_json") from None
    if _SUSPECT.search(text):
        _refuse_odd_text(value, "")
    return value


def _text(stream: IO[Any], media_type: str | None, parser_context: Mapping[str, Any] | None) -> str:
    request = (parser_context or {}).get("request")
    meta: Mapping[str, str] = request.META if request is not None else {}
    if meta.get("HTTP_CONTENT_ENCODING", "identity").lower() not in ("", "identity"):
        raise UnsupportedMediaType("", "Send the body uncompressed, without Content-Encoding.")
    charset = re.search(r"charset\s*=\s*\"?([\w-]+)", media_type or "", re.IGNORECASE)
    if charset and charset[1].lower() not in ("utf-8", "utf8"):
        raise UnsupportedMediaType("", "Send the body in UTF-8.")
    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    declared = meta.get("CONTENT_LENGTH") or "0"
    too_large = TooLarge(f"The body is larger than {limit // 1024} KiB.")
    if declared.isdigit() and int(declared) > limit:
        raise too_large
    raw = stream.read(limit + 1)
    if len(raw) > limit:
        raise too_large
    try:
        return str(raw, "utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest(f"The body is not UTF-8 (byte {error.start}).", code="not_utf8") from None


def _refuse_depth(text: str) -> None:
    """Before the parser recurses: stops at the first bracket that is too deep."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = 0
    for match in _TOKENS.finditer(text):
        sign = match[0]
        if sign in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise BadRequest(
                    f"The body is nested deeper than {MAX_DEPTH} levels.", code="too_deep"
                )
        elif sign in "]}":
            depth -= 1


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise BadRequest(
                    f"The key {key[:64]!r} appears twice.",
                    code="duplicate_key",
                    errors=[(key[:64], "appears twice; send it once")],
                )
            seen.add(key)
    return found


def is_utf8(query: str) -> bool:
    """Whether the bytes behind the escapes of a query string are text."""
    try:
        unquote_to_bytes(query.encode("latin-1", "replace")).decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def numbers_for_texts(
    fields: Mapping[str, Field[Any, Any, Any, Any]], sent: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """(field, message) of all numbers that stand where the schema says text; the framework would
    take their digits."""
    for name, value in sent.items():
        yield from _numbers_in(fields[name], value, name)


def _numbers_in(
    field: Field[Any, Any, Any, Any], value: Any, name: str
) -> Iterator[tuple[str, str]]:
    if isinstance(field, ListField) and isinstance(value, list):
        for index, one in enumerate(value):
            yield from _numbers_in(field.child, one, f"{name}[{index}]")
    elif isinstance(field, DictField) and isinstance(value, Mapping):
        for key, one in value.items():
            yield from _numbers_in(field.child, one, f"{name}.{key[:64]}")
    elif isinstance(field, CharField):
        digits = float if isinstance(field, Spelled) else int | float
        if isinstance(value, digits):
            yield name, "must be a text; write it in quotes"


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number in JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:32]} is out of range")
    return value


def _refuse_odd_text(value: Any, path: str) -> None:
    """Raise BadRequest for a NUL or half a surrogate pair, naming the field."""
    if isinstance(value, str):
        if "\x00" in value or any("\ud800" <= char <= "\udfff" for char in value):
            shown = path or "body"
            raise BadRequest(
                "The body holds a NUL character or half a surrogate pair.",
                code="odd_text",
                errors=[(shown, "holds a NUL character or half a surrogate pair; remove it")],
            )
    elif isinstance(value, dict):
        for key, inner in value.items():
            _refuse_odd_text(key, path)
            _refuse_odd_text(inner, f"{path}.{key}".strip("."))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _refuse_odd_text(inner, f"{path}[{index}]")
