"""`/projects/<team>/<project>/idle-rule/` and `/pools/<name>/idle-rule/`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import Project, User
from accounts.selectors import get_visible_project
from portal.api.operations import ApiView, body_of, operation
from portal.api.shapes import viewer_of
from portal.api.v1.standing.idle import ACTS
from scheduler.models import Pool
from scheduler.selectors.cluster import get_visible_pool
from scheduler.selectors.idling.rules import idle_rule_of
from scheduler.services.idling.rules import BOUNDS, IdleTerms, end_idle_rule, set_idle_rule
from scheduler.services.idling.trying import MAX_DAYS, try_idle_rule


def _whole(name: str, **more: Any) -> serializers.IntegerField:
    least, most = BOUNDS[name]
    return serializers.IntegerField(min_value=least, max_value=most, **more)


class IdleRuleBody(serializers.Serializer[Any]):
    """A job is warned when every GPU stayed below the per cent for `warn_minutes`, the
    `first_minutes` of an attempt aside; `act` follows `act_minutes` later, null for `tell`. Its
    owner may keep an attempt for `keep_hours` in all."""

    act = serializers.ChoiceField(ACTS)
    below_percent = _whole("below_percent", required=False, default=5)
    first_minutes = _whole("first_minutes", required=False, default=30)
    warn_minutes = _whole("warn_minutes", required=False, default=60)
    act_minutes = _whole("act_minutes", required=False, default=None, allow_null=True)
    keep_hours = _whole("keep_hours", required=False, default=24)


class IdleTrialBody(IdleRuleBody):
    """The same, and over how many of the last days."""

    days = serializers.IntegerField(min_value=1, max_value=MAX_DAYS, required=False, default=7)


class IdleRuleShape(serializers.Serializer[Any]):
    """`is_on` false: nobody is warned by it; the others are null where there never was one."""

    owner = serializers.CharField()
    is_on = serializers.BooleanField()
    act = serializers.ChoiceField(ACTS, allow_null=True)
    below_percent = serializers.IntegerField(allow_null=True)
    first_minutes = serializers.IntegerField(allow_null=True)
    warn_minutes = serializers.IntegerField(allow_null=True)
    act_minutes = serializers.IntegerField(allow_null=True)
    keep_hours = serializers.IntegerField(allow_null=True)
    set_at = serializers.DateTimeField(allow_null=True)
    set_by = serializers.CharField(allow_null=True)


class IdleRules(IdleRuleShape):
    """The rule of a project or pool, and those of pools that hold beside that of a project."""

    also = IdleRuleShape(many=True)


class TriedJobShape(serializers.Serializer[Any]):
    """An attempt that would have been warned; `act_at` null: nothing would have followed."""

    job = serializers.IntegerField()
    name = serializers.CharField()
    owner = serializers.CharField()
    attempt = serializers.IntegerField()
    gpus = serializers.IntegerField()
    idle_since = serializers.DateTimeField()
    warned_at = serializers.DateTimeField()
    act_at = serializers.DateTimeField(allow_null=True)
    freed_gpu_s = serializers.IntegerField()


class IdleTrialShape(serializers.Serializer[Any]):
    """Of `attempts` that ran long enough: how many would have been warned, and paused or stopped if
    nobody had answered; `freed_gpu_s` GPU-seconds they held after that. `rows` are those that held
    most; readings from before `exact_since`, if it `has_hours`, are told below `site_percent`."""

    days = serializers.IntegerField()
    attempts = serializers.IntegerField()
    warned = serializers.IntegerField()
    acted = serializers.IntegerField()
    freed_gpu_s = serializers.IntegerField()
    exact_since = serializers.DateTimeField()
    has_hours = serializers.BooleanField()
    site_percent = serializers.IntegerField()
    rows = TriedJobShape(many=True)


class ProjectIdleRule(ApiView):
    """`/projects/<team>/<project>/idle-rule/`."""

    @operation(
        "project_idle_rule",
        "What happens to a project's jobs whose GPUs do little",
        scope="jobs:read",
        reply=IdleRules,
    )
    def get(self, request: Request, team: str, project: str) -> Response:
        return _show(viewer_of(request), _project(request, team, project))

    @operation(
        "project_idle_rule_set",
        "Warn, pause or stop a project's jobs whose GPUs do little (leads)",
        scope="people:write",
        body=IdleRuleBody,
        reply=IdleRules,
    )
    def post(self, request: Request, team: str, project: str) -> Response:
        return _set(request, _project(request, team, project))

    @operation(
        "project_idle_rule_end",
        "Switch a project's rule for GPUs that do little off (leads)",
        scope="people:write",
        reply=IdleRules,
    )
    def delete(self, request: Request, team: str, project: str) -> Response:
        return _end(request, _project(request, team, project))


class ProjectIdleTrial(ApiView):
    """`/projects/<team>/<project>/idle-rule/trial/`."""

    @operation(
        "project_idle_rule_try",
        "Whom such a rule would have warned, paused or stopped lately (leads); does nothing",
        scope="people:write",
        body=IdleTrialBody,
        reply=IdleTrialShape,
    )
    def post(self, request: Request, team: str, project: str) -> Response:
        return _try(request, _project(request, team, project))


class PoolIdleRule(ApiView):
    """`/pools/<name>/idle-rule/`."""

    @operation(
        "pool_idle_rule",
        "What happens to jobs in a pool whose GPUs do little",
        scope="jobs:read",
        reply=IdleRules,
    )
    def get(self, request: Request, name: str) -> Response:
        return _show(viewer_of(request), get_visible_pool(viewer_of(request), name))

    @operation(
        "pool_idle_rule_set",
        "Warn, pause or stop jobs in a pool whose GPUs do little (operators)",
        scope="nodes:write",
        body=IdleRuleBody,
        reply=IdleRules,
    )
    def post(self, request: Request, name: str) -> Response:
        return _set(request, get_visible_pool(viewer_of(request), name))

    @operation(
        "pool_idle_rule_end",
        "Switch a pool's rule for GPUs that do little off (operators)",
        scope="nodes:write",
        reply=IdleRules,
    )
    def delete(self, request: Request, name: str) -> Response:
        return _end(request, get_visible_pool(viewer_of(request), name))


class PoolIdleTrial(ApiView):
    """`/pools/<name>/idle-rule/trial/`."""

    @operation(
        "pool_idle_rule_try",
        "Whom such a rule would have warned, paused or stopped lately (operators); does nothing",
        scope="nodes:write",
        body=IdleTrialBody,
        reply=IdleTrialShape,
    )
    def post(self, request: Request, name: str) -> Response:
        return _try(request, get_visible_pool(viewer_of(request), name))


def _project(request: Request, team: str, project: str) -> Project:
    return get_visible_project(viewer_of(request), f"{team}/{project}")


def _set(request: Request, owner: Project | Pool) -> Response:
    actor, terms = viewer_of(request), IdleTerms(**body_of(request, IdleRuleBody))
    set_idle_rule(actor=actor, owner=owner, terms=terms)
    return _show(actor, owner)


def _end(request: Request, owner: Project | Pool) -> Response:
    actor = viewer_of(request)
    end_idle_rule(actor=actor, owner=owner)
    return _show(actor, owner)


def _try(request: Request, owner: Project | Pool) -> Response:
    sent = body_of(request, IdleTrialBody)
    days = sent.pop("days")
    trial = try_idle_rule(
        actor=viewer_of(request),
        owner=owner,
        terms=IdleTerms(**sent),
        days=days,
        now=timezone.now(),
    )
    return Response(asdict(trial))


def _show(viewer: User, owner: Project | Pool) -> Response:
    view = idle_rule_of(viewer, owner)
    name = f"pool {owner.name}" if isinstance(owner, Pool) else f"project {owner.path}"
    fields = IdleTerms.__slots__
    shown: dict[str, Any] = {"owner": name, "is_on": False, "set_at": None, "set_by": None}
    shown |= dict.fromkeys(fields)
    if view.rule is not None:
        shown = _row(view.rule)
    return Response({**shown, "also": [_row(one) for one in view.also]})


def _row(rule: Any) -> dict[str, Any]:
    return {
        "owner": rule.owner,
        "is_on": rule.is_on,
        **{name: getattr(rule, name) for name in IdleTerms.__slots__},
        "set_at": rule.set_at,
        "set_by": rule.set_by.username if rule.set_by else None,
    }
