"""Who somebody is here whom the identity provider tells of; new people are made here."""

from __future__ import annotations

from typing import Any

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.db import IntegrityError, transaction

from accounts.errors import Conflict, Forbidden, Invalid
from accounts.models import GroupRule, User
from accounts.selectors.addresses import PROVIDER, decided_by
from accounts.services.addresses.changing import follow_address
from accounts.services.audit import Subject, record
from accounts.services.identities.claims import Claims
from accounts.services.identities.following import follow_groups
from accounts.services.invitations import accept_invitation
from accounts.services.people import create_user, free_username

_TRIES = 5


def enter(*, claims: Claims, invitation: str = "") -> tuple[SocialAccount, list[str]]:
    """The account of these claims with its person, made at their first sign-in, what their groups
    give given, and what of that could not be; one transaction.

    Known by issuer and subject alone, never by an address or a name. `invitation`: the secret of
    one, which is accepted with it. Somebody whose account is closed is found and nothing is
    changed. Raises Forbidden for strangers, Invalid for an address that somebody has, NotFound for
    an invitation that is no longer open.
    """
    for _ in range(_TRIES):
        try:
            with transaction.atomic():
                return _enter(claims, invitation)
        except IntegrityError:
            # The same person, or somebody with the same name, came in at the same moment.
            continue
    raise Conflict("Somebody signs in with the same name just now. Try again.")


def _enter(claims: Claims, invitation: str) -> tuple[SocialAccount, list[str]]:
    known = SocialAccount.objects.select_related("user").filter(
        provider=claims.issuer, uid=claims.subject
    )
    account = known.first()
    if account is None:
        account = keep(_first_time(claims, invitation), claims)
    else:
        if not account.user.is_active:
            return account, []
        if invitation:
            accept_invitation(secret=invitation, user=account.user)
        SocialAccount.objects.filter(pk=account.pk).update(extra_data=told_of(claims))
        if decided_by(account.user) == PROVIDER:
            follow_address(user=account.user, email=claims.email)
    return account, follow_groups(user=account.user, groups=claims.groups)


def _first_time(claims: Claims, invitation: str) -> User:
    who: dict[str, Any] = {
        "username": free_username(claims.username),
        "display_name": claims.display_name,
        "password": None,
    }
    try:
        if invitation:
            return accept_invitation(secret=invitation, **who)
        _check_admitted(claims)
        return create_user(email=claims.email, **who)
    except Invalid as refused:
        if refused.field == "username":
            # Taken since it was looked up.
            raise IntegrityError(refused.detail) from refused
        raise Invalid(
            "There is an account here with your e-mail address already, and an address alone does "
            "not prove that it is yours. Sign in to it with its password, then link it under "
            "Settings, Profile.",
            field="email",
        ) from None


def _check_admitted(claims: Claims) -> None:
    name = settings.OIDC_NAME
    if settings.OIDC_NEW_PEOPLE == "groups":
        groups = claims.groups or frozenset()
        if not GroupRule.objects.filter(group__in=groups).exists():
            raise Forbidden(
                f"None of your groups at {name} has a place here. Ask an administrator of this "
                "portal to give one of them a role, or the lead of a team for an invitation."
            )
    elif settings.OIDC_NEW_PEOPLE == "domains":
        if claims.domain not in settings.OIDC_DOMAINS:
            raise Forbidden(
                f"{name} says of no proven e-mail address of yours that it is in "
                f"{' or '.join(settings.OIDC_DOMAINS)}. Ask the lead of a team for an invitation."
            )
    else:
        raise Forbidden(
            "Nobody here knows you yet: an account comes with an invitation to a team. Ask the "
            "lead of yours and follow the link of the invitation. If you have an account with a "
            "password, sign in with that and link it under Settings, Profile."
        )


def keep(user: User, claims: Claims) -> SocialAccount:
    """Write who they are at the provider, in the transaction of the caller."""
    account = SocialAccount.objects.create(
        user=user, provider=claims.issuer, uid=claims.subject, extra_data=told_of(claims)
    )
    after = {"issuer": claims.issuer, "subject": claims.subject}
    record(user, "identity.link", subject_of_identity(user), after=after)
    return account


def subject_of_identity(user: User) -> Subject:
    """Somebody's account elsewhere, as what a change is about."""
    return Subject("identity", str(user.pk), user.username)


def told_of(claims: Claims) -> dict[str, Any]:
    """What is kept of it: how pages name the account, the address that it tells of, and the groups
    that previews count with."""
    groups = None if claims.groups is None else sorted(claims.groups)
    name = claims.email or claims.username
    return {"name": name, "email": claims.email, "groups": groups}
