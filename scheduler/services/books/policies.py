"""Who is charged for time that nobody used, pool by pool."""

from __future__ import annotations

from django.db import transaction

from accounts.models import User
from scheduler.ledger.shares import IdlePolicy
from scheduler.models import Pool
from scheduler.services.books.posting import require_bookkeeper
from scheduler.services.errors import Invalid

# The others need guarantees, which come with quotas.
OFFERED = (IdlePolicy.NONE, IdlePolicy.EVEN, IdlePolicy.BY_USE)


@transaction.atomic
def set_share_policy(*, actor: User, pool: Pool, idle: str = "", platform: str = "") -> Pool:
    """Change how a pool splits its idle time, or drained and broken time; empty: as it is.

    Counts for months that are not closed yet. Shares need a price of their own before a close.
    """
    require_bookkeeper(actor)
    for field, word in (("idle", idle), ("platform", platform)):
        if word and word not in OFFERED:
            raise Invalid(f"Use one of {', '.join(OFFERED)}.", field=field)
    if idle:
        pool.idle_policy = IdlePolicy(idle)
    if platform:
        pool.platform_policy = IdlePolicy(platform)
    pool.save(update_fields=["idle_policy", "platform_policy"])
    return pool
