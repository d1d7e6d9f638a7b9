"""What people are told when a mail address changes: at once, to the addresses that it concerns."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.conf import settings
from django.core.mail import send_mail
from django.db import transaction
from django.template.loader import render_to_string
from django.urls import reverse

logger = logging.getLogger(__name__)

SUBJECTS = {
    "confirm": "confirm your new mail address",
    "asked": "your mail address is to change",
    "taken": "somebody asked for your mail address",
    "changed": "your mail address has changed",
    "set": "an administrator changed your mail address",
    "undone": "your mail address is the old one again",
}


@dataclass(frozen=True, slots=True)
class Letter:
    """One mail. `kind` names its text; `secret`, if any, is in the link of the page `route`."""

    kind: str
    to: str
    words: dict[str, Any]
    route: str = ""
    # Never in a log.
    secret: str = field(default="", repr=False)


def post(*letters: Letter) -> None:
    """Send them once what they tell is stored; those to nobody are left out. Whoever asked is told
    the same whether they arrive or not."""
    for letter in letters:
        if letter.to:
            transaction.on_commit(partial(_send, letter), robust=True)


def _send(letter: Letter) -> None:
    link = reverse(letter.route, kwargs={"secret": letter.secret}) if letter.route else ""
    told = {
        **letter.words,
        "link": f"{settings.PUBLIC_URL}{link}",
        "public_url": settings.PUBLIC_URL,
    }
    text = render_to_string(f"emails/address/{letter.kind}.txt", told)
    try:
        send_mail(f"Trainyard: {SUBJECTS[letter.kind]}", text, None, [letter.to])
    except OSError as error:
        logger.warning("the letter address/%s was not sent: %s", letter.kind, error)
