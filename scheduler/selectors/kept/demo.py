"""Whether what is seen is made up."""

from __future__ import annotations

from datetime import datetime

from accounts.models import DemoMark


def demo_since() -> datetime | None:
    """When a demonstration was put in beside what is real; None: all of it is real."""
    return DemoMark.objects.values_list("seeded_at", flat=True).first()
