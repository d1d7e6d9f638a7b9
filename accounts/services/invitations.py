"""Single-use invitations into a team."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from accounts.errors import Conflict, Forbidden, Invalid
from accounts.models import Invitation, Role, Team, User
from accounts.permissions import check_role, on_behalf_of
from accounts.secrets import hash_secret
from accounts.selectors import get_open_invitation
from accounts.selectors.addresses import clean_email
from accounts.services.audit import Subject, record
from accounts.services.memberships import in_whose_place, join
from accounts.services.people import create_user

INVITATION_LIFE = timedelta(days=7)
MAX_OPEN = 100


@transaction.atomic
def invite(
    *, actor: User, team: Team, email: str, role: str = Role.MEMBER, now: datetime | None = None
) -> tuple[Invitation, str]:
    """An invitation and its secret, which is shown or mailed once and never stored.

    It takes the place of an open one for the same address that the actor may withdraw; Invalid
    for another.
    """
    check_role(actor, team, role)
    now = now or timezone.now()
    email = clean_email(email)
    if team.memberships.filter(user__email__iexact=email).exists():
        raise Invalid("This person is in the team already.", field="email")
    still_open = team.invitations.filter(
        accepted_at__isnull=True, revoked_at__isnull=True, expires_at__gt=now
    )
    for older in still_open.filter(email__iexact=email).order_by("pk"):
        _check_older(actor, older)
        _withdraw(actor, older, now, reason="Another one for the same address takes its place.")
    if still_open.count() >= MAX_OPEN:
        raise Invalid(
            f"The team has {MAX_OPEN} open invitations; withdraw one first.", field="email"
        )
    secret = secrets.token_urlsafe(32)
    invitation = Invitation.objects.create(
        team=team,
        email=email,
        role=role,
        token_hash=hash_secret(secret),
        invited_by=actor,
        expires_at=now + INVITATION_LIFE,
    )
    record(
        actor,
        "invitation.send",
        _invitation(invitation),
        after={"email": email, "role": role, "expires_at": invitation.expires_at},
        on_behalf_of=on_behalf_of(actor, "manage_team", team),
    )
    return invitation, secret


def _check_older(actor: User, older: Invitation) -> None:
    try:
        check_role(actor, older.team, older.role)
    except Forbidden:
        role = older.get_role_display().lower()
        raise Invalid(
            f"This address has an open invitation as {role}, which you may not withdraw. Ask who "
            "sent it.",
            field="email",
        ) from None


def _invitation(invitation: Invitation) -> Subject:
    team = invitation.team
    return Subject("invitation", str(invitation.pk), f"{invitation.email} to {team.slug}", team.pk)


@transaction.atomic
def revoke_invitation(
    *, actor: User, invitation: Invitation, now: datetime | None = None
) -> Invitation:
    """Withdraw an invitation. Raises Conflict for one that was accepted or withdrawn before."""
    check_role(actor, invitation.team, invitation.role)
    if not _withdraw(actor, invitation, now or timezone.now()):
        was = "accepted" if invitation.accepted_at else "withdrawn"
        raise Conflict(f"This invitation has been {was} already.")
    return invitation


def _withdraw(actor: User, invitation: Invitation, now: datetime, reason: str = "") -> bool:
    """Whether it was open until now; then it is on record."""
    still_open = Invitation.objects.filter(
        pk=invitation.pk, accepted_at__isnull=True, revoked_at__isnull=True
    )
    is_withdrawn = still_open.update(revoked_at=now)
    invitation.refresh_from_db()
    if is_withdrawn:
        record(
            actor,
            "invitation.revoke",
            _invitation(invitation),
            before={"role": invitation.role},
            on_behalf_of=on_behalf_of(actor, "manage_team", invitation.team),
            reason=reason,
        )
    return bool(is_withdrawn)


@transaction.atomic
def accept_invitation(
    *,
    secret: str,
    user: User | None = None,
    username: str = "",
    password: str | None = "",
    display_name: str = "",
    now: datetime | None = None,
) -> User:
    """Join the team, as `user` or as a new person; the invitation is spent. Who is in the team
    already keeps their role, and that one is on record. `password` None: who signs in elsewhere.

    Raises NotFound for an unknown, used, revoked or expired invitation, and for one whose sender
    may not give this role any more; Forbidden for a deputy's own; Invalid for what a person can
    mend (then the invitation is kept).
    """
    now = now or timezone.now()
    invitation = get_open_invitation(secret, now=now)
    if user is not None and invitation.invited_by is not None:
        in_whose_place(invitation.invited_by, invitation.team, user)
    if user is None:
        user = create_user(
            username=username,
            email=invitation.email,
            password=password,
            display_name=display_name,
        )
    still_open = Invitation.objects.filter(
        pk=invitation.pk, accepted_at__isnull=True, revoked_at__isnull=True, expires_at__gt=now
    )
    if not still_open.update(accepted_at=now):
        raise Conflict("This invitation has just been used or withdrawn.")
    membership = invitation.team.memberships.filter(user=user).first()
    is_there = membership is not None
    if membership is None:
        membership = join(actor=user, team=invitation.team, user=user, role=invitation.role)
    record(
        user,
        "invitation.accept",
        _invitation(invitation),
        after={"role": membership.role},
        reason="They were in the team already and keep their role." if is_there else "",
    )
    return user
