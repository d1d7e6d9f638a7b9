"""What the inbox shows, as a condition of the database: for the number at the bell, which comes
with the row of a page and asks nothing by itself; by the rules that `things.py` asks, too."""

from __future__ import annotations

from django.db.models import BigIntegerField, BooleanField, Case, Exists, OuterRef, Q, Value, When
from django.db.models.functions import Cast, Substr

from accounts.models import User
from accounts.permissions import can
from scheduler.selectors.inbox.rules import OF_CLUSTER, WORDS, Word

_NUMBER = BigIntegerField()


def shown_to(viewer: User) -> Case:
    """Of notifications: those about what the viewer may see now. No statement of its own."""
    cases = [
        When(subject__startswith=f"{name}:", then=_seen(word, name, viewer))
        for name, word in WORDS.items()
    ]
    hidden = [
        When(Q(subject=name) | Q(subject__startswith=f"{name}:"), then=Value(False))
        for name, action in OF_CLUSTER.items()
        if not can(viewer, action, None)
    ]
    return Case(*cases, *hidden, default=Value(True), output_field=BooleanField())


def _seen(word: Word, name: str, viewer: User) -> Exists:
    """Whether the viewer sees that of the number that follows the word's name."""
    number = Cast(Substr(OuterRef("subject"), len(name) + 2), _NUMBER)
    return Exists(word.seen_by(viewer).filter(**{word.number: number}))
