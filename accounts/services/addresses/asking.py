"""A person, or an administrator for them, asks for another mail address."""

from __future__ import annotations

import secrets
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from accounts.errors import Conflict, Forbidden, Invalid, NotFound
from accounts.models import AddressChange, User
from accounts.permissions import can
from accounts.secrets import hash_secret
from accounts.selectors.addresses import (
    LINK_LIFE,
    PROVIDER,
    clean_email,
    decided_by,
    is_held,
    open_changes,
)
from accounts.services.addresses.letters import Letter, post
from accounts.services.audit import reason_of, record


@transaction.atomic
def ask_address(*, actor: User, email: str, now: datetime | None = None) -> AddressChange:
    """One's own address is to become this one: a link goes there, and word to the old one. Nothing
    changes until the link is followed; what waited before is over.

    One that another account has is answered alike, and its holder is told. Raises Forbidden where
    others decide, Invalid for what is no address or one's own already.
    """
    person = locked(actor)
    if by := decided_by(person):
        raise Forbidden(refusal_of(by))
    return _ask(actor, person, email, "", now or timezone.now())


@transaction.atomic
def ask_address_for(
    *, actor: User, user: User, email: str, reason: str, now: datetime | None = None
) -> AddressChange:
    """The same, by an administrator; the person confirms it from there, signed in. Raises Forbidden
    for others and for oneself, Invalid without a reason."""
    person, reason = checked(actor, user, reason)
    return _ask(actor, person, email, reason, now or timezone.now())


@transaction.atomic
def send_address_link(
    *, actor: User, user: User | None = None, now: datetime | None = None
) -> AddressChange:
    """A new link to the new address; the one of before is good no more. `user`: an administrator
    does it for them. Raises Conflict where nothing waits."""
    person, now = whose(actor, user), now or timezone.now()
    change = _waiting(person)
    if (change.is_own or change.asked_by_id is None) and (by := decided_by(person)):
        raise Forbidden(refusal_of(by))
    secret = secrets.token_urlsafe(32)
    change.link_hash, change.expires_at = hash_secret(secret), now + LINK_LIFE
    change.save(update_fields=["link_hash", "expires_at"])
    record(actor, "address.send_again", person, after={"email": change.new_email}, now=now)
    post(_to_the_new_one(change, secret))
    return change


@transaction.atomic
def cancel_address(
    *, actor: User, user: User | None = None, now: datetime | None = None
) -> AddressChange:
    """Leave the address as it is: the links of its letters are good no more. Raises Conflict where
    nothing waits."""
    person, now = whose(actor, user), now or timezone.now()
    change = _waiting(person)
    change.ended_at = now
    change.save(update_fields=["ended_at"])
    record(actor, "address.cancel", person, before={"email": change.new_email}, now=now)
    return change


def locked(person: User) -> User:
    """The person as they are now; whoever else changes their address waits."""
    return User.objects.select_for_update(no_key=True).get(pk=person.pk)


def whose(actor: User, user: User | None) -> User:
    """Whose address it is, locked: the actor's own, or for administrators anybody's."""
    if user is None or user.pk == actor.pk:
        return locked(actor)
    if not can(actor, "administer_cluster", None):
        raise NotFound("There is no such person for you.")
    return locked(user)


def checked(actor: User, user: User, reason: str) -> tuple[User, str]:
    """Somebody, locked, and the reason as it is kept, for an administrator who changes it."""
    if not can(actor, "administer_cluster", None):
        raise Forbidden("Only administrators change the mail addresses of others.")
    if user.is_service:
        raise Invalid("Programs have no mail address.", field="username")
    if user.pk == actor.pk:
        raise Forbidden("This is you: change your own address under Settings, Profile.")
    person = locked(user)
    if decided_by(person) == PROVIDER:
        raise Forbidden(refusal_of(PROVIDER, "Their"))
    return person, reason_of(reason)


def refusal_of(by: str, whose_it_is: str = "Your") -> str:
    """Why an address is not changed here, and where it is."""
    if by == PROVIDER:
        name = settings.OIDC_NAME
        return (
            f"{whose_it_is} address is the one that {name} tells of at each sign-in. Have it "
            f"changed there, then sign in again."
        )
    return "Administrators change mail addresses here. Ask one of them."


def new_address(person: User, text: str) -> str:
    """As it is kept; raises Invalid for no address, and for the one that they have."""
    email = clean_email(text)
    if email == person.email:
        raise Invalid("This is the address already.", field="email")
    return email


def _ask(actor: User, person: User, email: str, reason: str, now: datetime) -> AddressChange:
    if person.is_service:
        raise Forbidden("Programs have no mail address.")
    email = new_address(person, email)
    open_changes().filter(user=person).update(ended_at=now)
    link, undo = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    change = AddressChange.objects.create(
        user=person,
        old_email=person.email,
        new_email=email,
        asked_by=actor,
        asked_at=now,
        link_hash=hash_secret(link),
        expires_at=now + LINK_LIFE,
        undo_hash=hash_secret(undo) if person.email else None,
    )
    before, after = {"email": person.email}, {"email": email}
    record(actor, "address.ask", person, before=before, after=after, reason=reason, now=now)
    words = {"change": change, "person": person, "asker": actor}
    post(
        _to_the_new_one(change, link),
        Letter("asked", person.email, words, "address_undo", undo),
    )
    return change


def _to_the_new_one(change: AddressChange, secret: str) -> Letter:
    words = {"change": change, "person": change.user, "asker": change.asked_by}
    if is_held(change.new_email, but=change.user):
        # No link: the one that is stored is good for nobody.
        return Letter("taken", change.new_email, {})
    return Letter("confirm", change.new_email, words, "address_confirm", secret)


def _waiting(person: User) -> AddressChange:
    found = open_changes().filter(user=person).select_related("user", "asked_by").first()
    if found is None:
        raise Conflict("No other mail address waits to be confirmed.")
    return found
