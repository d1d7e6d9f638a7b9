"""`/rules/ceilings/`."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.operations import ApiView, body_of, operation
from portal.api.parts import PART_QUERY, part_of
from portal.api.shapes import viewer_of
from portal.api.v1.rules.shapes import CeilingBody, Ceilings
from scheduler.selectors import sharing as select
from scheduler.services.submitting.ceilings import set_ceiling


class CeilingList(ApiView):
    """`/rules/ceilings/`."""

    @operation(
        "ceilings_list",
        "Who may submit at which tier",
        scope="jobs:read",
        query=PART_QUERY,
        reply=Ceilings,
    )
    def get(self, request: Request) -> Response:
        return Response(_shown(request))

    @operation(
        "ceilings_set",
        "Set the highest tier of an account (operators)",
        scope="nodes:write",
        body=CeilingBody,
        reply=Ceilings,
    )
    def post(self, request: Request) -> Response:
        sent, actor = body_of(request, CeilingBody), viewer_of(request)
        sent["owner"] = select.get_visible_owner(actor, sent["owner"])
        set_ceiling(actor=actor, **sent)
        return Response(_shown(request))


def _shown(request: Request) -> dict[str, object]:
    part = part_of(
        request,
        select.visible_ceilings(viewer_of(request)),
        lambda found: [{"owner": owner, "tier": tier} for owner, tier in found],
        key=lambda pair: pair[0],
    )
    return dict(Ceilings({"usual": select.usual_ceiling(), **part}).data)
