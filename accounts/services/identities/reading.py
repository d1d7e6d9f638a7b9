"""How somebody signs in, for themselves and for who looks after people."""

from __future__ import annotations

from allauth.socialaccount.models import SocialAccount
from django.conf import settings

from accounts.errors import NotFound
from accounts.models import User
from accounts.permissions import can


def identity_of(viewer: User, person: User) -> SocialAccount | None:
    """The person's account at the provider of now, None without one; for themselves and
    administrators, NotFound for anybody else."""
    if viewer.pk != person.pk and not can(viewer, "administer_cluster", None):
        raise NotFound("There is no such person for you.")
    if not settings.OIDC_ISSUER:
        return None
    return SocialAccount.objects.filter(user=person, provider=settings.OIDC_ISSUER).first()


def signs_in_elsewhere(person: User) -> bool:
    """Whether the provider of now can say that it is they."""
    if not settings.OIDC_ISSUER:
        return False
    return SocialAccount.objects.filter(user=person, provider=settings.OIDC_ISSUER).exists()


def password_opens_for(person: User) -> bool:
    """Whether this person may come in by a password at all: administrators always, as the provider
    may be away."""
    if not settings.OIDC_ISSUER or settings.OIDC_PASSWORDS == "everyone":
        return True
    return person.is_superuser
