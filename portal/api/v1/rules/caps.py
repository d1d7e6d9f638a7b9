"""`/rules/caps/`."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.operations import ApiView, body_of, operation
from portal.api.parts import PART_QUERY, part_of
from portal.api.shapes import viewer_of
from portal.api.v1.rules.shapes import CapsBody, CapsList
from scheduler.selectors import sharing as select
from scheduler.services.sharing.limits import CAPS, set_caps


class Caps(ApiView):
    """`/rules/caps/`."""

    @operation(
        "caps_list",
        "Caps on jobs and sessions",
        scope="jobs:read",
        query=PART_QUERY,
        reply=CapsList,
    )
    def get(self, request: Request) -> Response:
        return Response(_shown(request))

    @operation(
        "caps_set",
        "Cap jobs and sessions of an account (operators)",
        scope="nodes:write",
        body=CapsBody,
        reply=CapsList,
    )
    def post(self, request: Request) -> Response:
        sent, actor = body_of(request, CapsBody), viewer_of(request)
        owner = select.get_visible_owner(actor, sent.pop("owner"))
        set_caps(actor=actor, owner=owner, **sent)
        return Response(_shown(request))


def _shown(request: Request) -> dict[str, object]:
    part = part_of(
        request,
        select.visible_caps(viewer_of(request)),
        lambda found: [
            {"owner": owner, **{name: getattr(account, name) for name in CAPS}}
            for owner, account in found
        ],
        key=lambda pair: pair[0],
    )
    return dict(CapsList(part).data)
