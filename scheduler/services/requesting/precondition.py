"""Every change names the version it was made from; whoever comes second is shown who was first."""

from __future__ import annotations

from scheduler.models import QuotaRequest
from scheduler.services.errors import Conflict, NotFound


def locked_request(request_id: int, version: int) -> QuotaRequest:
    """The row, locked, if it still is at this version. Raises NotFound, Conflict."""
    request = locked_row(request_id)
    if request.version != version:
        raise stale(request)
    return request


def locked_row(request_id: int) -> QuotaRequest:
    """The row, locked, at whatever version. Raises NotFound."""
    request = (
        QuotaRequest.objects.select_for_update(of=("self",))
        .select_related("team", "project__team", "pool", "asked_by")
        .filter(pk=request_id)
        .first()
    )
    if request is None:
        raise NotFound("There is no such request for you.")
    return request


def stale(request: QuotaRequest) -> Conflict:
    """409 with the current version, and the last decision if that is what came between."""
    facts: dict[str, object] = {"version": request.version, "state": request.state}
    last = request.decisions.select_related("decided_by").last()
    words = "It has changed since you looked; load it again."
    if last is not None:
        name = last.decided_by.get_full_name() or last.decided_by.get_username()
        facts |= {"outcome": last.outcome, "decided_by": last.decided_by.get_username()}
        words = (
            f"{name} was faster and said “{last.outcome}” at {last.at:%Y-%m-%d %H:%M} UTC. "
            "Nothing of yours was stored."
        )
    return Conflict(words, code="stale_version", facts=facts)
