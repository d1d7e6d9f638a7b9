"""Shapes that all nouns share, as the schema shows them."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request

from accounts.models import User

# Exact, as text in JSON.
MONEY: dict[str, Any] = {"max_digits": 30, "decimal_places": 10}


@extend_schema_field({"oneOf": [{"type": "string"}, {"type": "integer"}]})
class Spelled(serializers.CharField):
    """What people spell in several ways, such as 2h or 2..8, and programs may send as a number."""


class ProblemField(serializers.Serializer[Any]):
    """One field and what is wrong with it."""

    field = serializers.CharField()
    message = serializers.CharField()


class Problem(serializers.Serializer[Any]):
    """Why a request was refused (RFC 9457); `code` is stable."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    code = serializers.CharField()
    detail = serializers.CharField()
    errors = ProblemField(many=True)  # type: ignore[assignment]
    facts = serializers.DictField()
    request_id = serializers.CharField()


def viewer_of(request: Request) -> User:
    """The caller; the permission class has let nobody in who is not signed in."""
    if not isinstance(request.user, User):
        raise TypeError("an API view was reached without a user")
    return request.user
