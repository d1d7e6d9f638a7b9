"""A mail address that is to change, with secrets that are known."""

from __future__ import annotations

from accounts.models import AddressChange, User
from accounts.secrets import hash_secret
from accounts.services.addresses.asking import ask_address


def asked(person: User, email: str) -> tuple[str, str]:
    """The secrets of the letters to the new address and to the old one."""
    change = ask_address(actor=person, email=email)
    link, undo = f"link-{change.pk}", f"undo-{change.pk}"
    AddressChange.objects.filter(pk=change.pk).update(
        link_hash=hash_secret(link), undo_hash=hash_secret(undo)
    )
    return link, undo
