"""`/groups/…`: which group at the identity provider gives which role."""

from __future__ import annotations

from typing import Any

from django.urls import path
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.errors import Invalid, NotFound
from accounts.models import GroupRule, Team, User
from accounts.selectors import get_visible_team
from accounts.services.identities.rules import (
    Effect,
    add_group_rule,
    get_group_rule,
    group_rules,
    preview_adding,
    preview_removing,
    remove_group_rule,
    require_keeper,
)
from portal.api.operations import ApiView, body_of, operation
from portal.api.parts import PART_QUERY, Part, part_of
from portal.api.shapes import viewer_of

_ROLES = "In a team member, lead or finance; in the organisation operator, finance or auditor."


class GroupRuleShape(serializers.Serializer[Any]):
    """Who is in `group` has `role` in `team`, or (null) in the organisation."""

    id = serializers.IntegerField()
    group = serializers.CharField()
    team = serializers.CharField(allow_null=True)
    role = serializers.CharField(max_length=16, help_text=_ROLES)
    added_by = serializers.CharField(allow_null=True)
    added_at = serializers.DateTimeField()


class GroupRules(Part):
    """All rules, by group."""

    items = GroupRuleShape(many=True)


class GroupRuleBody(serializers.Serializer[Any]):
    """A group as the provider tells it, and what it gives; an empty team: the organisation."""

    group = serializers.CharField(max_length=255)
    team = serializers.CharField(max_length=63, required=False, default="", allow_blank=True)
    role = serializers.CharField(max_length=16, help_text=_ROLES)


class GroupPreviewBody(serializers.Serializer[Any]):
    """The rule that would be added, or by `remove` the number of one that would go."""

    group = serializers.CharField(max_length=255, required=False, default="", allow_blank=True)
    team = serializers.CharField(max_length=63, required=False, default="", allow_blank=True)
    role = serializers.CharField(max_length=16, required=False, default="member", help_text=_ROLES)
    remove = serializers.IntegerField(required=False, allow_null=True, default=None, min_value=1)


class GroupEffect(serializers.Serializer[Any]):
    """What happens to somebody at their next sign-in; `before` and `after` are roles or null."""

    username = serializers.CharField()
    team = serializers.CharField(allow_null=True)
    before = serializers.CharField(allow_null=True)
    after = serializers.CharField(allow_null=True)


class GroupEffects(serializers.Serializer[Any]):
    """By user name."""

    items = GroupEffect(many=True)


def _show(rule: GroupRule) -> dict[str, Any]:
    return {
        "id": rule.pk,
        "group": rule.group,
        "team": rule.team.slug if rule.team else None,
        "role": rule.role,
        "added_by": rule.added_by.username if rule.added_by else None,
        "added_at": rule.added_at,
    }


def _shown(effect: Effect) -> dict[str, Any]:
    return {
        "username": effect.person.username,
        "team": effect.team.slug if effect.team else None,
        "before": effect.before or None,
        "after": effect.after or None,
    }


def _team(viewer: User, slug: str) -> Team | None:
    require_keeper(viewer)
    if not slug:
        return None
    try:
        return get_visible_team(viewer, slug)
    except NotFound as missing:
        raise Invalid("There is no such team for you.", field="team") from missing


class GroupList(ApiView):
    """`/groups/`."""

    @operation(
        "groups_list",
        "Which group at the identity provider gives which role",
        scope="people:read",
        query=PART_QUERY,
        reply=GroupRules,
    )
    def get(self, request: Request) -> Response:
        rules = group_rules(viewer_of(request))
        return Response(
            part_of(
                request,
                rules,
                lambda found: [_show(one) for one in found],
                key=lambda one: f"{one.pk}",
            )
        )

    @operation(
        "groups_add",
        "Let a group give a role from the next sign-in on (administrators)",
        scope="people:write",
        body=GroupRuleBody,
        reply=GroupRuleShape,
        status=201,
    )
    def post(self, request: Request) -> Response:
        sent, actor = body_of(request, GroupRuleBody), viewer_of(request)
        wanted = {"group": sent["group"], "role": sent["role"]}
        rule = add_group_rule(actor=actor, team=_team(actor, sent["team"]), **wanted)
        return Response(_show(rule), status=201)


class GroupPreview(ApiView):
    """`/groups/preview/`."""

    @operation(
        "groups_preview",
        "Whom a rule more or less would give or take what (administrators); changes nothing",
        scope="people:read",
        body=GroupPreviewBody,
        reply=GroupEffects,
    )
    def post(self, request: Request) -> Response:
        sent, viewer = body_of(request, GroupPreviewBody), viewer_of(request)
        if sent["remove"] is not None:
            rule = get_group_rule(viewer, sent["remove"])
            found = preview_removing(viewer=viewer, rule=rule)
        else:
            wanted = {"group": sent["group"], "role": sent["role"]}
            found = preview_adding(viewer=viewer, team=_team(viewer, sent["team"]), **wanted)
        return Response({"items": [_shown(one) for one in found]})


class GroupByNumber(ApiView):
    """`/groups/<number>/`."""

    @operation(
        "groups_remove",
        "End a rule; what it gave goes at the next sign-in (administrators)",
        scope="people:write",
        status=204,
    )
    def delete(self, request: Request, pk: int) -> Response:
        actor = viewer_of(request)
        remove_group_rule(actor=actor, rule=get_group_rule(actor, pk))
        return Response(status=204)


group_urls = [
    path("groups/", GroupList.as_view(), name="groups"),
    path("groups/preview/", GroupPreview.as_view(), name="groups_preview"),
    path("groups/<int:pk>/", GroupByNumber.as_view(), name="group"),
]
