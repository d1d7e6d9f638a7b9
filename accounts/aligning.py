"""Bring the stored rights of teams and projects in line with the table of rights.

A new version may add an action or take one from a role; after its migrations every group has
exactly what the table says, in a constant number of queries.
"""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib.auth.management import create_permissions
from django.contrib.auth.models import Group, Permission

from accounts.models import (
    Project,
    ProjectGroupObjectPermission,
    Role,
    Team,
    TeamGroupObjectPermission,
)
from accounts.policy import TABLE, TEAM, actions_of


def align_rights() -> int:
    """How many rows were missing or too many; 0 when all was in line."""
    create_permissions(apps.get_app_config("accounts"), verbosity=0)
    teams = {pk: pk for pk in Team.objects.values_list("pk", flat=True)}
    projects = dict(Project.objects.values_list("pk", "team_id"))
    changed = _align("team", TeamGroupObjectPermission, teams)
    return changed + _align("project", ProjectGroupObjectPermission, projects)


def _align(kind: str, table: Any, team_of: dict[int, int]) -> int:
    """`team_of`: the team of every thing of this kind, by its id."""
    groups = {
        name: pk
        for pk, name in Group.objects.filter(name__startswith=TEAM).values_list("pk", "name")
    }
    permissions = dict(
        Permission.objects.filter(
            content_type__app_label="accounts", content_type__model=kind, codename__in=TABLE[kind]
        ).values_list("codename", "pk")
    )
    wanted = {
        (groups[f"{TEAM}{team}:{role}"], thing, permissions[action])
        for thing, team in team_of.items()
        for role in Role.values
        if f"{TEAM}{team}:{role}" in groups
        for action in actions_of(kind, TEAM + role)
    }
    fields = ("group_id", "content_object_id", "permission_id")
    there = {row[1:]: row[0] for row in table.objects.values_list("pk", *fields)}
    missing = [dict(zip(fields, row, strict=True)) for row in sorted(wanted - there.keys())]
    table.objects.bulk_create([table(**row) for row in missing], batch_size=1000)
    surplus = [there[row] for row in there.keys() - wanted]
    for start in range(0, len(surplus), 500):
        table.objects.filter(pk__in=surplus[start : start + 500]).delete()
    return len(missing) + len(surplus)
