"""Terms of pools, in force and proposed; for those who keep or audit the books."""

from __future__ import annotations

from collections.abc import Sequence

from accounts.errors import Forbidden, NotFound
from accounts.models import User
from accounts.permissions import can
from scheduler.models import PoolTerms


def terms_so_far(viewer: User) -> Sequence[PoolTerms]:
    """All rows, the newest first. Raises Forbidden."""
    if not can(viewer, "read_books", None):
        raise Forbidden(
            "Only those who keep or audit the books may see them. Ask an administrator."
        )
    return list(PoolTerms.objects.select_related("pool", "proposed_by", "decided_by"))


def get_visible_terms(viewer: User, pk: int) -> PoolTerms:
    """One row; raises NotFound, also for those who may not see it."""
    found = PoolTerms.objects.select_related("pool").filter(pk=pk).first()
    if found is None or not can(viewer, "read_books", None):
        raise NotFound("There are no such terms.")
    return found
