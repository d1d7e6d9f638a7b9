"""Why an attempt failed, as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rest_framework import serializers

from scheduler.selectors.triage import Diagnosis
from scheduler.states import FailureClass


class Evidence(serializers.Serializer[Any]):
    """A line that speaks for a finding; `line` 0: the node's own report, not the log."""

    rank = serializers.IntegerField()
    line = serializers.IntegerField()
    text = serializers.CharField()


class RuleMet(serializers.Serializer[Any]):
    """The retry rule of the job's own that decided; `number` counts from one. `does`: retry, stop,
    or spent, as it has tried again as often as it may. `try`: which of its `max` tries comes."""

    number = serializers.IntegerField()
    why = serializers.CharField()
    does = serializers.ChoiceField(["retry", "stop", "spent"])
    max = serializers.IntegerField(required=False)

    def get_fields(self) -> dict[str, Any]:
        # A word of Python, so no name for a field of the class.
        return super().get_fields() | {"try": serializers.IntegerField(required=False)}


class Triage(serializers.Serializer[Any]):
    """Why an attempt failed and what to do. `then`: who pays for another one: free, user (one of
    the job's retries), rule (one of its retry rules) or "".

    `evidence` is empty for those who may not read the log. `is_confirmed` is false when only the
    program's own output says so: that changes nothing about retries and cost.
    """

    attempt = serializers.IntegerField()
    failure = serializers.ChoiceField([str(one) for one in FailureClass])
    title = serializers.CharField()
    whose = serializers.CharField()
    signature = serializers.CharField()
    advice = serializers.CharField()
    is_confirmed = serializers.BooleanField()
    evidence = Evidence(many=True)
    then = serializers.CharField(allow_blank=True)
    retry = serializers.CharField()
    rule = RuleMet(allow_null=True)


def show_triage(found: Diagnosis | None) -> dict[str, Any] | None:
    """Null unless an attempt failed."""
    return asdict(found) if found else None
