"""API tokens; and keys of forms, of which each makes one such thing."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from accounts import names
from accounts.bounds.networks import is_within, read_networks
from accounts.errors import Invalid, NotFound
from accounts.models import ApiToken, Project, SpentKey, User
from accounts.permissions import can
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
# What is done within one project; the rest is about people, teams or the cluster.
PROJECT_SCOPES = ("jobs:read", "jobs:write", "logs:read", "costs:read")
MAX_DAYS = 365
MAX_TOKENS = 100
_TOUCH_EVERY = timedelta(minutes=1)
# A form may stay open so long. A spent key is kept for longer than it could be sent again.
FORM_OPEN = timedelta(days=1)
_SPENT_KEPT = FORM_OPEN + timedelta(minutes=10)


@transaction.atomic
def issue_token(
    *,
    actor: User,
    name: str,
    scopes: Iterable[str],
    expires_in_days: int = 90,
    project: Project | None = None,
    networks: Iterable[str] = (),
    now: datetime | None = None,
) -> tuple[ApiToken, str]:
    """A token for the actor and its secret, which is shown once and never stored.

    `project`: nothing else is seen or submitted to. `networks`: good from these addresses alone.
    """
    return token_of(
        actor,
        actor=actor,
        name=name,
        scopes=scopes,
        offered=SCOPES,
        expires_in_days=expires_in_days,
        project=project,
        networks=networks,
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
    project: Project | None = None,
    networks: Iterable[str] = (),
    now: datetime,
) -> tuple[ApiToken, str]:
    """A token with which programs act as `holder`; the caller has checked who may make it."""
    kept = _bounds(actor, project, networks, scopes := tuple(scopes))
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
        project=project,
        networks=kept,
        expires_at=now + timedelta(days=expires_in_days),
    )
    after = pictured(token, "name", "scopes", "expires_at")
    if project is not None:
        after["project"] = project.path
    if kept:
        after["networks"] = kept
    record(actor, "token.issue", token, after=after)
    return token, secret


def _bounds(
    actor: User, project: Project | None, networks: Iterable[str], scopes: Iterable[str]
) -> list[str]:
    """The networks as they are kept; raises Invalid for bounds that cannot hold."""
    if project is not None:
        if not can(actor, "view_project", project):
            raise Invalid("There is no such project for you.", field="project")
        if beyond := sorted(set(scopes) & set(SCOPES) - set(PROJECT_SCOPES)):
            raise Invalid(
                f"{', '.join(beyond)} reach beyond one project. With a project choose of "
                f"{', '.join(PROJECT_SCOPES)}, or leave the project out.",
                field="scopes",
            )
    try:
        return read_networks(networks)
    except ValueError as error:
        raise Invalid(str(error), field="networks") from None


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


def authenticate_token(
    secret: str, *, address: str = "", now: datetime | None = None
) -> ApiToken | None:
    """The live token with this secret, its user loaded; None for anything else, and for one that
    `address` is not among the networks of, which is put on record.

    The user of a token that is bound to a project has rights there alone, and of one without
    `logs:read` is shown nothing from inside of jobs.
    """
    now = now or timezone.now()
    found: list[ApiToken] = _LIVE.read(hash_secret(secret), now)
    token = found[0] if found else None
    if token and token.networks and not is_within(token.networks, address):
        _note_foreign(token, now)
        return None
    if token:
        token.user.bound_project = token.project_id
        token.user.reads_logs = "logs:read" in token.scopes
    if token and (token.last_used_at is None or token.last_used_at < now - _TOUCH_EVERY):
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return token


@transaction.atomic
def _note_foreign(token: ApiToken, now: datetime) -> None:
    """Who tries again and again is on record once a minute."""
    lately = Q(refused_at__gt=now - _TOUCH_EVERY)
    if ApiToken.objects.filter(pk=token.pk).exclude(lately).update(refused_at=now):
        record(
            token.user,
            "token.refuse",
            token,
            after={"networks": token.networks},
            reason="It was sent from an address that it is not good for.",
            now=now,
        )


def spend_key(key: str, *, now: datetime | None = None) -> bool:
    """Whether a form's key had made nothing yet; within the transaction of what it makes, so that
    what is refused spends none. Of two at once one waits for the other."""
    try:
        with transaction.atomic():
            SpentKey.objects.create(key=key, spent_at=now or timezone.now())
    except IntegrityError:
        return False
    return True


def prune_spent_keys(*, now: datetime) -> int:
    """Forget keys that are too old to be sent again; returns how many."""
    return SpentKey.objects.filter(spent_at__lt=now - _SPENT_KEPT).delete()[0]


def _live(token_hash: str, now: datetime) -> QuerySet[ApiToken]:
    alive = ApiToken.objects.filter(revoked_at__isnull=True, expires_at__gt=now)
    whose = alive.filter(token_hash=token_hash, user__is_active=True)
    return whose.select_related("user", "project__team").order_by()


# Asked with each call of a program.
_LIVE = AskedOnce(_live)
