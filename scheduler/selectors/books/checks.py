"""What the nightly reconciliation said; for those who keep or audit the books."""

from __future__ import annotations

from accounts.errors import Forbidden
from accounts.models import User
from accounts.permissions import can
from scheduler.models import Reconciliation


def reconciliation(viewer: User) -> Reconciliation | None:
    """The last run, None before the first. Raises Forbidden."""
    if not can(viewer, "read_books", None):
        raise Forbidden(
            "Only those who keep or audit the books may see this. Ask an administrator."
        )
    return Reconciliation.objects.order_by("-pk").first()
