"""`/bulk-cancels/…`: many jobs of others end when two people want it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import User
from portal.api.operations import ApiView, body_of, operation
from portal.api.parts import PART_QUERY, Part, part_of
from portal.api.shapes import viewer_of
from scheduler.models import BulkCancel
from scheduler.selectors.jobs import get_visible_jobs
from scheduler.selectors.requesting.cancels import SeenCancel, get_visible_cancel, seen_cancels
from scheduler.services.seconding.deciding import (
    agree_to_cancel,
    refuse_to_cancel,
    withdraw_cancel,
)
from scheduler.services.seconding.proposing import propose_to_cancel_jobs
from scheduler.states.seconding import ALONE_AT_MOST, CancelOutcome

MOST_JOBS = 1000


class BulkCancelShape(serializers.Serializer[Any]):
    """A proposal. `jobs`: how many it names; of an agreed one so many `ended`, and `left_out` had
    ended before. `set` or `person`: whose they are, both null for jobs named one by one. `said`:
    why it was refused. `actions`: what you may do: agree, refuse, withdraw."""

    id = serializers.IntegerField()
    what = serializers.CharField()
    jobs = serializers.IntegerField()
    set = serializers.IntegerField(allow_null=True)
    person = serializers.CharField(allow_null=True)
    reason = serializers.CharField()
    outcome = serializers.ChoiceField([str(one) for one in CancelOutcome])
    proposed_by = serializers.CharField()
    proposed_at = serializers.DateTimeField()
    lapses_at = serializers.DateTimeField()
    decided_by = serializers.CharField(allow_null=True)
    decided_at = serializers.DateTimeField(allow_null=True)
    said = serializers.CharField(allow_blank=True)
    ended = serializers.IntegerField(allow_null=True)
    left_out = serializers.IntegerField(allow_null=True)
    actions = serializers.ListField(child=serializers.CharField())


class BulkCancelRows(Part):
    """Proposals, the newest first."""

    items = BulkCancelShape(many=True)


class ProposeBody(serializers.Serializer[Any]):
    """Which jobs, and why."""

    jobs = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=2**53 - 1),
        min_length=1,
        max_length=MOST_JOBS,
    )
    reason = serializers.CharField(allow_blank=True)


class RefuseBody(serializers.Serializer[Any]):
    """Why not."""

    reason = serializers.CharField(allow_blank=True)


def _show(seen: SeenCancel) -> dict[str, Any]:
    one = seen.proposal
    return {
        "id": one.pk,
        "what": one.what,
        "jobs": one.named,
        "set": one.job_set_id,
        "person": one.person.username if one.person else None,
        "reason": one.reason,
        "outcome": str(seen.outcome),
        "proposed_by": one.proposed_by.username,
        "proposed_at": one.proposed_at,
        "lapses_at": one.lapses_at,
        "decided_by": one.decided_by.username if one.decided_by else None,
        "decided_at": one.decided_at,
        "said": one.said,
        "ended": one.ended,
        "left_out": None if one.ended is None else one.left_out,
        "actions": list(seen.actions),
    }


def _read(viewer: User, pk: int) -> dict[str, Any]:
    shown = BulkCancelShape(_show(get_visible_cancel(viewer, pk, now=timezone.now())))
    return dict(shown.data)


def proposed(viewer: User, made: BulkCancel) -> Response:
    """202: nothing has ended yet."""
    reply = Response(_read(viewer, made.pk), status=202)
    reply["Location"] = f"/api/v1/bulk-cancels/{made.pk}/"
    return reply


class BulkCancels(ApiView):
    """`/bulk-cancels/`."""

    @operation(
        "bulk_cancels_list",
        "Cancels of many jobs that wait for a second person",
        scope="jobs:read",
        query=PART_QUERY,
        reply=BulkCancelRows,
    )
    def get(self, request: Request) -> Response:
        """Yours, and those that you might agree to; also what became of those of 30 days."""
        found = seen_cancels(viewer_of(request), now=timezone.now())
        return Response(
            part_of(
                request,
                found,
                lambda part: [_show(one) for one in part],
                key=lambda one: one.proposal.pk,
            )
        )

    @operation(
        "bulk_cancels_propose",
        f"Propose to cancel more jobs of others than the {ALONE_AT_MOST} an hour of one person",
        scope="jobs:write",
        body=ProposeBody,
        reply=BulkCancelShape,
        status=202,
    )
    def post(self, request: Request) -> Response:
        """Nothing ends before a second person agrees. 409: `one_is_enough`, `already_proposed`,
        `nobody_to_agree`."""
        sent, actor = body_of(request, ProposeBody), viewer_of(request)
        jobs = get_visible_jobs(actor, list(dict.fromkeys(sent["jobs"])))
        return proposed(
            actor, propose_to_cancel_jobs(actor=actor, jobs=jobs, reason=sent["reason"])
        )


class BulkCancelByNumber(ApiView):
    """`/bulk-cancels/<id>/`."""

    @operation("bulk_cancels_read", "One proposal", scope="jobs:read", reply=BulkCancelShape)
    def get(self, request: Request, pk: int) -> Response:
        return Response(_read(viewer_of(request), pk))


def _answer(
    name: str,
    summary: str,
    service: Callable[..., BulkCancel],
    shape: type[serializers.Serializer[Any]] | None = None,
) -> type[ApiView]:
    class Answer(ApiView):
        @operation(
            f"bulk_cancels_{name}", summary, scope="jobs:write", body=shape, reply=BulkCancelShape
        )
        def post(self, request: Request, pk: int) -> Response:
            sent, actor = body_of(request, shape), viewer_of(request)
            found = get_visible_cancel(actor, pk, now=timezone.now()).proposal
            service(actor=actor, proposal=found, **sent)
            return Response(_read(actor, pk))

    Answer.__name__ = f"Cancel{name.title()}"
    return Answer


CancelAgree = _answer("agree", "Agree: the named jobs that have not ended end", agree_to_cancel)
CancelRefuse = _answer("refuse", "Refuse: nothing ends", refuse_to_cancel, RefuseBody)
CancelWithdraw = _answer("withdraw", "Take back what you proposed", withdraw_cancel)
