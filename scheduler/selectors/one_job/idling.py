"""How a running job stands under the rules for GPUs that do little."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from accounts.models import User
from accounts.models.rows import AsJson, moment_in, rows_in
from accounts.permissions import can
from scheduler.models import IdleWarning, Job
from scheduler.selectors.one_job.carried import carried
from scheduler.selectors.telemetry import may_read_metrics
from scheduler.states import (
    IDLE_ACT_DONE,
    AttemptState,
    IdleAct,
    IdleOutcome,
    JobState,
    idle_evidence,
    idle_rule_name,
    moment_words,
)

_MOMENTS = ("warned_at", "idle_since", "act_at", "kept_until")
_FIELDS = (
    *_MOMENTS,
    "rule_id",
    "rule__project__team__slug",
    "rule__project__slug",
    "rule__pool__name",
    "rule__keep_hours",
    "below_percent",
    "gpus",
    "readings",
    "highest_percent",
    "act",
    "outcome",
    "kept_hours",
    "word",
    "kept_by__username",
    "kept_by__display_name",
)
# No rule gives as many hours, one at a time.
_AT_MOST = 200


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning that stands: by whose rule, what was seen, what follows when (None: nothing)."""

    rule: str
    evidence: str
    idle_since: datetime
    warned_at: datetime
    act: str
    act_at: datetime | None

    @property
    def done(self) -> str:
        """What is done to it then: "paused" or "stopped"."""
        return IDLE_ACT_DONE[IdleAct(self.act)]


@dataclass(frozen=True, slots=True)
class Kept:
    """Somebody said that it is still needed: who, why, for how many hours and until when."""

    who: str
    reason: str
    hours: int
    until: datetime


@dataclass(frozen=True, slots=True)
class IdleStanding:
    """`hours_left`: of those that the rules let the attempt have, for the next time."""

    warned: Sequence[Warned]
    kept: Kept | None
    hours_left: int
    may_keep: bool

    @property
    def sentence(self) -> str:
        """Where it stands, in words."""
        if not self.warned:
            assert self.kept is not None
            kept = self.kept
            return f"{kept.who} needs it until {moment_words(kept.until)}: {kept.reason}"
        first = self.warned[0]
        then = "" if first.act_at is None else f"; {first.done} at {first.act_at:%H:%M} UTC"
        return f"Its GPUs do little: {first.evidence}{then}, by {first.rule}."


def warnings_along(pk: int) -> AsJson:
    """Those of the attempt of a job that runs, to come with the row of the job."""
    return carried(_rows(pk)[:_AT_MOST], *_FIELDS)


def standing_in(viewer: User, job: Job, told: str, *, now: datetime) -> IdleStanding | None:
    """What came along; None where nothing stands, or for who may not see what its GPUs do."""
    return _standing(viewer, job, rows_in(told), now)


def idle_standing(viewer: User, job: Job, *, now: datetime) -> IdleStanding | None:
    """The same for a job that was found before; a statement, none unless it runs."""
    if job.state != JobState.RUNNING:
        return None
    return _standing(viewer, job, _rows(job.pk).values_list(*_FIELDS)[:_AT_MOST], now)


def _rows(pk: int) -> Any:
    rows = IdleWarning.objects.filter(attempt__job=pk, attempt__state=AttemptState.RUNNING)
    return rows.filter(outcome__in=(IdleOutcome.OPEN, IdleOutcome.KEPT)).order_by("-pk")


def _standing(
    viewer: User, job: Job, rows: Iterable[Sequence[Any]], now: datetime
) -> IdleStanding | None:
    found = [_read(row) for row in rows]
    if not found or not may_read_metrics(viewer, job):
        return None
    warned = [_warned(one) for one in found if one["outcome"] == IdleOutcome.OPEN]
    # What something follows first.
    warned.sort(key=lambda one: (one.act_at is None, one.act_at or one.warned_at))
    kept = next((one for one in found if one["kept_until"] and one["kept_until"] > now), None)
    if not warned and kept is None:
        return None
    given: dict[int, int] = {}
    for one in found:
        given[one["rule_id"]] = given.get(one["rule_id"], 0) + one["kept_hours"]
    # Where nothing stands, of those that are kept.
    asked = [one for one in found if one["outcome"] == IdleOutcome.OPEN] or [
        one for one in found if kept is not None and one["kept_until"] == kept["kept_until"]
    ]
    left = [one["rule__keep_hours"] - given[one["rule_id"]] for one in asked]
    is_own = job.owner_id == viewer.pk and can(viewer, "submit_job", job.project)
    return IdleStanding(
        warned=warned,
        kept=None if warned or kept is None else _kept(kept),
        hours_left=max(0, min(left, default=0)),
        may_keep=is_own or can(viewer, "manage_project", job.project),
    )


def _read(row: Sequence[Any]) -> dict[str, Any]:
    """As texts where they came along, else as the database has them."""
    one = dict(zip(_FIELDS, row, strict=True))
    for name in _MOMENTS:
        if isinstance(one[name], str):
            one[name] = moment_in(one[name])
    return one


def _warned(one: dict[str, Any]) -> Warned:
    project = f"{one['rule__project__team__slug']}/{one['rule__project__slug']}"
    pool = one["rule__pool__name"]
    return Warned(
        rule=idle_rule_name(f"pool {pool}" if pool else f"project {project}"),
        evidence=idle_evidence(
            gpus=one["gpus"],
            below=one["below_percent"],
            idle_s=int((one["warned_at"] - one["idle_since"]).total_seconds()),
            highest=one["highest_percent"],
            readings=one["readings"],
        ),
        idle_since=one["idle_since"],
        warned_at=one["warned_at"],
        act=one["act"],
        act_at=one["act_at"],
    )


def _kept(one: dict[str, Any]) -> Kept:
    who = one["kept_by__display_name"] or one["kept_by__username"] or "Somebody who has left"
    return Kept(who, one["word"], one["kept_hours"], one["kept_until"])
