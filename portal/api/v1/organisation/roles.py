"""`/roles/…`: who holds which role of the organisation."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import OrganisationRole, RoleGrant
from accounts.selectors import get_person, role_grants
from accounts.services import confirm_role, give_role, take_role
from portal.api.operations import ApiView, body_of, operation
from portal.api.parts import PART_QUERY, Part, part_of
from portal.api.shapes import viewer_of


class GrantedRole(serializers.Serializer[Any]):
    """A role somebody holds, or (`confirmed_at` null) will hold once a second person agrees."""

    username = serializers.CharField()
    role = serializers.ChoiceField(OrganisationRole.choices)
    given_by = serializers.CharField(allow_null=True)
    given_at = serializers.DateTimeField()
    confirmed_by = serializers.CharField(allow_null=True)
    confirmed_at = serializers.DateTimeField(allow_null=True)
    by_groups = serializers.BooleanField(help_text="Given by groups at the identity provider.")


class GrantedRoles(Part):
    """All roles of the organisation that are held or wait."""

    items = GrantedRole(many=True)


class RoleBody(serializers.Serializer[Any]):
    """Who, and which role."""

    username = serializers.CharField(max_length=150)
    role = serializers.ChoiceField(OrganisationRole.choices)


def _show(grant: RoleGrant) -> dict[str, Any]:
    return {
        "username": grant.user.username,
        "role": grant.role,
        "given_by": grant.given_by.username if grant.given_by else None,
        "given_at": grant.given_at,
        "confirmed_by": grant.confirmed_by.username if grant.confirmed_by else None,
        "confirmed_at": grant.confirmed_at,
        "by_groups": grant.by_groups,
    }


class RoleList(ApiView):
    """`/roles/`."""

    @operation(
        "roles_list",
        "Who holds which role of the organisation",
        scope="people:read",
        query=PART_QUERY,
        reply=GrantedRoles,
    )
    def get(self, request: Request) -> Response:
        grants = role_grants(viewer_of(request))
        return Response(
            part_of(
                request,
                grants,
                lambda found: [_show(one) for one in found],
                key=lambda one: f"{one.role} {one.user_id}",
            )
        )

    @operation(
        "roles_give",
        "Give a role (administrators)",
        scope="people:write",
        body=RoleBody,
        reply=GrantedRole,
        status=201,
    )
    def post(self, request: Request) -> Response:
        sent, actor = body_of(request, RoleBody), viewer_of(request)
        person = get_person(actor, sent["username"])
        return Response(_show(give_role(actor=actor, user=person, role=sent["role"])), status=201)


class RoleConfirm(ApiView):
    """`/roles/confirm/`."""

    @operation(
        "roles_confirm",
        "Confirm a role that another administrator gave",
        scope="people:write",
        body=RoleBody,
        reply=GrantedRole,
    )
    def post(self, request: Request) -> Response:
        sent, actor = body_of(request, RoleBody), viewer_of(request)
        person = get_person(actor, sent["username"])
        return Response(_show(confirm_role(actor=actor, user=person, role=sent["role"])))


class RoleTake(ApiView):
    """`/roles/take/`."""

    @operation(
        "roles_take",
        "Take a role away, or withdraw one that waits (administrators)",
        scope="people:write",
        body=RoleBody,
        status=204,
    )
    def post(self, request: Request) -> Response:
        sent, actor = body_of(request, RoleBody), viewer_of(request)
        take_role(actor=actor, user=get_person(actor, sent["username"]), role=sent["role"])
        return Response(status=204)
