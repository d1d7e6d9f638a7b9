"""What is counted in the background, as programs see it."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers


class FindingShape(serializers.Serializer[Any]):
    """Something that stands in the way of a close, or a remark."""

    trouble = serializers.CharField()
    subject = serializers.CharField()
    words = serializers.CharField()


class CountingShape(serializers.Serializer[Any]):
    """A month counted in the background; once `ended_at` is set, `says` tells how it went."""

    act = serializers.CharField()
    asked_by = serializers.CharField(source="asked_by.username")
    asked_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    is_refused = serializers.BooleanField()
    says = serializers.CharField(allow_blank=True)
    findings = FindingShape(many=True, source="found.findings", default=[])
