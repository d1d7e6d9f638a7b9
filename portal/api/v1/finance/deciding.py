"""The frame of every decision on something of the books: found, decided, shown as it is now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import User
from portal.api.operations import body_of
from portal.api.shapes import viewer_of
from scheduler.models import Pool
from scheduler.selectors.cluster import get_visible_pool
from scheduler.services.errors import NotFound

Row = TypeVar("Row")
# No number of a row is larger; a larger one would be an error of the database.
MAX_ID = 2**63 - 1


def decided(
    request: Request,
    pk: int,
    find: Callable[[User, int], Row],
    act: Callable[..., Row],
    shape: type[serializers.Serializer[Any]],
    name: str = "row",
    body: type[serializers.Serializer[Any]] | None = None,
) -> Response:
    """Find it as the caller sees it and decide on it with `act`, which takes it by this name."""
    sent = body_of(request, body)
    actor = viewer_of(request)
    row = find(actor, min(pk, MAX_ID))
    return Response(shape(act(actor=actor, **{name: row}, **sent)).data)


def pool_of(actor: User, sent: dict[str, Any]) -> Pool:
    """The pool that a body names, taken out of it; a wrong one is a fault of its field."""
    try:
        return get_visible_pool(actor, sent.pop("pool"))
    except NotFound:
        raise serializers.ValidationError({"pool": ["there is no such pool"]}) from None
