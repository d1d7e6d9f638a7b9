"""API tokens."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from accounts import names
from accounts.errors import Invalid, NotFound
from accounts.models import ApiToken, User
from accounts.secrets import hash_secret
from accounts.services.audit import pictured, record
from accounts.statements import AskedOnce

SCOPES = (
    "jobs:read",
    "jobs:write",
    "logs:read",
    "nodes:read",
    "nodes:write",
    "costs:read",
    "people:read",
    "people:write",
    "audit:read",
    "requests:write",
)
MAX_DAYS = 365
MAX_TOKENS = 100
_TOUCH_EVERY = timedelta(minutes=1)


@transaction.atomic
def issue_token(
    *,
    actor: User,
    name: str,
    scopes: Iterable[str],
    expires_in_days: int = 90,
    now: datetime | None = None,
) -> tuple[ApiToken, str]:
    """A token for the actor and its secret, which is shown once and never stored."""
    return token_of(
        actor,
        actor=actor,
        name=name,
        scopes=scopes,
        offered=SCOPES,
        expires_in_days=expires_in_days,
        now=now or timezone.now(),
    )


def token_of(
    holder: User,
    *,
    actor: User,
    name: str,
    scopes: Iterable[str],
    offered: Sequence[str],
    expires_in_days: int,
    now: datetime,
) -> tuple[ApiToken, str]:
    """A token with which programs act as `holder`; the caller has checked who may make it."""
    try:
        clean = names.clean_name(name)
    except ValueError as error:
        raise Invalid(str(error), field="name") from None
    wanted = sorted(set(scopes))
    unknown = [scope for scope in wanted if scope not in offered]
    if not wanted or unknown:
        raise Invalid(f"Choose at least one of {', '.join(offered)}.", field="scopes")
    if not 1 <= expires_in_days <= MAX_DAYS:
        raise Invalid(f"Choose 1 to {MAX_DAYS} days.", field="expires_in_days")
    live = ApiToken.objects.filter(user=holder, revoked_at__isnull=True, expires_at__gt=now)
    if live.count() >= MAX_TOKENS:
        raise Invalid(f"There are {MAX_TOKENS} tokens; revoke one first.", field="name")
    prefix = secrets.token_hex(4)
    secret = f"ty_{prefix}_{secrets.token_urlsafe(32)}"
    token = ApiToken.objects.create(
        user=holder,
        name=clean,
        prefix=f"ty_{prefix}",
        token_hash=hash_secret(secret),
        scopes=wanted,
        expires_at=now + timedelta(days=expires_in_days),
    )
    record(actor, "token.issue", token, after=pictured(token, "name", "scopes", "expires_at"))
    return token, secret


@transaction.atomic
def revoke_token(*, actor: User, token: ApiToken, now: datetime | None = None) -> ApiToken:
    """End a token now; only its owner may."""
    if token.user_id != actor.pk:
        raise NotFound()
    ended = ApiToken.objects.filter(pk=token.pk, revoked_at__isnull=True).update(
        revoked_at=now or timezone.now()
    )
    token.refresh_from_db()
    if ended:
        record(actor, "token.revoke", token, after=pictured(token, "revoked_at"))
    return token


def authenticate_token(secret: str, *, now: datetime | None = None) -> ApiToken | None:
    """The live token with this secret, its user loaded; None for anything else."""
    now = now or timezone.now()
    found: list[ApiToken] = _LIVE.read(hash_secret(secret), now)
    token = found[0] if found else None
    if token and (token.last_used_at is None or token.last_used_at < now - _TOUCH_EVERY):
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return token


def _live(token_hash: str, now: datetime) -> QuerySet[ApiToken]:
    alive = ApiToken.objects.filter(revoked_at__isnull=True, expires_at__gt=now)
    whose = alive.filter(token_hash=token_hash, user__is_active=True)
    return whose.select_related("user").order_by()


# Asked with each call of a program.
_LIVE = AskedOnce(_live)
