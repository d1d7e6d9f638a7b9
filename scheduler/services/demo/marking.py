"""Noting how the database was before a demonstration, and what was made for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from django.contrib.auth.models import Group
from django.db import models

from accounts.models import AuditEvent, AuditHead, DemoMark, Rate, RateCard
from scheduler.ledger.periods import Month
from scheduler.models import (
    Account,
    DeviceSegment,
    Job,
    LedgerHead,
    OutboundMail,
    Period,
)
from scheduler.services.errors import Conflict

# Tables of one row that are made when they are first needed.
HEADS: tuple[type[models.Model], ...] = (AuditHead, LedgerHead)
# What a service makes on the way, beside what it gives back.
_BY_THE_WAY: tuple[type[models.Model], ...] = (
    Account,
    Period,
    Group,
    Rate,
    RateCard,
    OutboundMail,
)


def refuse_seeding(*, closes: Sequence[Month], is_told: bool) -> None:
    """Raises Conflict where a demonstration is here already, or where it would mix with real work.

    `is_told`: somebody wants it although there are jobs. Where the months that it `closes` hold
    segments or books it is refused even then: a month is closed for everybody at once. The month of
    now stays open, so nodes that were enrolled in it are in nobody's way.
    """
    if DemoMark.objects.exists():
        raise Conflict("There is a demonstration already; remove it first.")
    if Job.objects.exists() and not is_told:
        raise Conflict(
            "There are jobs here, so this database seems to be in real use. Say that the "
            "demonstration may stand beside them (--anyway), or use another database."
        )
    first, last = closes[0], closes[-1]
    counted = DeviceSegment.objects.filter(start_s__lt=last.end_s).exclude(end_s__lte=first.start_s)
    if counted.exists() or Period.objects.filter(name__in=[str(one) for one in closes]).exists():
        raise Conflict(
            f"Nodes or books have been counted in {first} or {last}. The demonstration closes "
            "these months, and a month is closed for everybody at once: use a database of its own."
        )


def heads_now() -> dict[str, Any]:
    """Where the chains end, by table; None where there is no row yet."""
    return {head._meta.label: _plain(head) for head in HEADS}


def note_before(*, seed: int, now: datetime, heads: dict[str, Any]) -> DemoMark:
    """How things are, before anything is made; `heads` from before anything was."""
    return DemoMark.objects.create(
        seeded_at=now,
        seed=seed,
        before={
            "heads": heads,
            "event": last_id(AuditEvent),
            "last": {model._meta.label: last_id(model) for model in _BY_THE_WAY},
        },
    )


def note_made(mark: DemoMark, made: Iterable[models.Model]) -> None:
    """What hangs on nothing else of the demonstration: people, teams, nodes, months, prices."""
    roots: dict[str, list[int]] = {}
    for row in made:
        roots.setdefault(row._meta.label, []).append(row.pk)
    for model in _BY_THE_WAY:
        label = model._meta.label
        new = model._default_manager.filter(pk__gt=mark.before["last"][label])
        roots[label] = list(new.order_by("pk").values_list("pk", flat=True))
    mark.roots = roots
    mark.before["last_event"] = last_id(AuditEvent)
    mark.save(update_fields=["roots", "before"])


def last_id(model: type[models.Model]) -> int:
    """The highest id there is; 0 for none."""
    found = model._default_manager.order_by("-pk").values_list("pk", flat=True).first()
    return int(found or 0)


def _plain(head: type[models.Model]) -> dict[str, Any] | None:
    """The row of a table of one row, as JSON can hold it."""
    row = head._default_manager.values().first()
    if row is None:
        return None
    return {k: v.isoformat() if isinstance(v, datetime) else v for k, v in row.items()}
