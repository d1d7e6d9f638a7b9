"""Forms whose answer shows a secret, once: a form that is sent again makes no second one.

Such an answer cannot lead on to a page that is fetched, for the secret is stored nowhere; so a
reload of it sends the form again. Each form has a key of its own, and a key makes one thing.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, TypeVar

from django.core import signing
from django.db import transaction
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from accounts.errors import Conflict, Invalid
from accounts.services.tokens import FORM_OPEN, spend_key

FIELD = "form_key"
_TOO_LONG = "This form was open for too long. Look it over and send it again."
_Made = TypeVar("_Made")


def form_key() -> SafeString:
    """`{% form_key %}`: a hidden field with a key that was never given before."""
    key = _signer().sign(secrets.token_urlsafe(12))
    return format_html('<input type="hidden" name="{}" value="{}">', FIELD, key)


def made_once(
    request: HttpRequest, already: str, make: Callable[..., _Made], **given: Any
) -> _Made:
    """What `make` returns of `given`, once for a form; each time where it came without a key.

    A key is spent with what it made, in one transaction: what is refused may be sent again, and of
    two that come at once one waits for the other. Raises Conflict, which says `already`, for a key
    that is spent; Invalid for one that is no longer good, and what `make` raises.
    """
    sent = request.POST.get(FIELD, "")
    if not sent:
        return make(**given)
    try:
        key = _signer().unsign(sent, max_age=FORM_OPEN)
    except signing.BadSignature:
        raise Invalid(_TOO_LONG, field=FIELD) from None
    with transaction.atomic():
        if not spend_key(key):
            raise Conflict(already, code="made_already")
        return make(**given)


def _signer() -> signing.TimestampSigner:
    return signing.TimestampSigner(salt=FIELD)
