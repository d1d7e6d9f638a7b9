"""`/rules/policies/`."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.operations import ApiView, body_of, operation
from portal.api.shapes import viewer_of
from portal.api.v1.rules.shapes import Policies, PolicyBody, PolicyShape
from scheduler.selectors.sharing import rules_so_far
from scheduler.services.sharing.policies import policy_in_force, policy_source, set_policy


class PolicyList(ApiView):
    """`/rules/policies/`."""

    @operation("policies_list", "Who is next, and who was", scope="jobs:read", reply=Policies)
    def get(self, request: Request) -> Response:
        rules = rules_so_far(viewer_of(request))
        policy = policy_in_force()
        shown = {
            "in_force": str(policy.order),
            "set_by": policy_source(),
            "dials": policy,
            "items": rules,
        }
        return Response(Policies(shown).data)

    @operation(
        "policies_set",
        "Set who is next (operators)",
        scope="nodes:write",
        body=PolicyBody,
        reply=PolicyShape,
        status=201,
    )
    def post(self, request: Request) -> Response:
        sent = body_of(request, PolicyBody)
        rule = set_policy(actor=viewer_of(request), **sent)
        return Response(PolicyShape(rule).data, status=201)
