"""Licences: how many tokens there are."""

from __future__ import annotations

from django.db import transaction

from accounts.models import User
from accounts.services.audit import record
from scheduler import events
from scheduler.models import Licence
from scheduler.selectors.sharing.licences import asking_jobs
from scheduler.services.errors import Conflict, Invalid
from scheduler.services.nodes import require_operator
from scheduler.spec import values

MAX_TOTAL = 1_000_000


@transaction.atomic
def set_licence(*, actor: User, name: str, total: int) -> Licence:
    """Make the licence, or change its number of tokens; running jobs keep theirs.

    Raises Forbidden, Invalid.
    """
    require_operator(actor)
    try:
        values.licence_names({name: 1})
    except ValueError as error:
        raise Invalid(f"name {error}.", field="name") from None
    if not 0 <= total <= MAX_TOTAL:
        raise Invalid(f"Choose 0 to {MAX_TOTAL} tokens.", field="total")
    before = Licence.objects.filter(name=name).values("total").first()
    licence, _ = Licence.objects.update_or_create(name=name, defaults={"total": total})
    record(actor, "licence.set", licence, before=before, after={"total": total})
    events.wake_scheduler_on_commit()
    return licence


@transaction.atomic
def remove_licence(*, actor: User, licence: Licence) -> None:
    """Forget the licence. Raises Forbidden; Conflict while jobs hold tokens or wait for some."""
    require_operator(actor)
    jobs = asking_jobs(licence.name)
    if jobs:
        named = ", ".join(f"#{pk}" for pk in jobs[:5])
        raise Conflict(
            f"Jobs hold or wait for tokens of {licence.name}: {named}. Set its total to 0 so that "
            "none start, and remove it once they have ended.",
            code="licence_in_use",
        )
    record(actor, "licence.remove", licence, before={"total": licence.total})
    licence.delete()
