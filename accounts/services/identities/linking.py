"""A signed-in person says who they are at the identity provider, and takes it back."""

from __future__ import annotations

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.db import IntegrityError, transaction

from accounts.errors import Conflict, Forbidden, NotFound
from accounts.models import User
from accounts.services.audit import record
from accounts.services.identities.claims import Claims
from accounts.services.identities.entering import keep, subject_of_identity
from accounts.services.identities.following import follow_groups
from accounts.services.identities.reading import password_opens_for


def link_identity(*, actor: User, claims: Claims) -> list[str]:
    """From now on the actor signs in there, too, and has what their groups give; what of that could
    not be is said. Raises Conflict where either side is linked otherwise already."""
    if actor.is_service:
        raise Forbidden("Programs come with tokens.")
    name = settings.OIDC_NAME
    try:
        with transaction.atomic():
            User.objects.select_for_update(no_key=True).get(pk=actor.pk)
            there = SocialAccount.objects.filter(provider=claims.issuer)
            if there.filter(uid=claims.subject).exclude(user=actor).exists():
                raise Conflict(f"Somebody else here signs in with this account of {name}.")
            mine = there.filter(user=actor).first()
            if mine is not None and mine.uid != claims.subject:
                raise Conflict(
                    f"You are linked to another account of {name}: end that first, under Settings, "
                    "Profile."
                )
            if mine is None:
                keep(actor, claims)
            return follow_groups(user=actor, groups=claims.groups)
    except IntegrityError:
        raise Conflict(f"Somebody else here signs in with this account of {name}.") from None


@transaction.atomic
def unlink_identity(*, actor: User) -> None:
    """The actor signs in with their password alone again, and loses what groups gave; raises
    Conflict for who has none."""
    User.objects.select_for_update(no_key=True).get(pk=actor.pk)
    found = SocialAccount.objects.filter(user=actor, provider=settings.OIDC_ISSUER).first()
    if found is None:
        raise NotFound("You are not linked to an account there.")
    if not (actor.has_usable_password() and password_opens_for(actor)):
        raise Conflict("No password of yours opens the door here, so this is your only way in.")
    before = {"issuer": found.provider, "subject": found.uid}
    found.delete()
    record(actor, "identity.unlink", subject_of_identity(actor), before=before)
    follow_groups(user=actor, groups=frozenset())
