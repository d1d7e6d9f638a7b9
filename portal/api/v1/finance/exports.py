"""Files of reports that are made in the background: asked for, looked after, fetched."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponseBase
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal import limits
from portal.api.errors import BadRequest
from portal.api.operations import ApiView, Header, body_of, operation, refuse_fast
from portal.api.parts import PART_QUERY, Part, part_of
from portal.api.shapes import viewer_of
from portal.api.v1.finance.deciding import MAX_ID
from portal.reports.books.asks import parse_wish
from portal.reports.books.making import ask_file, send_kept
from scheduler.selectors.kept.reports import get_report_file, report_files_of


class FileShape(serializers.Serializer[Any]):
    """`made_at` is null while it is made, `rows` and `bytes` say how far it is; `problem` says why
    it never was.
    """

    id = serializers.IntegerField()
    slug = serializers.CharField()
    period = serializers.CharField()
    period_version = serializers.IntegerField(source="version")
    format = serializers.CharField(source="file_format")
    query = serializers.DictField(child=serializers.CharField())
    asked_at = serializers.DateTimeField()
    made_at = serializers.DateTimeField(allow_null=True)
    deleted_at = serializers.DateTimeField(source="pruned_at", allow_null=True)
    problem = serializers.CharField()
    rows = serializers.IntegerField()
    bytes = serializers.IntegerField(source="size")
    sha256 = serializers.CharField(source="digest")


class Files(Part):
    """Your own, the latest first."""

    items = FileShape(many=True)


class FileBody(serializers.Serializer[Any]):
    """A report's slug, or `focus` with its version as the format; `query` as in the address."""

    slug = serializers.CharField(max_length=32)
    period = serializers.CharField(max_length=7)
    format = serializers.CharField(max_length=16)
    query = serializers.DictField(child=serializers.CharField(max_length=200), required=False)


class FileList(ApiView):
    """`/finance/files/`."""

    @operation(
        "files_list",
        "Files of reports you asked for",
        scope="costs:read",
        query=PART_QUERY,
        reply=Files,
    )
    def get(self, request: Request) -> Response:
        found = report_files_of(viewer_of(request))
        return Response(Files(part_of(request, found, list)).data)

    @operation(
        "files_ask",
        "Let a file of a report be made in the background",
        scope="costs:read",
        body=FileBody,
        reply=FileShape,
        status=202,
    )
    def post(self, request: Request) -> Response:
        """It is kept for some days. Who may not open the report is told so."""
        sent, now = body_of(request, FileBody), timezone.now()
        query = sent.get("query", {})
        wish = parse_wish({**query, "period": sent["period"]}, now=now)
        if wish.problems:
            detail = "; ".join(f"{name}: {words}" for name, words in wish.problems)
            raise BadRequest(f"{detail}.", code="bad_query", errors=wish.problems)
        actor = viewer_of(request)
        refuse_fast(limits.EXPORT, actor.pk)
        row = ask_file(actor, sent["slug"], wish, sent["format"], query, now)
        return Response(FileShape(row).data, status=202)


class FileByNumber(ApiView):
    """`/finance/files/<id>/`."""

    @operation(
        "files_fetch",
        "A file of a report",
        scope="costs:read",
        headers=[
            Header("Range", "The part that is still missing, such as bytes=1048576-."),
            Header("If-Range", "The ETag of what you have; another file comes as a whole."),
        ],
        reply=bytes,
        reply_type="application/octet-stream",
        replies={206: None, 416: None},
    )
    def get(self, request: Request, pk: int) -> HttpResponseBase:
        """Its bytes, unchanged; `ETag` is their SHA-256. 409 while it is not there."""
        viewer = viewer_of(request)
        return send_kept(request, viewer, get_report_file(viewer, min(pk, MAX_ID)))
