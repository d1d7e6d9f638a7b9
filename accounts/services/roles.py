"""Roles of the organisation: given and taken by administrators, an administrator's by two."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from accounts.errors import Conflict, Forbidden, Invalid, NotFound
from accounts.granting import enter_organisation
from accounts.models import Membership, OrganisationRole, Role, RoleGrant, User
from accounts.models.identities import ORGANISATION_ROLES
from accounts.permissions import can
from accounts.services.audit import record

_WORDS = ", ".join(OrganisationRole.values)


@transaction.atomic
def give_role(*, actor: User, user: User, role: str, now: datetime | None = None) -> RoleGrant:
    """Let `user` hold a role of the organisation; who holds it already keeps it.

    Nobody gives themselves one. While there is another administrator besides the actor, a new
    administrator waits for their `confirm_role`. An auditor holds no other role, and is a team's
    operator nowhere: who audits changes nothing.
    """
    _check(actor, role)
    if user.pk == actor.pk:
        raise Forbidden("Nobody gives a role to themselves. Ask another administrator.")
    if user.is_service:
        raise Invalid("Roles of the organisation are for people.", field="username")
    there = _locked(actor, user)
    if not user.is_active:
        raise Invalid("This account is not active.", field="username")
    if role in there:
        # What a person gives stays, whatever groups elsewhere say.
        RoleGrant.objects.filter(pk=there[role].pk, by_groups=True).update(by_groups=False)
        return there[role]
    _keep_auditors_apart(role, set(there))
    if role == OrganisationRole.AUDITOR:
        _keep_team_operators_apart(user)
    now = now or timezone.now()
    waits = role == OrganisationRole.ADMIN and _administrators().exclude(pk=actor.pk).exists()
    grant = RoleGrant.objects.create(
        user=user,
        role=role,
        given_by=actor,
        given_at=now,
        confirmed_by=None if waits else actor,
        confirmed_at=None if waits else now,
    )
    if not waits:
        enter_organisation(user, role, holds=True)
    record(actor, "role.propose" if waits else "role.give", user, after={"role": role})
    return grant


@transaction.atomic
def confirm_role(*, actor: User, user: User, role: str, now: datetime | None = None) -> RoleGrant:
    """Let a grant that waits for a second person hold; not by the one who gave it."""
    _check(actor, role)
    grant = _locked(actor, user).get(role)
    if grant is None:
        raise NotFound("Nobody gave this person this role.")
    if grant.confirmed_at is not None:
        raise Conflict("This role is confirmed already.")
    if actor.pk in (grant.given_by_id, user.pk):
        raise Forbidden("Another administrator has to confirm this role.")
    if not user.is_active:
        raise Conflict("This account is not active: let the person in again first.")
    grant.confirmed_by, grant.confirmed_at = actor, now or timezone.now()
    grant.save(update_fields=["confirmed_by", "confirmed_at"])
    enter_organisation(user, role, holds=True)
    record(actor, "role.confirm", user, after={"role": role})
    return grant


@transaction.atomic
def take_role(*, actor: User, user: User, role: str) -> None:
    """End a role, or withdraw one that waits; access ends with the next request."""
    _check(actor, role)
    grant = _locked(actor, user).get(role)
    if grant is None:
        raise NotFound("This person does not hold this role.")
    if role == OrganisationRole.ADMIN and grant.confirmed_at is not None:
        others = _administrators().exclude(pk=user.pk)
        if not others.exists():
            raise Conflict("This is the last administrator. Make somebody else one first.")
    grant.delete()
    if grant.confirmed_at is not None:
        enter_organisation(user, role, holds=False)
    record(
        actor, "role.take" if grant.confirmed_at else "role.withdraw", user, before={"role": role}
    )


@transaction.atomic
def follow_groups(
    *, user: User, role: str, holds: bool, because: str, now: datetime | None = None
) -> None:
    """Give or take back what groups elsewhere give in the organisation; never an administrator's
    role, and nothing that a person gave. Raises Conflict for roles that do not go together."""
    if role not in ORGANISATION_ROLES:
        raise Invalid(f"Choose one of {', '.join(ORGANISATION_ROLES)}.", field="role")
    User.objects.select_for_update(no_key=True).get(pk=user.pk)
    there = {grant.role: grant for grant in RoleGrant.objects.filter(user=user)}
    if holds and role not in there:
        held = set(there) | ({OrganisationRole.ADMIN} if user.is_superuser else set())
        _keep_auditors_apart(role, held)
        if role == OrganisationRole.AUDITOR:
            _keep_team_operators_apart(user)
        now = now or timezone.now()
        more = {"given_at": now, "confirmed_at": now, "by_groups": True}
        RoleGrant.objects.create(user=user, role=role, **more)
        enter_organisation(user, role, holds=True)
        record(None, "role.give", user, after={"role": role}, reason=because)
    elif not holds and role in there and there[role].by_groups:
        there[role].delete()
        enter_organisation(user, role, holds=False)
        record(None, "role.take", user, before={"role": role}, reason=because)


def _check(actor: User, role: str) -> None:
    if role not in OrganisationRole.values:
        raise Invalid(f"Choose one of {_WORDS}.", field="role")
    _check_right(actor)


def _check_right(actor: User) -> None:
    if not can(actor, "administer_cluster", None):
        raise Forbidden("Only administrators give and take roles of the organisation.")


def _administrators() -> QuerySet[User]:
    return User.objects.filter(is_superuser=True, is_active=True)


def _locked(actor: User, user: User, now: datetime | None = None) -> dict[str, RoleGrant]:
    """The person's grants by role, after a lock on both people and on all administrators: of two
    who take each other's role the second finds that it is none any more."""
    wanted = Q(pk__in=(actor.pk, user.pk)) | Q(is_superuser=True)
    for one in User.objects.select_for_update(no_key=True).filter(wanted).order_by("pk"):
        if one.pk == user.pk:
            user.is_superuser, user.is_active = one.is_superuser, one.is_active
        if one.pk == actor.pk:
            _check_right(one)
    there = {grant.role: grant for grant in RoleGrant.objects.filter(user=user)}
    if user.is_superuser and OrganisationRole.ADMIN not in there:
        # The first administrator was made on the server itself, by nobody.
        now = now or timezone.now()
        there[OrganisationRole.ADMIN] = RoleGrant.objects.create(
            user=user, role=OrganisationRole.ADMIN, given_at=now, confirmed_at=now
        )
    return there


def _keep_auditors_apart(role: str, there: set[str]) -> None:
    auditor = OrganisationRole.AUDITOR
    if role == auditor and there:
        raise Conflict(
            f"An auditor changes nothing: take the roles {', '.join(sorted(there))} away first."
        )
    if auditor in there:
        raise Conflict("An auditor changes nothing: take the auditor role away first.")


def _keep_team_operators_apart(user: User) -> None:
    """Operators of a team run the cluster (decision 33)."""
    runs = Membership.objects.filter(user=user, role=Role.OPERATOR).order_by("team__slug")
    if where := ", ".join(runs.values_list("team__slug", flat=True)):
        raise Conflict(
            f"An auditor changes nothing, and this person is an operator in {where}: change that "
            "role first."
        )
