"""Letting somebody act in one's place for a time."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from accounts.errors import Conflict, Forbidden, Invalid, NotFound
from accounts.granting import enter_deputies
from accounts.models import Delegation, DelegationScope, Team, User
from accounts.permissions import in_own_right
from accounts.services.audit import record

LONGEST = timedelta(days=366)
MAX_OPEN = 50
# Of "from now on": a form takes its time.
_PAST = timedelta(minutes=5)


@transaction.atomic
def delegate(
    *,
    actor: User,
    deputy: User,
    scope: str,
    starts_at: datetime,
    ends_at: datetime,
    team: Team | None = None,
    reason: str = "",
    now: datetime | None = None,
) -> Delegation:
    """Let `deputy` act for the actor from one moment until right before another.

    For a lead in one team or (None) wherever the actor leads; for those who decide as
    administrators or finance, without a team. Only what the actor may do in their own right can be
    lent, so a deputy lends nothing on. Raises Forbidden, Invalid.
    """
    now = now or timezone.now()
    if scope not in DelegationScope.values:
        raise Invalid(f"Choose one of {', '.join(DelegationScope.values)}.", field="scope")
    require_lender(actor, scope, team)
    if deputy.pk == actor.pk:
        raise Invalid("Choose another person than yourself.", field="deputy")
    if deputy.is_service or not deputy.is_active:
        raise Invalid("Only a person with an active account can act for you.", field="deputy")
    _check_time(starts_at, ends_at, now)
    open_ones = Delegation.objects.filter(giver=actor, ended_early_at__isnull=True, ends_at__gt=now)
    if open_ones.count() >= MAX_OPEN:
        raise Invalid(f"You have {MAX_OPEN} delegations; end one first.", field="deputy")
    made = Delegation.objects.create(
        giver=actor,
        deputy=deputy,
        scope=scope,
        team=team,
        starts_at=starts_at,
        ends_at=ends_at,
        reason=reason.strip()[:255],
    )
    enter_deputies(deputy)
    record(actor, "delegation.give", made, after=_picture(made), reason=made.reason)
    return made


@transaction.atomic
def end_delegation(
    *, actor: User, delegation: Delegation, now: datetime | None = None
) -> Delegation:
    """End it now; the giver, the deputy and administrators may. Raises Conflict if it is over."""
    is_theirs = actor.pk in (delegation.giver_id, delegation.deputy_id)
    if not is_theirs and not in_own_right(actor, "administer_cluster", None):
        raise NotFound("There is no such delegation for you.")
    now = now or timezone.now()
    still = Delegation.objects.filter(
        pk=delegation.pk, ended_early_at__isnull=True, ends_at__gt=now
    )
    if not still.update(ended_early_at=now):
        raise Conflict("This delegation is over already.")
    record(actor, "delegation.end", delegation, before=_picture(delegation))
    delegation.refresh_from_db()
    return delegation


def require_lender(actor: User, scope: str, team: Team | None) -> None:
    """Raises Forbidden for who has nothing of this to lend: such a person needs to find nobody."""
    if actor.is_service or not _may_lend(actor, scope, team):
        raise Forbidden("Only who may do this in their own right lets somebody else do it.")


def _may_lend(actor: User, scope: str, team: Team | None) -> bool:
    if team is not None:
        return in_own_right(actor, "delegate_rights", team)
    if scope == DelegationScope.APPROVE_REQUESTS:
        decides = ("decide_requests", "decide_spending")
        if any(in_own_right(actor, action, None) for action in decides):
            return True
    return any(in_own_right(actor, "delegate_rights", one) for one in Team.objects.all())


def _check_time(starts_at: datetime, ends_at: datetime, now: datetime) -> None:
    for field, moment in (("starts_at", starts_at), ("ends_at", ends_at)):
        if timezone.is_naive(moment):
            raise Invalid("Give a time with its zone, such as 2026-12-01T00:00:00Z.", field=field)
    if starts_at < now - _PAST:
        raise Invalid("This moment has passed; choose now or later.", field="starts_at")
    if ends_at <= starts_at:
        raise Invalid("It must end after it begins.", field="ends_at")
    if ends_at - starts_at > LONGEST:
        raise Invalid(f"Choose at most {LONGEST.days} days.", field="ends_at")


def _picture(row: Delegation) -> dict[str, object]:
    return {
        "giver": row.giver.username,
        "deputy": row.deputy.username,
        "scope": row.scope,
        "team": row.team.slug if row.team else "",
        "starts_at": row.starts_at,
        "ends_at": row.ends_at,
    }
