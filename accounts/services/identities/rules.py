"""Which group elsewhere gives which role here: kept by administrators, looked at before."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from accounts.errors import Conflict, Forbidden, Invalid, NotFound
from accounts.models import GroupRule, Membership, RoleGrant, Team, User
from accounts.models.identities import ORGANISATION_ROLES, TEAM_ROLES
from accounts.permissions import can
from accounts.services.audit import Subject, record
from accounts.services.identities.planning import Held, Rule, Step, steps_for

MOST_RULES = 1000
_MAX_GROUP = 255


@dataclass(frozen=True, slots=True)
class Effect:
    """What a change of the rules does to somebody when they next sign in. `team` None: in the
    organisation; `before` and `after` are roles, empty for none."""

    person: User
    team: Team | None
    before: str
    after: str

    @property
    def words(self) -> str:
        """`member in vision`, for a line of a list."""
        where = f"in {self.team.slug}" if self.team else "of the organisation"
        until_now = f", {self.before} until now" if self.before and self.after else ""
        return f"{self.after or self.before} {where}{until_now}"


def group_rules(viewer: User) -> list[GroupRule]:
    """All rules by group, with team and who added them; for those who read settings."""
    if not can(viewer, "read_settings", None):
        raise Forbidden("Only those who run, pay for or audit the cluster see its rules.")
    return list(GroupRule.objects.select_related("team", "added_by"))


def get_group_rule(viewer: User, number: int) -> GroupRule:
    """Raises Forbidden for who does not read settings, NotFound for a missing one."""
    if not can(viewer, "read_settings", None):
        raise Forbidden("Only those who run, pay for or audit the cluster see its rules.")
    found = GroupRule.objects.select_related("team", "added_by").filter(pk=number).first()
    if found is None:
        raise NotFound("There is no such rule.")
    return found


@transaction.atomic
def add_group_rule(
    *, actor: User, group: str, team: Team | None, role: str, now: datetime | None = None
) -> GroupRule:
    """Let a group give a role, from everybody's next sign-in on. Raises Forbidden for who is no
    administrator, Invalid that names the field, Conflict where the group has a rule there."""
    require_keeper(actor)
    group = _checked(group, team, role)
    if GroupRule.objects.count() >= MOST_RULES:
        raise Invalid(f"There are {MOST_RULES} rules; remove one first.", field="group")
    there = GroupRule.objects.filter(group=group, team=team)
    if team is None:
        there = there.filter(role=role)
    if found := there.first():
        raise Conflict(
            f"There is a rule for this already ({found}): remove it first.", field="group"
        )
    now = now or timezone.now()
    rule = GroupRule.objects.create(group=group, team=team, role=role, added_by=actor, added_at=now)
    after = {"group": group, "team": team.slug if team else None, "role": role}
    record(actor, "group_rule.add", _subject(rule), after=after)
    return rule


@transaction.atomic
def remove_group_rule(*, actor: User, rule: GroupRule) -> None:
    """End a rule; what it gave is taken back at everybody's next sign-in."""
    require_keeper(actor)
    if not GroupRule.objects.filter(pk=rule.pk).delete()[0]:
        raise NotFound("There is no such rule any more.")
    before = {"group": rule.group, "team": rule.team.slug if rule.team else None}
    record(actor, "group_rule.remove", _subject(rule), before={**before, "role": rule.role})


def preview_adding(*, viewer: User, group: str, team: Team | None, role: str) -> list[Effect]:
    """Whom one rule more would give or take what, by their groups at their last sign-in; by user
    name. Raises as `add_group_rule`."""
    require_keeper(viewer)
    group = _checked(group, team, role)
    return _effects(add=[(group, team.pk if team else None, role)])


def preview_removing(*, viewer: User, rule: GroupRule) -> list[Effect]:
    """The same for one rule less."""
    require_keeper(viewer)
    return _effects(without=[(rule.group, rule.team_id, rule.role)])


def _effects(*, add: Iterable[Rule] = (), without: Iterable[Rule] = ()) -> list[Effect]:
    now: list[Rule] = list(GroupRule.objects.values_list("group", "team_id", "role"))
    then = [rule for rule in now if rule not in list(without)]
    then += [rule for rule in add if rule not in now]
    known = SocialAccount.objects.filter(provider=settings.OIDC_ISSUER, user__is_active=True)
    accounts = list(known.select_related("user").order_by("user__username"))
    people = [account.user_id for account in accounts]
    held: dict[int, dict[int, Held]] = {}
    for person, team, role, by in Membership.objects.filter(user__in=people).values_list(
        "user_id", "team_id", "role", "by_groups"
    ):
        held.setdefault(person, {})[team] = Held(role, by)
    granted: dict[int, dict[str, bool]] = {}
    for person, role, by in RoleGrant.objects.filter(user__in=people).values_list(
        "user_id", "role", "by_groups"
    ):
        granted.setdefault(person, {})[role] = by
    found: list[tuple[User, Step]] = []
    for account in accounts:
        groups = account.extra_data.get("groups")
        if groups is None:
            continue
        mine = (held.get(account.user_id, {}), granted.get(account.user_id, {}))
        before = {_what(step) for step in steps_for(groups, now, *mine)}
        after = steps_for(groups, then, *mine)
        found += [(account.user, step) for step in after if _what(step) not in before]
    teams = Team.objects.in_bulk({step.team for _, step in found if step.team is not None})
    return [
        Effect(person, None if step.team is None else teams[step.team], step.before, step.after)
        for person, step in found
    ]


def _what(step: Step) -> tuple[int | None, str, str]:
    return step.team, step.before, step.after


def _subject(rule: GroupRule) -> Subject:
    return Subject("group_rule", str(rule.pk), str(rule), rule.team_id)


def require_keeper(actor: User) -> None:
    """Raises Forbidden for who does not keep the rules."""
    if not can(actor, "administer_cluster", None):
        raise Forbidden("Only administrators say what groups give.")


def _checked(group: str, team: Team | None, role: str) -> str:
    group = group.strip()
    if not group or len(group) > _MAX_GROUP or not group.isprintable():
        raise Invalid(
            f"Give the group's name as the provider tells it: one line of 1 to {_MAX_GROUP} "
            "characters.",
            field="group",
        )
    offered = ORGANISATION_ROLES if team is None else TEAM_ROLES
    if role not in offered:
        where = "the organisation" if team is None else "a team"
        raise Invalid(f"In {where} a group gives {' or '.join(offered)}.", field="role")
    return group
