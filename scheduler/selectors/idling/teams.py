"""What rules for GPUs that do little have done in a team: for its leads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Exists, F, OuterRef, Q, Sum

from accounts.models import Team, User
from accounts.permissions import can
from scheduler.models import IdleWarning
from scheduler.selectors.sharing.reach import of_team
from scheduler.states import IdleOutcome

LOOK_BACK = timedelta(days=28)
MOST_SHOWN = 10
_ENDED = (IdleOutcome.PAUSED, IdleOutcome.STOPPED)


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """Of the last LOOK_BACK: how many warnings there were and to how many jobs, after how many the
    job worked again, was still needed, was paused or stopped, with the GPU-seconds that were left
    until time limits. `standing`: jobs that are warned or kept now, each once, what follows soonest
    first."""

    warned: int
    jobs: int
    worked: int
    kept: int
    kept_hours: int
    paused: int
    stopped: int
    freed_gpu_s: int
    standing: Sequence[IdleWarning]


def reclaimed_in(viewer: User, team: Team, *, now: datetime) -> Reclaimed | None:
    """Of a team that the viewer sees and all below it; None for who does not lead it nor runs the
    cluster. Two statements."""
    if not (can(viewer, "manage_team", team) or can(viewer, "operate", None)):
        return None
    rows = IdleWarning.objects.filter(of_team(team.pk, "attempt__job__project"))
    # Of two rules that warned of one attempt, one word keeps it from both.
    same = IdleWarning.objects.filter(
        attempt=OuterRef("attempt"), kept_until=OuterRef("kept_until"), pk__lt=OuterRef("pk")
    )
    once = Q(~Exists(same), outcome=IdleOutcome.KEPT)
    lately = rows.filter(warned_at__gt=now - LOOK_BACK).order_by()
    sums = lately.aggregate(
        warned=Count("pk"),
        worked=Count("pk", filter=Q(outcome=IdleOutcome.WORKED)),
        jobs=Count("attempt__job", distinct=True),
        kept=Count("pk", filter=once),
        kept_hours=Sum("kept_hours", filter=once, default=0),
        paused=Count("pk", filter=Q(outcome=IdleOutcome.PAUSED)),
        stopped=Count("pk", filter=Q(outcome=IdleOutcome.STOPPED)),
        freed_gpu_s=Sum("freed_gpu_s", filter=Q(outcome__in=_ENDED), default=0),
    )
    stands = Q(outcome=IdleOutcome.OPEN) | Q(outcome=IdleOutcome.KEPT, kept_until__gt=now)
    standing = (
        rows.filter(stands, attempt__ended_at__isnull=True)
        .select_related("attempt__job__owner", "rule__project__team", "rule__pool", "kept_by")
        .order_by("-outcome", F("act_at").asc(nulls_last=True), "pk")
    )
    first: dict[int, IdleWarning] = {}
    for one in standing[: 2 * MOST_SHOWN]:
        first.setdefault(one.attempt_id, one)
    return Reclaimed(**sums, standing=list(first.values())[:MOST_SHOWN])
