"""What somebody saw of a month when they decided: a decision on what has changed is refused."""

from __future__ import annotations

from scheduler.models import Period
from scheduler.services.errors import Conflict


def stamp_of(period: Period) -> str:
    """State, version and who proposed to reopen it, as one word for a form."""
    return f"{period.state}.{period.version}.{period.reopen_proposed_by_id or 0}"


def require_unchanged(period: Period, seen: str) -> None:
    """Raises Conflict if a month is not as it was seen; an empty `seen` asks nothing."""
    if seen and seen != stamp_of(period):
        state = period.state.replace("_", " ")
        raise Conflict(
            f"{period.name} has changed since you looked at it: it is {state} now, version "
            f"{period.version}. Look again, then decide.",
            code="stale_version",
            facts={"seen": stamp_of(period)},
        )
