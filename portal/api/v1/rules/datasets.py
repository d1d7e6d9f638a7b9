"""`/datasets/`: data that jobs read, and which nodes hold it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.urls import reverse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.errors import NotFound
from portal.api.operations import ApiView, body_of, operation
from portal.api.parts import PART_QUERY, Part, part_of
from portal.api.shapes import Spelled, viewer_of
from scheduler.models import Dataset
from scheduler.selectors.cluster import get_visible_node
from scheduler.selectors.machines.datasets import (
    found_on_nodes,
    get_visible_dataset,
    visible_datasets,
)
from scheduler.services.sites.datasets import remove_dataset, set_copy, set_dataset


class CopyShape(serializers.Serializer[Any]):
    """What one node holds; null is all of it."""

    node = serializers.CharField()
    held_mib = serializers.IntegerField(allow_null=True)
    told_at = serializers.DateTimeField()


class FoundShape(serializers.Serializer[Any]):
    """What a node's agent found there."""

    node = serializers.CharField()
    held_mib = serializers.IntegerField()


class DatasetShape(serializers.Serializer[Any]):
    """A data set: its copies as operators tell, and as agents found them; the larger counts."""

    name = serializers.CharField()
    size_mib = serializers.IntegerField()
    copies = CopyShape(many=True)
    found = FoundShape(many=True)


class Datasets(Part):
    """All data sets."""

    items = DatasetShape(many=True)


class DatasetBody(serializers.Serializer[Any]):
    """A data set and its size, such as 150GiB."""

    name = serializers.CharField(max_length=63)
    size = Spelled(max_length=32)


class CopyBody(serializers.Serializer[Any]):
    """A node and how much of the data it holds, such as 20GiB: left out all of it, 0 nothing."""

    node = serializers.CharField(max_length=63)
    held = Spelled(max_length=32, required=False, default=None, allow_null=True)


class DatasetList(ApiView):
    """`/datasets/`."""

    @operation(
        "datasets_list",
        "Data sets and which nodes hold them",
        scope="nodes:read",
        query=PART_QUERY,
        reply=Datasets,
    )
    def get(self, request: Request) -> Response:
        return _shown(request)

    @operation(
        "datasets_set",
        "Tell of a data set or its size (operators)",
        scope="nodes:write",
        body=DatasetBody,
        reply=Datasets,
    )
    def post(self, request: Request) -> Response:
        set_dataset(actor=viewer_of(request), **body_of(request, DatasetBody))
        return _shown(request)


class DatasetCopies(ApiView):
    """`/datasets/<name>/copies/`."""

    @operation(
        "datasets_copy",
        "Say how much of a data set a node holds (operators)",
        scope="nodes:write",
        body=CopyBody,
        reply=Datasets,
    )
    def post(self, request: Request, name: str) -> Response:
        sent, actor = body_of(request, CopyBody), viewer_of(request)
        dataset = get_visible_dataset(actor, name)
        try:
            node = get_visible_node(actor, sent["node"])
        except NotFound:
            raise serializers.ValidationError({"node": ["there is no such node"]}) from None
        set_copy(actor=actor, dataset=dataset, node=node, held=sent["held"])
        return _shown(request)


class DatasetRemove(ApiView):
    """`/datasets/<name>/remove/`."""

    @operation(
        "datasets_remove",
        "Forget a data set and its copies (operators)",
        scope="nodes:write",
        reply=Datasets,
    )
    def post(self, request: Request, name: str) -> Response:
        body_of(request)
        actor = viewer_of(request)
        remove_dataset(actor=actor, dataset=get_visible_dataset(actor, name))
        return _shown(request)


def _shown(request: Request) -> Response:
    viewer = viewer_of(request)
    found_by_name = found_on_nodes(viewer)
    part = part_of(
        request,
        visible_datasets(viewer),
        lambda sets: [_show(one, found_by_name.get(one.name, ())) for one in sets],
        path=reverse("api:datasets"),
    )
    return Response(Datasets(part).data)


def _show(one: Dataset, found: Iterable[tuple[str, int]]) -> dict[str, Any]:
    return {
        "name": one.name,
        "size_mib": one.size_mib,
        "copies": [
            {"node": copy.node.name, "held_mib": copy.held_mib, "told_at": copy.told_at}
            for copy in one.copies.all()
        ],
        "found": [{"node": node, "held_mib": mib} for node, mib in found],
    }
