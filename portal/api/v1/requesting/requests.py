"""`/requests/…`: every change is a POST that names the version it was made from."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.operations import ApiView, Query, body_of, choice, operation
from portal.api.pagination import sort_of
from portal.api.parts import PART_QUERY, part_of
from portal.api.shapes import viewer_of
from portal.api.v1.requesting.shapes import (
    AnswerBody,
    AskBody,
    AssignBody,
    CommentBody,
    DecideBody,
    RequestRows,
    RequestWhole,
    ReviseBody,
    RevokeBody,
    VersionBody,
    WhatIfShape,
    show_request,
    show_whatif,
    show_whole,
)
from scheduler.models import QuotaRequest
from scheduler.selectors import requesting as select
from scheduler.selectors.cluster import get_visible_pool
from scheduler.selectors.ordered.columns import REQUEST_COLUMNS
from scheduler.selectors.sharing import get_visible_owner
from scheduler.services.errors import NotFound
from scheduler.services.requesting import (
    asking,
    assigning,
    deciding,
    granting,
    reminding,
)
from scheduler.services.requesting.foreseeing import whatif
from scheduler.states import RequestKind

_USUAL = timedelta(days=90)
_WRITE = "requests:write"
_STATE = ("mine", "inbox", "assigned", "all")


class RequestList(ApiView):
    """`/requests/`."""

    @operation(
        "requests_list",
        "Requests for quota",
        scope="jobs:read",
        query=[
            Query(
                "show",
                str,
                "mine, inbox (waits for me), assigned (to me by name) or all I may see",
                _STATE,
            ),
            Query(
                "sort",
                str,
                f"{', '.join(REQUEST_COLUMNS)}; with a - before it the highest first. Without: "
                "mine newest first, others by when an answer is due.",
            ),
            *PART_QUERY,
        ],
        reply=RequestRows,
    )
    def get(self, request: Request) -> Response:
        viewer, show = viewer_of(request), choice(request, "show", _STATE, "mine")
        usual = "-asked" if show == "mine" else "due"
        # What one has asked for oneself is not late.
        left_out = "due" if show == "mine" else ""
        columns = {name: one for name, one in REQUEST_COLUMNS.items() if name != left_out}
        sort = sort_of(request, columns, usual)
        if show == "mine":
            pairs = select.my_requests(viewer, sort.column, falls=sort.falls)
        else:
            rows = select.inbox_of(
                viewer,
                sort.column,
                mine_only=show != "all",
                now=timezone.now(),
                is_assigned=show == "assigned",
                falls=sort.falls,
            )
            pairs = [(row.request, row.asked) for row in rows]
        return Response(
            part_of(
                request,
                pairs,
                lambda found: [show_request(*pair) for pair in found],
                key=lambda pair: pair[0].pk,
            )
        )

    @operation(
        "requests_ask",
        "Ask for quota",
        scope=_WRITE,
        body=AskBody,
        reply=RequestWhole,
        status=201,
    )
    def post(self, request: Request) -> Response:
        sent, actor = body_of(request, AskBody), viewer_of(request)
        now = timezone.now()
        try:
            sent["pool"] = get_visible_pool(actor, sent["pool"]) if sent["pool"] else None
        except NotFound:
            raise serializers.ValidationError({"pool": ["there is no such pool"]}) from None
        owner = get_visible_owner(actor, sent.pop("owner"))
        if owner is None:
            raise serializers.ValidationError({"owner": ["give a team or team/project"]})
        if sent["kind"] == RequestKind.RESERVATION and sent["valid_until"] is None:
            raise serializers.ValidationError({"valid_until": ["say when the booking ends"]})
        sent["valid_from"] = sent["valid_from"] or now
        sent["valid_until"] = sent["valid_until"] or _usual_end(sent["valid_from"])
        made = asking.ask_for_quota(actor=actor, owner=owner, now=now, **sent)
        return Response(show_whole(made), status=201)


class RequestByNumber(ApiView):
    """`/requests/<id>/`."""

    @operation("requests_read", "One request", scope="jobs:read", reply=RequestWhole)
    def get(self, request: Request, pk: int) -> Response:
        return Response(show_whole(_seen(request, pk)))


class RequestSubmit(ApiView):
    """`/requests/<id>/submit/`."""

    @operation(
        "requests_submit", "Submit a draft", scope=_WRITE, body=VersionBody, reply=RequestWhole
    )
    def post(self, request: Request, pk: int) -> Response:
        return _change(request, pk, VersionBody, asking.submit_request)


class RequestRevise(ApiView):
    """`/requests/<id>/revise/`."""

    @operation(
        "requests_revise",
        "Another version of an open request",
        scope=_WRITE,
        body=ReviseBody,
        reply=RequestWhole,
    )
    def post(self, request: Request, pk: int) -> Response:
        return _change(request, pk, ReviseBody, asking.revise_request)


class RequestWithdraw(ApiView):
    """`/requests/<id>/withdraw/`."""

    @operation(
        "requests_withdraw", "Take it back", scope=_WRITE, body=VersionBody, reply=RequestWhole
    )
    def post(self, request: Request, pk: int) -> Response:
        return _change(request, pk, VersionBody, asking.withdraw_request)


class RequestAnswer(ApiView):
    """`/requests/<id>/answer/`."""

    @operation(
        "requests_answer", "Answer a question", scope=_WRITE, body=AnswerBody, reply=RequestWhole
    )
    def post(self, request: Request, pk: int) -> Response:
        return _change(request, pk, AnswerBody, asking.answer_request)


class RequestDecide(ApiView):
    """`/requests/<id>/decide/`: 409 names who was faster; the same once more changes nothing."""

    @operation("requests_decide", "Decide on it", scope=_WRITE, body=DecideBody, reply=RequestWhole)
    def post(self, request: Request, pk: int) -> Response:
        return _change(request, pk, DecideBody, deciding.decide_request)


class RequestAssign(ApiView):
    """`/requests/<id>/assign/`: whom it is handed to; others may decide as before."""

    @operation(
        "requests_assign",
        "Hand it to somebody who may decide",
        scope=_WRITE,
        body=AssignBody,
        reply=RequestWhole,
    )
    def post(self, request: Request, pk: int) -> Response:
        return _change(request, pk, AssignBody, assigning.assign_request)


class RequestComment(ApiView):
    """`/requests/<id>/comment/`."""

    @operation("requests_comment", "Say a word", scope=_WRITE, body=CommentBody, reply=RequestWhole)
    def post(self, request: Request, pk: int) -> Response:
        found, sent = _seen(request, pk), body_of(request, CommentBody)
        asking.comment_on_request(actor=viewer_of(request), request=found, text=sent["text"])
        return Response(show_whole(found))


class RequestRenew(ApiView):
    """`/requests/<id>/renew/`."""

    @operation(
        "requests_renew",
        "A draft for the time after its grant",
        scope=_WRITE,
        reply=RequestWhole,
        status=201,
    )
    def post(self, request: Request, pk: int) -> Response:
        body_of(request)
        found, actor = _seen(request, pk), viewer_of(request)
        made = reminding.renew_request(actor=actor, request=found, now=timezone.now())
        return Response(show_whole(made), status=201)


class RequestRevoke(ApiView):
    """`/requests/<id>/revoke/`."""

    @operation(
        "requests_revoke",
        "End what was granted before its time",
        scope=_WRITE,
        body=RevokeBody,
        reply=RequestWhole,
    )
    def post(self, request: Request, pk: int) -> Response:
        """422 `reason_needed` without a reason where jobs of others end with a booking."""
        return _change(request, pk, RevokeBody, granting.revoke_granted)


class RequestWhatIf(ApiView):
    """`/requests/<id>/whatif/`: asked for once, then looked at until it is done."""

    @operation(
        "requests_whatif",
        "What it would do to everyone",
        scope=_WRITE,
        reply=WhatIfShape,
    )
    def post(self, request: Request, pk: int) -> Response:
        body_of(request)
        found, now = _seen(request, pk), timezone.now()
        row = whatif.ask_whatif(actor=viewer_of(request), request=found, now=now)
        return Response(show_whatif(whatif.simulate_at_once(row, now=now)))


def _usual_end(begin: datetime) -> datetime:
    """Raises ValidationError for a begin after which no such time is left."""
    try:
        return begin + _USUAL
    except OverflowError:
        raise serializers.ValidationError({"valid_from": ["choose an earlier day"]}) from None


def _seen(request: Request, pk: int) -> QuotaRequest:
    return select.get_visible_request(viewer_of(request), pk)


def _change(request: Request, pk: int, shape: Any, act: Any) -> Response:
    """Look first, so that what is foreign is missing; then act on what was seen."""
    found, sent = _seen(request, pk), body_of(request, shape)
    return Response(show_whole(act(actor=viewer_of(request), request_id=found.pk, **sent)))
