"""Scripts for sbatch over REST: what job they are, and what became of each option."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.operations import ApiView, body_of, operation
from portal.api.shapes import viewer_of
from scheduler.selectors.cluster import pool_summaries
from scheduler.spec.document import MAX_DOCUMENT_BYTES
from scheduler.spec.slurm import convert
from scheduler.spec.slurm.converting import CHANGED, HARMLESS, LOST, TAKEN


class ScriptBody(serializers.Serializer[Any]):
    """A script with `#SBATCH` lines."""

    text = serializers.CharField(
        max_length=MAX_DOCUMENT_BYTES, trim_whitespace=False, allow_blank=False
    )


class RemarkShape(serializers.Serializer[Any]):
    """What became of one option: taken, changed, harmless to leave out, or lost."""

    line = serializers.IntegerField()
    option = serializers.CharField()
    became = serializers.ChoiceField(choices=[TAKEN, CHANGED, HARMLESS, LOST])
    words = serializers.CharField(allow_blank=True)


class ConvertedShape(serializers.Serializer[Any]):
    """A job spec, perhaps without a project, and a remark for every option of the script."""

    spec = serializers.DictField()
    remarks = RemarkShape(many=True)
    lost = serializers.IntegerField()


class JobConvert(ApiView):
    """`/jobs/convert/`."""

    @operation(
        "jobs_convert",
        "Read a script for sbatch as a job; writes nothing",
        scope="jobs:read",
        body=ScriptBody,
        reply=ConvertedShape,
    )
    def post(self, request: Request) -> Response:
        """`lost` counts what the script asks for and the job does not; look at these remarks."""
        text = body_of(request, ScriptBody)["text"]
        viewer = viewer_of(request)
        pools = pool_summaries(viewer)
        models = sorted({model for summary in pools for model in summary.models})
        found = convert(text, models=models, own=(viewer.email, viewer.username))
        shown = {
            "spec": found.document,
            "remarks": [asdict(one) for one in found.remarks],
            "lost": len(found.lost),
        }
        return Response(ConvertedShape(shown).data)
