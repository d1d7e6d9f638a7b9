"""Shapes of quotas, grants and policies."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from portal.api.parts import Part
from scheduler.models import Grant, Quota
from scheduler.selectors.sharing import grants_of, owner_path
from scheduler.services.sharing.limits import MOST_HOURS

_GPUS: dict[str, Any] = {"min_value": 0, "max_value": 1_000_000}
_HOURS: dict[str, Any] = {"min_value": 0, "max_value": MOST_HOURS}
_OPTIONAL: dict[str, Any] = {"required": False, "allow_null": True, "default": None}


class GrantShape(serializers.Serializer[Any]):
    """GPUs added for a time; a revoked one does not count any more."""

    id = serializers.IntegerField()
    guaranteed = serializers.IntegerField()
    borrow_limit = serializers.IntegerField()
    maximum = serializers.IntegerField()
    max_hours = serializers.IntegerField()
    valid_from = serializers.DateTimeField()
    valid_until = serializers.DateTimeField()
    reason = serializers.CharField()
    revoked_at = serializers.DateTimeField(allow_null=True)


class QuotaShape(serializers.Serializer[Any]):
    """`owner` is a team, a `team/project`, or empty for the organisation; null sets no limit."""

    id = serializers.IntegerField()
    owner = serializers.CharField(allow_blank=True)
    pool = serializers.CharField(allow_blank=True)
    gpu_model = serializers.CharField(allow_blank=True)
    guaranteed = serializers.IntegerField()
    borrow_limit = serializers.IntegerField(allow_null=True)
    lend_limit = serializers.IntegerField(allow_null=True)
    maximum = serializers.IntegerField(allow_null=True)
    max_hours = serializers.IntegerField(allow_null=True)
    held = serializers.IntegerField()
    borrowed = serializers.IntegerField()
    grants = GrantShape(many=True)


class Quotas(Part):
    """Quotas you may see."""

    items = QuotaShape(many=True)


class QuotaBody(serializers.Serializer[Any]):
    """An empty pool or model means any. `max_hours`: the longest time limit of a job."""

    owner = serializers.CharField(max_length=130, allow_blank=True)
    pool = serializers.CharField(max_length=63, required=False, default="", allow_blank=True)
    gpu_model = serializers.CharField(max_length=96, required=False, default="", allow_blank=True)
    guaranteed = serializers.IntegerField(**_GPUS, required=False, default=0)
    borrow_limit = serializers.IntegerField(**_GPUS, **_OPTIONAL)
    lend_limit = serializers.IntegerField(**_GPUS, **_OPTIONAL)
    maximum = serializers.IntegerField(**_GPUS, **_OPTIONAL)
    max_hours = serializers.IntegerField(**_HOURS, **_OPTIONAL)


class GrantBody(serializers.Serializer[Any]):
    """What to add to a quota, and from when until right before when."""

    guaranteed = serializers.IntegerField(**_GPUS, required=False, default=0)
    borrow_limit = serializers.IntegerField(**_GPUS, required=False, default=0)
    maximum = serializers.IntegerField(**_GPUS, required=False, default=0)
    max_hours = serializers.IntegerField(**_HOURS, required=False, default=0)
    valid_from = serializers.DateTimeField()
    valid_until = serializers.DateTimeField()
    reason = serializers.CharField(max_length=255, required=False, default="", allow_blank=True)


class PolicyShape(serializers.Serializer[Any]):
    """Who is next; null and empty mean what is usual."""

    name = serializers.CharField()
    half_life_s = serializers.FloatField(allow_null=True)
    head_patience_s = serializers.FloatField(allow_null=True)
    placement = serializers.CharField(allow_blank=True)
    preempts = serializers.BooleanField(allow_null=True)
    created_at = serializers.DateTimeField()


class DialsShape(serializers.Serializer[Any]):
    """Every dial of the policy in force; times in seconds."""

    order = serializers.CharField()
    placement = serializers.CharField()
    preempts = serializers.BooleanField()
    min_run_s = serializers.FloatField()
    rest_s = serializers.FloatField()
    heads = serializers.IntegerField()
    head_patience_s = serializers.FloatField()
    half_life_s = serializers.FloatField()


class Policies(Part):
    """The policy in force first; without any row the settings of the server hold (`set_by`)."""

    in_force = serializers.CharField()
    set_by = serializers.CharField()
    dials = DialsShape()
    items = PolicyShape(many=True)


class PolicyBody(serializers.Serializer[Any]):
    """A new policy, in force at once. What would have no effect is refused."""

    name = serializers.CharField(max_length=16)
    half_life_s = serializers.FloatField(**_OPTIONAL)
    head_patience_s = serializers.FloatField(**_OPTIONAL)
    placement = serializers.CharField(max_length=16, required=False, default="", allow_blank=True)
    preempts = serializers.BooleanField(**_OPTIONAL)


class PoolRuleShape(serializers.Serializer[Any]):
    """A pool's own rule; null and empty mean what the cluster has. In force until it ended."""

    name = serializers.CharField()
    head_patience_s = serializers.FloatField(allow_null=True)
    placement = serializers.CharField(allow_blank=True)
    preempts = serializers.BooleanField(allow_null=True)
    created_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)


