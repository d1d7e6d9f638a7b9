"""How a running job stands under the rules for GPUs that do little, as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rest_framework import serializers

from scheduler.selectors.one_job.idling import IdleStanding
from scheduler.states import IdleAct

ACTS = [str(act) for act in IdleAct]


class IdleWarningShape(serializers.Serializer[Any]):
    """A warning that stands. `act` follows at `act_at`; null: nothing does."""

    rule = serializers.CharField()
    evidence = serializers.CharField()
    idle_since = serializers.DateTimeField()
    warned_at = serializers.DateTimeField()
    act = serializers.ChoiceField(ACTS)
    act_at = serializers.DateTimeField(allow_null=True)


class IdleKeptShape(serializers.Serializer[Any]):
    """Who still needs it, for what, and until when nothing follows."""

    who = serializers.CharField()
    reason = serializers.CharField()
    hours = serializers.IntegerField()
    until = serializers.DateTimeField()


class IdleShape(serializers.Serializer[Any]):
    """A running job whose GPUs do little. `hours_left`: for how long it may be kept yet, in all."""

    sentence = serializers.CharField()
    warnings = IdleWarningShape(many=True)
    kept = IdleKeptShape(allow_null=True)
    hours_left = serializers.IntegerField()
    may_keep = serializers.BooleanField()


def show_idle(standing: IdleStanding | None) -> dict[str, Any] | None:
    """Null unless a warning stands or somebody keeps it."""
    if standing is None:
        return None
    kept = standing.kept
    return {
        "sentence": standing.sentence,
        "warnings": [
            {
                "rule": one.rule,
                "evidence": one.evidence,
                "idle_since": one.idle_since,
                "warned_at": one.warned_at,
                "act": one.act,
                "act_at": one.act_at,
            }
            for one in standing.warned
        ],
        "kept": asdict(kept) if kept else None,
        "hours_left": standing.hours_left,
        "may_keep": standing.may_keep,
    }
