"""Shapes of requests, their revisions, decisions and what-ifs."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from accounts.models import User
from portal.api.parts import Part
from portal.api.shapes import MONEY
from scheduler.models import QuotaRequest, RequestVersion, WhatIf
from scheduler.states import DenyReason, Outcome


class RequestShape(serializers.Serializer[Any]):
    """`version` is the precondition of every change; `route` are the steps still to be taken.

    `returns_at`: when what is not used of a budget's GPU-hours or money is taken back.
    `assigned_to`: who was asked by name to decide. `booking`: what a request for one became.
    """

    id = serializers.IntegerField()
    owner = serializers.CharField()
    kind = serializers.CharField()
    pool = serializers.CharField(allow_blank=True)
    gpu_model = serializers.CharField(allow_blank=True)
    amount = serializers.IntegerField()
    valid_from = serializers.DateTimeField()
    valid_until = serializers.DateTimeField()
    justification = serializers.CharField()
    state = serializers.CharField()
    route = serializers.ListField(child=serializers.CharField())
    version = serializers.IntegerField()
    revision = serializers.IntegerField()
    asked_by = serializers.CharField()
    assigned_to = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField()
    due_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    grant = serializers.IntegerField(allow_null=True)
    booking = serializers.IntegerField(allow_null=True)
    returns_at = serializers.DateTimeField(allow_null=True)


class RequestRows(Part):
    """Your own the newest first, others the most urgent first."""

    items = RequestShape(many=True)


class DecisionShape(serializers.Serializer[Any]):
    """What one person said to one version.

    `policy`: the rule that sent it there, `policy_version` which one of its kind: 0 for the usual
    rules, null where it was not recorded.
    """

    version = serializers.IntegerField()
    revision = serializers.IntegerField()
    step = serializers.CharField()
    outcome = serializers.CharField()
    amount = serializers.IntegerField(allow_null=True)
    valid_until = serializers.DateTimeField(allow_null=True)
    reason_code = serializers.CharField(allow_blank=True)
    comment = serializers.CharField(allow_blank=True)
    monthly_cost = serializers.DecimalField(**MONEY, allow_null=True)
    currency = serializers.CharField(allow_blank=True)
    decided_by = serializers.CharField()
    whatif_digest = serializers.CharField(allow_null=True)
    policy = serializers.IntegerField(allow_null=True)
    policy_version = serializers.IntegerField(allow_null=True)
    at = serializers.DateTimeField()


class RequestWhole(RequestShape):
    """With what was decided so far."""

    decisions = DecisionShape(many=True)


class WhatIfShape(serializers.Serializer[Any]):
    """`progress`: waiting, running, done, empty (no history to replay) or failed."""

    id = serializers.IntegerField()
    revision = serializers.IntegerField()
    amount = serializers.IntegerField()
    progress = serializers.CharField()
    done_steps = serializers.IntegerField()
    all_steps = serializers.IntegerField()
    answer = serializers.DictField()
    digest = serializers.CharField(allow_blank=True)
    engine = serializers.CharField(allow_blank=True)


class AskBody(serializers.Serializer[Any]):
    """`owner` is a team or `team/project`. `amount` is in GPUs; hours for the kind `walltime`,
    GPU-hours for `budget`, whole units of the currency for `money`. Without `valid_until` it is for
    90 days; a `reservation`, which books GPUs of a pool, has to say when it ends.
    """

    owner = serializers.CharField(max_length=130)
    kind = serializers.CharField(max_length=16)
    pool = serializers.CharField(max_length=63, required=False, default="", allow_blank=True)
    gpu_model = serializers.CharField(max_length=96, required=False, default="", allow_blank=True)
    amount = serializers.IntegerField()
    valid_from = serializers.DateTimeField(required=False, allow_null=True, default=None)
    valid_until = serializers.DateTimeField(required=False, allow_null=True, default=None)
    justification = serializers.CharField(max_length=4096)
    is_draft = serializers.BooleanField(required=False, default=False)


class VersionBody(serializers.Serializer[Any]):
    """The version that the caller has seen."""

    version = serializers.IntegerField(min_value=1)


class RevokeBody(VersionBody):
    """Why, in one line of at most 200 characters, for who asked and the owners of jobs. Needed
    where jobs of others are in the booking that ends."""

    reason = serializers.CharField(required=False, allow_blank=True)


class ReviseBody(VersionBody):
    """The whole text anew."""

    amount = serializers.IntegerField()
    valid_from = serializers.DateTimeField()
    valid_until = serializers.DateTimeField()
    justification = serializers.CharField(max_length=4096)


class AnswerBody(VersionBody):
    """An answer to a question."""

    text = serializers.CharField(max_length=4096)


class CommentBody(serializers.Serializer[Any]):
    """A word beside it."""

    text = serializers.CharField(max_length=4096)


class DecideBody(VersionBody):
    """`amount` and `valid_until` count for `less`, `reason_code` for `deny`."""

    outcome = serializers.ChoiceField([str(one) for one in Outcome])
    amount = serializers.IntegerField(required=False, allow_null=True, default=None)
    valid_until = serializers.DateTimeField(required=False, allow_null=True, default=None)
    reason_code = serializers.ChoiceField(
        [*(str(one) for one in DenyReason), ""], required=False, default="", allow_blank=True
    )
    comment = serializers.CharField(max_length=4096, required=False, default="", allow_blank=True)


class AssignBody(VersionBody):
    """`to`: the username of somebody who may decide; empty: whoever may."""

    to = serializers.CharField(max_length=150, allow_blank=True)


def show_request(request: QuotaRequest, asked: RequestVersion) -> dict[str, Any]:
    """As `RequestShape`."""
    owner = request.project.path if request.project else request.team.slug
    found = {
        "id": request.pk,
        "owner": owner,
        "pool": request.pool.name if request.pool else "",
        "asked_by": request.asked_by.get_username(),
        "assigned_to": request.assigned_to.get_username() if request.assigned_to else None,
        "grant": request.granted_id,
        "booking": request.booking_id,
    }
    of_request = ["kind", "gpu_model", "state", "route", "version", "revision"]
    of_request += ["created_at", "due_at", "ended_at", "returns_at"]
    of_text = ["amount", "valid_from", "valid_until", "justification"]
    found |= {name: getattr(request, name) for name in of_request}
    found |= {name: getattr(asked, name) for name in of_text}
    return dict(RequestShape(found).data)


def show_whole(request: QuotaRequest) -> dict[str, Any]:
    """As `RequestWhole`."""
    asked = request.versions.get(number=request.revision)
    rows = request.decisions.select_related("decided_by", "whatif")
    decisions = []
    for row in rows:
        names = [str(name) for name in DecisionShape().fields]
        fields: dict[str, Any] = {name: getattr(row, name, None) for name in names}
        fields["decided_by"] = _name(row.decided_by)
        fields["policy"] = row.policy_id
        fields["whatif_digest"] = row.whatif.digest if row.whatif else None
        decisions.append(dict(DecisionShape(fields).data))
    return {**show_request(request, asked), "decisions": decisions}


def _name(user: User | None) -> str:
    return user.get_username() if user else ""


def show_whatif(row: WhatIf) -> dict[str, Any]:
    """As `WhatIfShape`."""
    return dict(WhatIfShape(row).data)