class PoolPolicies(Part):
    """What holds in a pool, and beside it what holds where no pool has its own. `may_wait_s`: how
    long jobs may wait until they go first, learnt from the pool's past; null where no order needs
    it."""

    pool = serializers.CharField()
    has_own = serializers.BooleanField()
    may_wait_s = serializers.FloatField(allow_null=True)
    dials = DialsShape()
    of_cluster = DialsShape()
    items = PoolRuleShape(many=True)


class PoolPolicyBody(serializers.Serializer[Any]):
    """A policy for one pool, in force at once. What would have no effect is refused; past use and
    its half-life are the cluster's."""

    name = serializers.CharField(max_length=16)
    head_patience_s = serializers.FloatField(**_OPTIONAL)
    placement = serializers.CharField(max_length=16, required=False, default="", allow_blank=True)
    preempts = serializers.BooleanField(**_OPTIONAL)


class CeilingShape(serializers.Serializer[Any]):
    """The highest tier of a team, a project, or with an empty `owner` the organisation."""

    owner = serializers.CharField(allow_blank=True)
    tier = serializers.CharField()


class Ceilings(Part):
    """`usual` holds where nobody on the way up to the organisation has one."""

    usual = serializers.CharField()
    items = CeilingShape(many=True)


class CeilingBody(serializers.Serializer[Any]):
    """Null lifts it. What would have no effect is refused."""

    owner = serializers.CharField(max_length=130, allow_blank=True)
    tier = serializers.CharField(max_length=16, allow_null=True)


class CapsShape(serializers.Serializer[Any]):
    """Caps of a team, a project, or with an empty `owner` the organisation; null is none."""

    owner = serializers.CharField(allow_blank=True)
    max_gpus_per_job = serializers.IntegerField(allow_null=True)
    max_running = serializers.IntegerField(allow_null=True)
    max_pending = serializers.IntegerField(allow_null=True)
    max_sessions = serializers.IntegerField(allow_null=True)


class CapsList(Part):
    """Accounts that have any."""

    items = CapsShape(many=True)


class CapsBody(serializers.Serializer[Any]):
    """Only what is named is changed; null lifts it. What would have no effect is refused."""

    owner = serializers.CharField(max_length=130, allow_blank=True)
    max_gpus_per_job = serializers.IntegerField(allow_null=True, required=False)
    max_running = serializers.IntegerField(allow_null=True, required=False)
    max_pending = serializers.IntegerField(allow_null=True, required=False)
    max_sessions = serializers.IntegerField(allow_null=True, required=False)


def show_grant(grant: Grant) -> dict[str, Any]:
    """As `GrantShape`."""
    return dict(GrantShape(grant).data)


def show_quota(quota: Quota) -> dict[str, Any]:
    """As `QuotaShape`."""
    return {
        "id": quota.pk,
        "owner": owner_path(quota),
        "pool": quota.pool.name if quota.pool else "",
        "gpu_model": quota.gpu_model,
        "guaranteed": quota.guaranteed,
        "borrow_limit": quota.borrow_limit,
        "lend_limit": quota.lend_limit,
        "maximum": quota.maximum,
        "max_hours": quota.max_hours,
        "held": quota.held,
        "borrowed": max(0, quota.held - quota.guaranteed),
        "grants": [show_grant(grant) for grant in grants_of(quota)],
    }
