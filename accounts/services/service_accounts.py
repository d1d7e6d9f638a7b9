"""Accounts of programs: owned by a team, made and ended by its leads, in by token alone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

from django.db import IntegrityError, transaction
from django.utils import timezone

from accounts.errors import Conflict, Forbidden, Invalid, NotFound
from accounts.granting import enter_service
from accounts.models import ApiToken, Project, Team, User, UserKind
from accounts.permissions import can
from accounts.services.audit import pictured, record
from accounts.services.people import SERVICE_PREFIX
from accounts.services.tokens import token_of

# What a token of a program may be for: reading and submitting, never rules, people or money.
SERVICE_SCOPES = ("jobs:read", "jobs:write", "logs:read", "nodes:read")
MAX_ACCOUNTS = 50
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}", re.ASCII)


def _require_lead(actor: User, team: Team) -> None:
    if not can(actor, "manage_service_accounts", team):
        raise Forbidden("Only a lead of the team may do this.")


@transaction.atomic
def make_service_account(*, actor: User, team: Team, name: str) -> User:
    """`svc-<name>`: it works for the team's projects, and what it submits is the team's to pay.

    Raises Invalid for a name that is taken, also by an account that has ended.
    """
    _require_lead(actor, team)
    name = name.strip().removeprefix(SERVICE_PREFIX)
    if not _NAME.fullmatch(name):
        raise Invalid("Use lower-case letters, digits and dashes, at most 63.", field="name")
    if team.service_accounts.filter(is_active=True).count() >= MAX_ACCOUNTS:
        raise Invalid(f"The team has {MAX_ACCOUNTS} of them; end one first.", field="name")
    account = User(username=SERVICE_PREFIX + name, kind=UserKind.SERVICE, service_team=team)
    account.set_unusable_password()
    try:
        with transaction.atomic():
            account.save()
    except IntegrityError:
        raise Invalid("This name is taken; choose another.", field="name") from None
    enter_service(account, team)
    after = {"username": account.username, "team": team.slug}
    record(actor, "service_account.make", account, after=after)
    return account


@transaction.atomic
def end_service_account(*, actor: User, account: User, now: datetime | None = None) -> User:
    """End it and all its tokens now. Its jobs go on; a lead may cancel them."""
    _require_lead(actor, _team_of(account))
    if not User.objects.filter(pk=account.pk, is_active=True).update(is_active=False):
        raise Conflict("This account has ended already.")
    live = ApiToken.objects.filter(user=account, revoked_at__isnull=True)
    ended = live.update(revoked_at=now or timezone.now())
    account.refresh_from_db()
    record(actor, "service_account.end", account, after={"tokens_ended": ended})
    return account


@transaction.atomic
def issue_service_token(
    *,
    actor: User,
    account: User,
    name: str,
    scopes: Iterable[str],
    expires_in_days: int = 90,
    project: Project | None = None,
    networks: Iterable[str] = (),
    now: datetime | None = None,
) -> tuple[ApiToken, str]:
    """A token of the account and its secret, which is shown once and never stored.

    Bounds as of people's own; the project is one of the team's.
    """
    team = _team_of(account)
    _require_lead(actor, team)
    if project is not None and project.team_id != team.pk:
        raise Invalid(f"Choose a project of {team.slug}: {team.slug}/…", field="project")
    if not account.is_active:
        raise Conflict("This account has ended; make another one.")
    return token_of(
        account,
        actor=actor,
        name=name,
        scopes=scopes,
        offered=SERVICE_SCOPES,
        expires_in_days=expires_in_days,
        project=project,
        networks=networks,
        now=now or timezone.now(),
    )


@transaction.atomic
def revoke_service_token(*, actor: User, token: ApiToken, now: datetime | None = None) -> ApiToken:
    """End one token of an account now."""
    _require_lead(actor, _team_of(token.user))
    ended = ApiToken.objects.filter(pk=token.pk, revoked_at__isnull=True).update(
        revoked_at=now or timezone.now()
    )
    token.refresh_from_db()
    if ended:
        record(actor, "token.revoke", token, after=pictured(token, "revoked_at"))
    return token


def _team_of(account: User) -> Team:
    if not account.is_service or account.service_team is None:
        raise NotFound("There is no such service account for you.")
    return account.service_team
