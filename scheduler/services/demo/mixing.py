"""A month in which a demonstration and real nodes have been at work is not closed."""

from __future__ import annotations

from accounts.models import DemoMark
from scheduler.ledger.findings import Finding, Trouble
from scheduler.ledger.periods import Month
from scheduler.models import DeviceSegment, Node


def mixed_months(month: Month) -> list[Finding]:
    """What speaks against closing it: books of both could not be told apart again, and the
    demonstration could never be removed."""
    mark = DemoMark.objects.only("roots").first()
    # While it is being made nothing is noted yet, and it closes only months of its own.
    if mark is None or not mark.roots:
        return []
    within = DeviceSegment.objects.filter(start_s__lt=month.end_s).exclude(end_s__lte=month.start_s)
    if not within.exclude(device__node__in=mark.roots.get(Node._meta.label, [])).exists():
        return []
    words = "holds a demonstration beside real work; remove it under First steps first"
    return [Finding(Trouble.DEMONSTRATION, str(month), words)]
