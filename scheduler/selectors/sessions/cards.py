"""What a session's card says: how it is, what is left of its time, and since when nobody came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Avg, Case, F, Max, Q, QuerySet, When

from accounts.errors import NotFound
from accounts.models import User
from accounts.permissions import can, projects_visible_to
from scheduler.conf import load_conf
from scheduler.models import Attempt, DeviceSample, Session
from scheduler.models.telemetry import KNOWN_USE, MAY_WORK
from scheduler.selectors.jobs import MAX_PK, end_sentence_of, job_actions, wait_sentence_of
from scheduler.selectors.queues import start_window
from scheduler.selectors.telemetry import may_read_metrics
from scheduler.spec.units import format_duration
from scheduler.states import FINAL_JOB_STATES, LIVE_ATTEMPT_STATES, AttemptState

# What one press of Extend proposes.
EXTENDED_BY_S = 3600
_USE_OVER = timedelta(minutes=1)
# How much of the idle time has run down: from when on it is said, and how urgently.
WARNINGS = ((95, "last"), (80, "soon"), (50, "half"))


@dataclass(frozen=True, slots=True)
class SessionCard:
    """One session. `level`: "", half, soon or last of the idle time is over. None: not known, or
    it does not run. `extend_to`: the time limit to offer; "" where the viewer can give no more."""

    session: Session
    state: str
    attempt_id: int | None
    node: str
    started_at: datetime | None
    ends_at: datetime | None
    idle_since: datetime | None
    idle_stop_at: datetime | None
    idle_percent: int
    level: str
    gpu_percent: float | None
    extend_to: str
    actions: frozenset[str]

    @property
    def waits(self) -> str:
        """Why it waits; empty for one that does not."""
        return wait_sentence_of(self.session.job)

    @property
    def ended(self) -> str:
        """How it ended; empty for one that has not."""
        return end_sentence_of(self.session.job) if self.state in FINAL_JOB_STATES else ""

    @property
    def starts(self) -> tuple[datetime | None, datetime | None]:
        """As `start_window` of its job."""
        return start_window(self.session.job)

    @property
    def may_connect(self) -> bool:
        return "connect" in self.actions


def visible_sessions(viewer: User) -> QuerySet[Session]:
    """Sessions whose jobs the viewer may see, newest first."""
    related = [f"job__{one}" for one in ("project__team", "owner", "pool", "queue", "job_set")]
    rows = Session.objects.select_related(*related).order_by("-job_id")
    if not viewer.is_authenticated:
        return rows.none()
    if can(viewer, "see_jobs", None):
        return rows
    # By the project of each session: the jobs that one may see are many more than sessions.
    return rows.filter(job__project__in=projects_visible_to(viewer))


def get_visible_session(viewer: User, pk: int) -> Session:
    """Raises NotFound for a missing and for a foreign session alike."""
    found = visible_sessions(viewer).filter(pk=pk).first() if 0 < pk <= MAX_PK else None
    if found is None:
        raise NotFound("There is no such session for you.")
    return found


def session_cards(viewer: User, sessions: Sequence[Session], *, now: datetime) -> list[SessionCard]:
    """The cards, in two queries for all of them."""
    live = Attempt.objects.filter(
        job__in=[one.pk for one in sessions], state__in=LIVE_ATTEMPT_STATES
    )
    fields = ("pk", "job_id", "state", "started_at", "placements__node__name")
    attempts = {row[1]: row for row in live.values_list(*fields)}
    # What works now, and when it last did: no further back than any clock here reaches.
    farthest = max((one.idle_stop_s for one in sessions), default=0)
    rows = (
        DeviceSample.objects.filter(
            attempt__in=[row[0] for row in attempts.values()],
            at__gt=now - timedelta(seconds=farthest) - _USE_OVER,
        )
        .order_by()
        .values("attempt")
        .annotate(
            use=Avg("gpu_percent", filter=KNOWN_USE & Q(at__gt=now - _USE_OVER)),
            worked_at=Max(Case(When(MAY_WORK, then=F("at")))),
        )
        .values_list("attempt", "use", "worked_at")
        if attempts
        else []
    )
    measured = {pk: (use, worked_at) for pk, use, worked_at in rows}
    return [_card(viewer, one, attempts.get(one.pk), measured, now) for one in sessions]


def _card(
    viewer: User,
    session: Session,
    attempt: tuple[int, int, str, datetime | None, str] | None,
    measured: dict[int, tuple[float | None, datetime | None]],
    now: datetime,
) -> SessionCard:
    job = session.job
    pk, _, state, started_at, node = attempt or (None, 0, "", None, "")
    use, worked_at = measured.get(pk, (None, None)) if pk else (None, None)
    runs = state == AttemptState.RUNNING and started_at is not None
    moments = [one for one in (started_at, session.active_at, worked_at) if one is not None]
    since = max(moments) if runs else None
    rest = timedelta(seconds=session.idle_stop_s)
    percent = min(100, int(100 * ((now - since) / rest))) if since else 0
    limit = timedelta(seconds=job.time_limit_s)
    offered = job_actions(viewer, job)
    actions = offered & {"cancel", "clone"}
    is_mine = job.owner_id == viewer.pk and can(viewer, "submit_job", job.project)
    if is_mine and runs:
        actions |= {"connect", "keep"}
    return SessionCard(
        session=session,
        state=job.state,
        attempt_id=pk,
        node=node or "",
        started_at=started_at,
        ends_at=started_at + limit if started_at else None,
        idle_since=since,
        idle_stop_at=since + rest if since else None,
        idle_percent=max(0, percent),
        level=next((word for mark, word in WARNINGS if percent >= mark), ""),
        gpu_percent=use if may_read_metrics(viewer, job) else None,
        extend_to=_longer(job.time_limit_s) if runs and "change" in offered else "",
        actions=frozenset(actions),
    )


def _longer(limit_s: int) -> str:
    """An hour more, as far as sessions may run here; empty at the end of that."""
    most = min(load_conf().session_longest_s, limit_s + EXTENDED_BY_S)
    return format_duration(most) if most > limit_s else ""
