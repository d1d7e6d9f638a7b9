"""Whose a mail address is, and what waits to change it."""

from __future__ import annotations

import unicodedata
from datetime import datetime, timedelta

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db.models import Q, QuerySet
from django.utils import timezone

from accounts.errors import Invalid, NotFound
from accounts.models import AddressChange, User
from accounts.permissions import can
from accounts.secrets import hash_secret

# So long a link is good, and so long an old address may take its change back.
LINK_LIFE = timedelta(hours=1)
UNDO_LIFE = timedelta(days=7)
PROVIDER, ADMINISTRATORS = "provider", "administrators"
MAX_EMAIL = 254


def clean_email(text: str) -> str:
    """An address as it is kept: trimmed, each letter in its plainest form, so that none passes for
    another; raises Invalid that names `email`."""
    email = unicodedata.normalize("NFKC", text).strip()
    try:
        validate_email(email)
    except ValidationError:
        raise Invalid("This is not an e-mail address.", field="email") from None
    if len(email) > MAX_EMAIL:
        raise Invalid(f"Use at most {MAX_EMAIL} characters.", field="email")
    return email


def is_held(email: str, *, but: User | None = None, now: datetime | None = None) -> bool:
    """Whether somebody else has this address, or had it and may still take it back."""
    people, changes = User.objects.filter(email__iexact=email), _undoable(now or timezone.now())
    changes = changes.filter(old_email__iexact=email, confirmed_at__isnull=False)
    if but is not None:
        people, changes = people.exclude(pk=but.pk), changes.exclude(user=but)
    return people.exists() or changes.exists()


def decided_by(person: User) -> str:
    """Who decides this person's address: `provider`, `administrators`; empty, they do."""
    if _is_told_elsewhere(person):
        return PROVIDER
    return "" if settings.MAIL_ADDRESSES == "people" else ADMINISTRATORS


def open_change_of(viewer: User, person: User) -> AddressChange | None:
    """What waits to be confirmed, its link good or not; for themselves and administrators, NotFound
    for anybody else."""
    if viewer.pk != person.pk and not can(viewer, "administer_cluster", None):
        raise NotFound("There is no such person for you.")
    return open_changes().filter(user=person).first()


def open_changes() -> QuerySet[AddressChange]:
    """Those that are neither confirmed nor over."""
    return AddressChange.objects.filter(confirmed_at=None, ended_at=None)


def get_confirmable(secret: str, *, now: datetime | None = None) -> AddressChange:
    """What a link of a letter to a new address confirms; whoever has the secret may see it. Raises
    NotFound for one that is used, over or too old."""
    found = (
        open_changes()
        .filter(link_hash=hash_secret(secret), expires_at__gt=now or timezone.now())
        .filter(user__is_active=True)
        .select_related("user", "asked_by")
        .first()
    )
    if found is None:
        raise NotFound("This link is used, too old or withdrawn. Ask for another one.")
    return found


def get_undoable(secret: str, *, now: datetime | None = None) -> AddressChange:
    """What a link of a letter to an old address takes back; the same."""
    found = _undoable(now or timezone.now()).filter(undo_hash=hash_secret(secret))
    change = found.select_related("user", "asked_by").first()
    if change is None:
        raise NotFound("This link is used or too old. Ask an administrator.")
    return change


def _undoable(now: datetime) -> QuerySet[AddressChange]:
    is_young = Q(confirmed_at=None) | Q(confirmed_at__gt=now - UNDO_LIFE)
    return AddressChange.objects.filter(is_young, ended_at=None, undo_hash__isnull=False)


def _is_told_elsewhere(person: User) -> bool:
    """Whether they come in by the identity provider alone, and that told of an address."""
    if not settings.OIDC_ISSUER:
        return False
    opens = settings.OIDC_PASSWORDS == "everyone" or person.is_superuser
    if opens and person.has_usable_password():
        return False
    there = SocialAccount.objects.filter(user=person, provider=settings.OIDC_ISSUER).first()
    return bool(there and there.extra_data.get("email"))
