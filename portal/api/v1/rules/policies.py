"""`/rules/policies/` and `/pools/<name>/policy/`."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.operations import ApiView, body_of, operation
from portal.api.parts import PART_QUERY, part_of
from portal.api.shapes import viewer_of
from portal.api.v1.rules.shapes import (
    Policies,
    PolicyBody,
    PolicyShape,
    PoolPolicies,
    PoolPolicyBody,
)
from scheduler.models import Pool
from scheduler.selectors.cluster import get_visible_pool
from scheduler.selectors.sharing import pool_rules_so_far, rules_so_far
from scheduler.services.sharing.policies import (
    clear_pool_policy,
    policy_in_force,
    policy_source,
    set_policy,
    set_pool_policy,
)


class PolicyList(ApiView):
    """`/rules/policies/`."""

    @operation(
        "policies_list",
        "Who is next, and who was",
        scope="jobs:read",
        query=PART_QUERY,
        reply=Policies,
    )
    def get(self, request: Request) -> Response:
        rules = rules_so_far(viewer_of(request))
        policy = policy_in_force()
        shown = {
            "in_force": str(policy.order),
            "set_by": policy_source(),
            "dials": policy,
            **part_of(request, rules, list),
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


class PoolPolicy(ApiView):
    """`/pools/<name>/policy/`."""

    @operation(
        "pools_policy_read",
        "Who is next in a pool",
        scope="jobs:read",
        query=PART_QUERY,
        reply=PoolPolicies,
    )
    def get(self, request: Request, name: str) -> Response:
        return _of_pool(request, get_visible_pool(viewer_of(request), name))

    @operation(
        "pools_policy_set",
        "Give a pool a policy of its own (operators)",
        scope="nodes:write",
        body=PoolPolicyBody,
        reply=PoolPolicies,
    )
    def post(self, request: Request, name: str) -> Response:
        sent, actor = body_of(request, PoolPolicyBody), viewer_of(request)
        pool = get_visible_pool(actor, name)
        set_pool_policy(actor=actor, pool=pool, **sent)
        return _of_pool(request, pool)

    @operation(
        "pools_policy_clear",
        "Let a pool follow the cluster's policy again (operators)",
        scope="nodes:write",
        reply=PoolPolicies,
    )
    def delete(self, request: Request, name: str) -> Response:
        pool = get_visible_pool(viewer_of(request), name)
        clear_pool_policy(actor=viewer_of(request), pool=pool)
        return _of_pool(request, pool)


def _of_pool(request: Request, pool: Pool) -> Response:
    policy, rules = policy_in_force(), pool_rules_so_far(viewer_of(request), pool)
    shown = {
        "pool": pool.name,
        "has_own": rules.filter(ended_at=None).exists(),
        "may_wait_s": pool.may_wait_s,
        "dials": policy.of(pool.name),
        "of_cluster": policy,
        **part_of(request, rules, list),
    }
    return Response(PoolPolicies(shown).data)
