"""What an identity provider says of somebody, cleaned: it is harmless from here on."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from accounts import names
from accounts.errors import Invalid

MOST_GROUPS = 1000
_MAX_SUBJECT, _MAX_GROUP, _MAX_EMAIL = 191, 255, 254


@dataclass(frozen=True, slots=True)
class Claims:
    """Somebody as an issuer tells of them. `issuer` and `subject` say who it is, nothing else does.

    `email` is empty unless the address is proven. `groups` None: they were not told, which says
    nothing; an empty one says that there are none.
    """

    issuer: str
    subject: str
    username: str = ""
    display_name: str = ""
    email: str = ""
    groups: frozenset[str] | None = frozenset()

    @classmethod
    def of(
        cls, issuer: str, told: Mapping[str, Any], *, groups_claim: str, trusts_mail: bool
    ) -> Claims:
        """Raises Invalid for a subject that cannot be kept."""
        email = _email(told) if trusts_mail or told.get("email_verified") is True else ""
        wish = _line(told.get("preferred_username")) or email or _line(told.get("name"))
        return cls(
            issuer=issuer,
            subject=subject_of(told),
            username=wish.partition("@")[0],
            display_name=_name(told.get("name")),
            email=email,
            groups=_groups(told, groups_claim),
        )

    @property
    def domain(self) -> str:
        """Of the proven address, in small letters."""
        return self.email.rpartition("@")[2].lower()


def subject_of(told: Mapping[str, Any]) -> str:
    """The issuer's own number or word for somebody; raises Invalid."""
    subject = told.get("sub")
    is_text = isinstance(subject, str) and subject.isascii() and subject.isprintable()
    if not (is_text and 0 < len(str(subject)) <= _MAX_SUBJECT):
        raise Invalid(
            f"What it says who you are (sub) is no text of 1 to {_MAX_SUBJECT} plain characters.",
            field="sub",
        )
    return str(subject)


def _line(value: Any) -> str:
    if not isinstance(value, str):
        return ""
    text = unicodedata.normalize("NFC", value[: 4 * names.MAX_NAME]).strip()
    return "".join(c for c in text if c.isprintable())


def _name(value: Any) -> str:
    try:
        return names.clean_name(_line(value)[: names.MAX_NAME])
    except ValueError:
        return ""


def _email(told: Mapping[str, Any]) -> str:
    email = told.get("email")
    if not isinstance(email, str) or len(email) > _MAX_EMAIL:
        return ""
    try:
        validate_email(email)
    except ValidationError:
        return ""
    return email


def _groups(told: Mapping[str, Any], claim: str) -> frozenset[str] | None:
    if claim in _mapping(told.get("_claim_names")):
        # Too many to send: the provider says where else they could be asked for.
        return None
    found: Any = told.get(claim)
    if claim not in told:
        found = told
        for step in claim.split("."):
            found = _mapping(found).get(step)
    listed = [found] if isinstance(found, str) else found if isinstance(found, list) else []
    texts = [each for each in listed if isinstance(each, str) and 0 < len(each) <= _MAX_GROUP]
    return frozenset([each for each in texts if each.isprintable()][:MOST_GROUPS])


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
