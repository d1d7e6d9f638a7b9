"""Letting a person in no longer, and again: what they signed in with ends, what they did stays."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from importlib import import_module

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from accounts.errors import Conflict, Forbidden, Invalid
from accounts.models import ApiToken, User
from accounts.permissions import can
from accounts.services.addresses.changing import prune_addresses
from accounts.services.audit import reason_of, record
from accounts.services.tokens import prune_spent_keys


@dataclass(frozen=True, slots=True)
class Ended:
    """How many API tokens and browser sessions died."""

    tokens: int
    sessions: int


@transaction.atomic
def deactivate_person(
    *, actor: User, user: User, reason: str, now: datetime | None = None
) -> Ended:
    """Let somebody in no longer: tokens are revoked, browsers signed out, their word for others
    counts no more. Memberships and roles stay, for the day they come back.

    An administrator always stays: the actor, who cannot shut themselves out. Raises Forbidden for
    all but administrators and for oneself, Conflict for who is out already, Invalid without a
    reason and for accounts of programs.
    """
    reason = _checked(actor, user, reason)
    if not User.objects.filter(pk=user.pk, is_active=True).update(is_active=False):
        raise Conflict(f"{user.username} is not active already.")
    now = now or timezone.now()
    live = ApiToken.objects.filter(user=user, revoked_at__isnull=True, expires_at__gt=now)
    # The engine stands above the services.
    sessions = import_module(settings.SESSION_ENGINE).SessionStore.end_all_of(user)
    ended = Ended(live.update(revoked_at=now), sessions)
    user.refresh_from_db()
    after = {"is_active": False, "tokens_ended": ended.tokens, "sessions_ended": ended.sessions}
    before = {"is_active": True}
    record(actor, "person.deactivate", user, before=before, after=after, reason=reason, now=now)
    return ended


def forget_sign_ins(*, now: datetime) -> int:
    """Delete browser sessions that are over, in slices; returns how many."""
    store, count = import_module(settings.SESSION_ENGINE).SessionStore, 0
    while gone := store.forget_expired(now):
        count += gone
    return count


def forget_over(*, now: datetime) -> int:
    """The same, changes of mail addresses that are long over, and spent keys of forms that are too
    old to be sent again."""
    return forget_sign_ins(now=now) + prune_addresses(now=now) + prune_spent_keys(now=now)


@transaction.atomic
def reactivate_person(*, actor: User, user: User, reason: str, now: datetime | None = None) -> User:
    """Let somebody in again, with the password and the memberships of before; tokens they make
    anew. Raises as `deactivate_person`."""
    reason = _checked(actor, user, reason)
    if not User.objects.filter(pk=user.pk, is_active=False).update(is_active=True):
        raise Conflict(f"{user.username} is active already.")
    user.refresh_from_db()
    before, after = {"is_active": False}, {"is_active": True}
    record(actor, "person.reactivate", user, before=before, after=after, reason=reason, now=now)
    return user


def _checked(actor: User, user: User, reason: str) -> str:
    """The reason as it is kept, after a lock on everybody concerned: of two administrators who shut
    each other out at once, the second is none any more."""
    wanted = Q(pk__in=[actor.pk, user.pk]) | Q(is_superuser=True)
    rows = User.objects.select_for_update(no_key=True).filter(wanted).order_by("pk")
    afresh = {one.pk: one for one in rows}.get(actor.pk)
    if afresh is None or not can(afresh, "administer_cluster", None):
        raise Forbidden("Only administrators let people in or out.")
    if user.is_service:
        raise Invalid("An account of programs is ended by its team.", field="username")
    if user.pk == actor.pk:
        raise Forbidden("Nobody shuts themselves out. Ask another administrator.")
    return reason_of(reason)
