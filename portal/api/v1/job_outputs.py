"""The files a job left in its output folder: their list, and their bytes."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponseBase
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.operations import ApiView, Query, operation, whole
from portal.api.parts import PART_QUERY, Part, part_of
from portal.api.shapes import viewer_of
from portal.reports.downloads import as_download
from scheduler.models import OutputFile
from scheduler.selectors import jobs as select
from scheduler.selectors.kept.outputs import get_output, outputs_of

_MAX = 2**53


class OutputShape(serializers.Serializer[Any]):
    """A file by its name below the folder. `state`: whole, arriving, away, refused or pruned."""

    id = serializers.IntegerField()
    rank = serializers.IntegerField()
    attempt = serializers.IntegerField()
    name = serializers.CharField()
    size = serializers.IntegerField()
    sha256 = serializers.CharField()
    state = serializers.CharField(
        help_text="whole, arriving, away (on a node that is not heard), refused or pruned"
    )
    problem = serializers.CharField()
    completed_at = serializers.DateTimeField(allow_null=True)
    pruned_at = serializers.DateTimeField(allow_null=True)


class OutputsShape(Part):
    """Files of a job."""

    items = OutputShape(many=True)


def show_output(row: OutputFile) -> dict[str, Any]:
    """A row as OutputShape has it."""
    return {
        "id": row.pk,
        "rank": row.rank,
        "attempt": row.placement.attempt.number,
        "name": row.name,
        "size": row.size,
        "sha256": row.digest,
        "state": row.word,
        "problem": row.problem,
        "completed_at": row.completed_at,
        "pruned_at": row.pruned_at,
    }


class JobOutputs(ApiView):
    """`/jobs/<id>/outputs/`."""

    @operation(
        "jobs_outputs",
        "Files it left",
        scope="logs:read",
        query=PART_QUERY,
        reply=OutputsShape,
    )
    def get(self, request: Request, pk: int) -> Response:
        """What lay in the output folder at the end of its last attempt on each node."""
        viewer = viewer_of(request)
        found = outputs_of(viewer, select.get_visible_job(viewer, pk))
        return Response(
            part_of(request, found.files, lambda files: [show_output(row) for row in files])
        )


class JobOutput(ApiView):
    """`/jobs/<id>/outputs/<file>/`."""

    @operation(
        "jobs_output",
        "Bytes of a file it left",
        scope="logs:read",
        query=[Query("offset", int, "The first byte to send, from 0: to go on where it broke.")],
        reply=bytes,
    )
    def get(self, request: Request, pk: int, number: int) -> HttpResponseBase:
        """All its bytes from `offset` on. X-Content-SHA256 is the digest of the whole file."""
        viewer = viewer_of(request)
        row = get_output(viewer, select.get_visible_job(viewer, pk), number)
        offset = whole(request, "offset", 0, low=0, high=_MAX)
        return as_download(row, offset)
