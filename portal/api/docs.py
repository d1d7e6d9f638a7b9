"""The OpenAPI document, and a page that shows it to people without any foreign host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from drf_spectacular.contrib.pydantic import PydanticExtension
from drf_spectacular.generators import SchemaGenerator
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.auth import ANY_SCOPE
from portal.api.operations import ApiView, operation
from scheduler.spec import units

_OPENAPI = "application/vnd.oai.openapi+json"
# Letters of what is looked for.
_MOST_ASKED = 100
_VERBS = ("get", "post", "put", "patch", "delete")


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter or a body's field, as a row of a table."""

    name: str
    place: str
    kind: str
    about: str
    is_required: bool


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation as the page shows it."""

    name: str
    verb: str
    address: str
    summary: str
    about: str
    fields: tuple[Field, ...]
    reply: str
    reply_fields: tuple[Field, ...]

    def is_about(self, words: list[str]) -> bool:
        """Whether each of the words, in small letters, stands in what the page shows unopened."""
        said = f"{self.verb} {self.address} {self.name} {self.summary}".lower()
        return all(word in said for word in words)


_SPELLED = {
    "time_limit": units.DURATION_HELP,
    "grace": units.DURATION_HELP,
    "memory": units.SIZE_HELP,
}
_LIMITS = {"ge": "minimum", "le": "maximum"}


class SpecExtension(PydanticExtension):
    """The job spec as it may be sent: durations and sizes also as people write them."""

    target_class = "scheduler.spec.schema.JobSpec"
    match_subclasses = False
    priority = 1

    def map_serializer(self, auto_schema: Any, direction: str) -> dict[str, Any]:
        """The spec's own JSON Schema, in OpenAPI's words."""
        shape: dict[str, Any] = super().map_serializer(auto_schema, direction)
        for component in auto_schema.registry._components.values():
            _reword(component.schema)
        _reword(shape)
        return shape


def _reword(shape: dict[str, Any]) -> None:
    for name, one in (shape or {}).get("properties", {}).items():
        for ours, theirs in _LIMITS.items():
            if ours in one:
                one[theirs] = one.pop(ours)
        if name in _SPELLED and one.get("type") == "integer":
            number = {key: one.pop(key) for key in ("type", *_LIMITS.values()) if key in one}
            one["oneOf"] = [number, {"type": "string"}]
            one["description"] = _SPELLED[name][:1].upper() + _SPELLED[name][1:] + "."


@cache
def schema() -> dict[str, Any]:
    """The OpenAPI 3 document; the same for everybody, so it is made once a process."""
    document: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    return document


class Schema(ApiView):
    """`/schema/`: needs no sign-in, it holds nothing but the product's own description."""

    authentication_classes = []
    permission_classes = [AllowAny]

    @operation("schema_read", "This description", scope=ANY_SCOPE, reply=dict, reply_type=_OPENAPI)
    def get(self, request: Request) -> Response:
        return Response(schema(), content_type=_OPENAPI)


@login_required
@require_safe
def docs_page(request: HttpRequest) -> HttpResponse:
    """The API for reading: every operation with its fields and its reply; `?q=`: those whose
    address or summary has all these words."""
    asked = " ".join(request.GET.get("q", "").split())[:_MOST_ASKED]
    found = [one for one in _operations() if one.is_about(asked.lower().split())]
    groups: dict[str, list[Operation]] = {"jobs": []}  # what most people look for comes first
    for one in found:
        groups.setdefault(one.address.split("/")[3], []).append(one)
    shown = {
        "groups": {name: operations for name, operations in groups.items() if operations},
        "asked": asked,
        "found": len(found),
        "count": len(_operations()),
        "address": settings.PUBLIC_URL,
    }
    return render(request, "api/docs.html", shown)


@cache
def _operations() -> tuple[Operation, ...]:
    return tuple(_read_operations())


def _read_operations() -> Iterator[Operation]:
    for address, verbs in schema()["paths"].items():
        for verb in _VERBS:
            found = verbs.get(verb)
            if found is None:
                continue
            status, reply, shape = _reply(found["responses"])
            yield Operation(
                name=found["operationId"],
                verb=verb.upper(),
                address=address,
                summary=found.get("summary", ""),
                about=found.get("description", ""),
                fields=(*_parameters(found), *_body_fields(found)),
                reply=f"{status} {reply}".strip(),
                reply_fields=_fields_of(shape, "reply"),
            )


def _parameters(found: dict[str, Any]) -> Iterator[Field]:
    for one in found.get("parameters", ()):
        yield Field(
            one["name"],
            one["in"],
            _kind(one.get("schema", {})),
            one.get("description", ""),
            one.get("required", False),
        )


def _body_fields(found: dict[str, Any]) -> tuple[Field, ...]:
    content = found.get("requestBody", {}).get("content", {})
    return _fields_of(content.get("application/json", {}).get("schema", {}), "body")


def _reply(responses: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    status = min(responses, key=lambda text: (text != "201", text))
    content: dict[str, Any] = responses[status].get("content", {})
    first: dict[str, Any] = next(iter(content.values()), {})
    shape = first.get("schema", {})
    return status, _kind(shape) if shape else "", shape


def _fields_of(shape: dict[str, Any], place: str) -> tuple[Field, ...]:
    shape = _resolved(shape)
    required = set(shape.get("required", ()))
    return tuple(
        Field(name, place, _kind(one), one.get("description", ""), name in required)
        for name, one in shape.get("properties", {}).items()
    )


def _resolved(shape: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in shape:
        shape = schema()["components"]["schemas"][shape["$ref"].rsplit("/", 1)[-1]]
    return shape


def _kind(shape: dict[str, Any]) -> str:
    """A type in words: `integer`, `list of JobRow`, `one of a, b`."""
    if "$ref" in shape:
        named = _resolved(shape)
        return _kind(named) if "enum" in named else str(shape["$ref"].rsplit("/", 1)[-1])
    for several in ("allOf", "oneOf", "anyOf"):
        if several in shape:
            kinds = [_kind(one) for one in shape[several]]
            return " or ".join(kind for kind in kinds if kind not in ("", "null"))
    if "enum" in shape:
        return "one of " + ", ".join(str(one) for one in shape["enum"] if one is not None)
    if "const" in shape:
        return str(shape["const"])
    if shape.get("type") == "array":
        return f"list of {_kind(shape.get('items', {}))}"
    kind = shape.get("format") or shape.get("type") or "any"
    return " or ".join(one for one in kind if one != "null") if isinstance(kind, list) else kind
