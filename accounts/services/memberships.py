"""Who belongs to a team, in which role."""

from __future__ import annotations

from django.db import transaction

from accounts.errors import Conflict, Forbidden, Invalid, NotFound
from accounts.granting import enter_group
from accounts.held import forget_grants
from accounts.models import Membership, OrganisationRole, Role, RoleGrant, Team, User
from accounts.permissions import can, check_role, on_behalf_of
from accounts.services.audit import Subject, record


@transaction.atomic
def add_member(*, actor: User, team: Team, user: User, role: str = Role.MEMBER) -> Membership:
    """Put a person into a team; who is in it already gets the role as in `change_role`."""
    if team.memberships.filter(user=user).exists():
        return change_role(actor=actor, team=team, user=user, role=role)
    check_role(actor, team, role)
    if user.is_service:
        raise Invalid("A service account belongs to its own team alone.", field="username")
    giver = in_whose_place(actor, team, user)
    return join(actor=actor, team=team, user=user, role=role, on_behalf_of=giver)


def join(
    *,
    actor: User | None,
    team: Team,
    user: User,
    role: str,
    on_behalf_of: User | None = None,
    because: str = "",
) -> Membership:
    """Write the membership and its rights; the caller has checked who may. Raises Conflict for an
    auditor who would be an operator. `because`: by which groups, where no person adds them."""
    _keep_auditors_apart(user, role)
    membership, _ = Membership.objects.update_or_create(
        team=team, user=user, defaults={"role": role, "by_groups": actor is None}
    )
    enter_group(user, team, role)
    record(
        actor,
        "member.add",
        member_of(team, user),
        after={"role": role},
        on_behalf_of=on_behalf_of,
        reason=because,
    )
    return membership


@transaction.atomic
def follow_groups(*, team: Team, user: User, role: str, because: str) -> None:
    """Give, change or (role empty) take back what groups elsewhere give in a team, and nothing
    that a person gave. Raises Conflict for the last lead, and where a hand was faster."""
    Team.objects.select_for_update(no_key=True).get(pk=team.pk)
    current = Membership.objects.select_for_update().filter(team=team, user=user).first()
    if current is None:
        if role:
            join(actor=None, team=team, user=user, role=role, because=because)
        return
    if not current.by_groups:
        raise Conflict("A person gave this role, so groups leave it as it is.")
    before = {"role": current.role}
    if not role:
        _leave(team, current)
        record(None, "member.remove", member_of(team, user), before=before, reason=because)
    elif role != current.role:
        if role != Role.LEAD:
            _keep_a_lead(team, current)
        Membership.objects.filter(pk=current.pk).update(role=role)
        enter_group(user, team, role)
        about, after = member_of(team, user), {"role": role}
        record(None, "member.change_role", about, before=before, after=after, reason=because)


def member_of(team: Team, user: User) -> Subject:
    """A person in a team, as what a change is about."""
    return Subject("membership", f"{team.pk}/{user.pk}", f"{user.username} in {team.slug}", team.pk)


@transaction.atomic
def change_role(*, actor: User, team: Team, user: User, role: str) -> Membership:
    """Give a member another role; the last lead keeps theirs."""
    check_role(actor, team, role)
    current = _membership(team, user, by=actor)
    check_role(actor, team, role)
    if current.role == Role.OPERATOR and not can(actor, "operate", None):
        raise Forbidden("Only an operator may take the operator role away.")
    giver = in_whose_place(actor, team, user)
    if current.role == Role.LEAD and giver is not None:
        raise Forbidden("Who acts for a lead takes that role from nobody. Ask the lead.")
    _keep_auditors_apart(user, role)
    if role != Role.LEAD:
        _keep_a_lead(team, current)
    before = {"role": current.role}
    # What a person decides stays, whatever groups elsewhere say.
    Membership.objects.filter(pk=current.pk).update(role=role, by_groups=False)
    current.role, current.by_groups = role, False
    enter_group(user, team, role)
    record(
        actor,
        "member.change_role",
        member_of(team, user),
        before=before,
        after={"role": role},
        on_behalf_of=giver,
    )
    return current


@transaction.atomic
def remove_member(*, actor: User, team: Team, user: User) -> None:
    """Take a person out of a team; their access ends with the next request."""
    current = _membership(team, user, by=actor)
    check_role(actor, team, current.role)
    giver, before = on_behalf_of(actor, "manage_team", team), {"role": current.role}
    _leave(team, current)
    record(actor, "member.remove", member_of(team, user), before=before, on_behalf_of=giver)


@transaction.atomic
def leave_team(*, actor: User, team: Team) -> None:
    """Leave a team oneself; the last lead may not."""
    current = _membership(team, actor, by=actor)
    _leave(team, current)
    enter_group(actor, team, "")
    record(actor, "member.leave", member_of(team, actor), before={"role": current.role})


def in_whose_place(actor: User, team: Team, user: User) -> User | None:
    """For whom the actor manages the team; a deputy gives themselves nothing."""
    giver = on_behalf_of(actor, "manage_team", team)
    if giver is not None and actor.pk == user.pk:
        raise Forbidden("You act for somebody else here, and give yourself nothing.")
    return giver


def _keep_auditors_apart(user: User, role: str) -> None:
    if role != Role.OPERATOR:
        return
    # As a role of the organisation is given: one of the two comes first.
    User.objects.select_for_update(no_key=True).get(pk=user.pk)
    if RoleGrant.objects.filter(user=user, role=OrganisationRole.AUDITOR).exists():
        raise Conflict(
            "An operator of a team runs the cluster, and an auditor changes nothing: take the "
            "auditor role away first."
        )


def _membership(team: Team, user: User, *, by: User) -> Membership:
    # One change of members at a time, else two leads who leave together leave nobody behind; and
    # who waited for it may have lost the right.
    Team.objects.select_for_update(no_key=True).get(pk=team.pk)
    forget_grants(by)
    found = (
        Membership.objects.select_for_update(of=("self",))
        .select_related("user")
        .filter(team=team, user=user)
        .first()
    )
    if found is None:
        raise NotFound("This person is not in the team.")
    return found


def _keep_a_lead(team: Team, membership: Membership) -> None:
    leads = Membership.objects.filter(team=team, role=Role.LEAD, user__is_active=True)
    others = leads.exclude(pk=membership.pk)
    if membership.role == Role.LEAD and not others.exists():
        raise Conflict("This is the team's last lead. Make somebody else a lead first.")


def _leave(team: Team, membership: Membership) -> None:
    _keep_a_lead(team, membership)
    user = membership.user
    membership.delete()
    enter_group(user, team, "")
