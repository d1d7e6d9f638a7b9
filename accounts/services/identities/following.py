"""Bringing somebody in line with the groups that their provider told."""

from __future__ import annotations

import logging

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.db import transaction

from accounts.errors import Conflict
from accounts.models import GroupRule, Membership, RoleGrant, Team, User
from accounts.services import memberships, roles
from accounts.services.identities.planning import Held, Step, steps_for

logger = logging.getLogger(__name__)


@transaction.atomic
def follow_groups(*, user: User, groups: frozenset[str] | None) -> list[str]:
    """Give what the rules give to `groups` and take back what no group gives any more; None, groups
    that were not told, changes nothing.

    What cannot be (the last lead of a team leaves, an auditor holds another role) is left as it
    is, and said: one sentence each.
    """
    if groups is None:
        logger.warning("the groups of %s were not told; what they gave stays", user.username)
        return []
    # Of two sign-ins at once the second finds what the first one gave.
    list(SocialAccount.objects.select_for_update().filter(user=user))
    rules = list(GroupRule.objects.values_list("group", "team_id", "role"))
    held = {
        team: Held(role, by_groups)
        for team, role, by_groups in Membership.objects.filter(user=user).values_list(
            "team_id", "role", "by_groups"
        )
    }
    granted = dict(RoleGrant.objects.filter(user=user).values_list("role", "by_groups"))
    steps = steps_for(groups, rules, held, granted)
    teams = Team.objects.in_bulk({step.team for step in steps if step.team is not None})
    left = []
    for step in steps:
        try:
            with transaction.atomic():
                _take(user, step, teams)
        except Conflict as refused:
            where = teams[step.team].slug if step.team is not None else "the organisation"
            left.append(f"{where}: {refused.detail}")
            logger.warning("groups of %s leave %s as it is: %s", user.username, where, refused)
    return left


def _take(user: User, step: Step, teams: dict[int, Team]) -> None:
    given = f"By groups at {settings.OIDC_NAME}: {', '.join(step.groups)}."
    taken = f"No group at {settings.OIDC_NAME} gives it any more."
    because = given if step.after else taken
    if step.team is not None:
        team = teams[step.team]
        memberships.follow_groups(team=team, user=user, role=step.after, because=because)
        return
    role = step.after or step.before
    roles.follow_groups(user=user, role=role, holds=bool(step.after), because=because)
