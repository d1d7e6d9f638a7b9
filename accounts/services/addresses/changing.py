"""A mail address changes: confirmed, taken back, set by an administrator, told from elsewhere."""

from __future__ import annotations

from datetime import datetime, timedelta
from importlib import import_module

from allauth.account.models import EmailAddress
from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from accounts.errors import Conflict, Forbidden, Invalid
from accounts.models import AddressChange, User
from accounts.selectors.addresses import (
    UNDO_LIFE,
    get_confirmable,
    get_undoable,
    is_held,
)
from accounts.services.addresses.asking import checked, locked, new_address
from accounts.services.addresses.letters import Letter, post
from accounts.services.audit import record

KEPT = timedelta(days=90)
_TAKEN = "Another account has this address by now."


def confirm_address(
    *, secret: str, viewer: User | None = None, now: datetime | None = None
) -> AddressChange:
    """Follow the link of a letter to a new address: from now on it is the person's. What they are
    signed in with stays; letters with a new password that went to the old address end.

    `viewer`: who is signed in; what an administrator asked for is confirmed by the person alone.
    Raises NotFound for a link that is good no more, Forbidden, Conflict for an address that
    somebody has by now.
    """
    now = now or timezone.now()
    with transaction.atomic():
        person = locked(get_confirmable(secret, now=now).user)
        change = get_confirmable(secret, now=now)
        if not may_confirm(change, viewer):
            raise Forbidden("An administrator asked for this: sign in as who it is about.")
        if is_held(change.new_email, but=person, now=now):
            raise Conflict(_TAKEN)
        _write(person, change.new_email)
        change.confirmed_at = now
        change.save(update_fields=["confirmed_at"])
        before, after = {"email": change.old_email}, {"email": change.new_email}
        record(person, "address.confirm", person, before=before, after=after, now=now)
        words = {"change": change, "person": person, "until": now + UNDO_LIFE}
        post(Letter("changed", change.old_email, words))
    return change


def may_confirm(change: AddressChange, viewer: User | None) -> bool:
    """Whether this reader may follow the link: anybody who has it, where the person asked."""
    return change.is_own or (viewer is not None and viewer.pk == change.user_id)


def undo_address(*, secret: str, now: datetime | None = None) -> AddressChange:
    """Follow the link of a letter to an old address: it was not them. What waits is over, what was
    confirmed is taken back with all that came after it, and every browser is signed out: whoever
    asked knew the password. Raises NotFound for a link that is good no more."""
    now = now or timezone.now()
    with transaction.atomic():
        person = locked(get_undoable(secret, now=now).user)
        change = get_undoable(secret, now=now)
        later = AddressChange.objects.filter(user=person, pk__gte=change.pk, ended_at=None)
        later.update(ended_at=now)
        before = {"email": person.email}
        if change.confirmed_at is not None:
            _write(person, change.old_email)
        # The engine stands above the services.
        ended = import_module(settings.SESSION_ENGINE).SessionStore.end_all_of(person)
        after = {"email": person.email, "sessions_ended": ended}
        why = "By the link of the letter to the old address."
        record(None, "address.undo", person, before=before, after=after, reason=why, now=now)
        words = {"change": change, "person": person}
        for to in dict.fromkeys((person.email, before["email"])):
            post(Letter("undone", to, {**words, "is_theirs": to == person.email}))
    return change


def set_address(
    *, actor: User, user: User, email: str, reason: str, now: datetime | None = None
) -> User:
    """An administrator changes somebody's address at once, and says why; both addresses are told.
    What waited is over, and no old address takes anything back any more: it may be lost.

    Raises Forbidden for others, for oneself and for administrators, whose address would open what
    two people have to agree on; Invalid for what is no address, or another account's.
    """
    now = now or timezone.now()
    with transaction.atomic():
        person, reason = checked(actor, user, reason)
        if person.is_superuser:
            raise Forbidden(
                "An administrator confirms their new address themselves: send them a link."
            )
        email, before = new_address(person, email), {"email": person.email}
        if is_held(email, but=person, now=now):
            raise Invalid("Another account has this address.", field="email")
        _over(person, now)
        _write(person, email)
        record(
            actor,
            "address.set",
            person,
            before=before,
            after={"email": email},
            reason=reason,
            now=now,
        )
        words = {"person": person, "old": before["email"], "new": email, "actor": actor}
        post(*(Letter("set", to, {**words, "reason": reason}) for to in (before["email"], email)))
    return person


def follow_address(*, user: User, email: str, now: datetime | None = None) -> bool:
    """The address that the identity provider tells of becomes the person's, who was let in by it;
    whether it changed. One that somebody else has stays away."""
    now = now or timezone.now()
    with transaction.atomic():
        person = locked(user)
        if not email or email == person.email or is_held(email, but=person, now=now):
            return False
        before = {"email": person.email}
        _over(person, now)
        _write(person, email)
        record(person, "address.follow", person, before=before, after={"email": email}, now=now)
    user.email = email
    return True


def prune_addresses(*, now: datetime) -> int:
    """Forget changes that are long over; returns how many."""
    old = AddressChange.objects.filter(asked_at__lt=now - KEPT)
    is_over = Q(confirmed_at__lt=now - UNDO_LIFE) | Q(confirmed_at=None)
    return old.filter(is_over).delete()[0]


def _over(person: User, now: datetime) -> None:
    """What waits, and what old addresses could take back."""
    AddressChange.objects.filter(user=person, ended_at=None).update(ended_at=now)


def _write(person: User, email: str) -> None:
    try:
        with transaction.atomic():
            User.objects.filter(pk=person.pk).update(email=email)
    except IntegrityError:
        raise Conflict(_TAKEN) from None
    # allauth keeps addresses of its own, by which a password would still be asked for.
    EmailAddress.objects.filter(user=person).delete()
    person.email = email
