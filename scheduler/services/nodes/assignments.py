"""What a node is told of an attempt: put together whole, in three statements built once."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast

from accounts.statements import BuiltOnce, empty_here
from scheduler.conf import load_conf
from scheduler.models import Allocation, Attempt, Placement
from scheduler.spec import JobSpec
from scheduler.spec.values import WHOLE_MILLI
from scheduler.states import LIVE_ATTEMPT_STATES, PAUSES, AttemptState, EndReason
from scheduler.wire.messages import Assignment, Checkpoint, Code, Launch, StopOrder
from scheduler.wire.sessions import SessionLaunch, path_of

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_AS_TIME_LIMIT = (
    EndReason.BOOKING_ENDED,
    EndReason.FINISH_BY_REACHED,
    EndReason.MAX_COST_REACHED,
)
_GRANTED = tuple(f"device__{name}" for name in "uuid slot parent__uuid milli memory_mib".split())


@dataclass(slots=True)
class _Grant:
    """The devices of a placement as its node knows them; of slots it knows their card alone."""

    uuids: list[str] = field(default_factory=list)
    milli: int = WHOLE_MILLI
    memory_mib: int = 0

    def add(self, uuid: str, slot: int | None, card: str | None, milli: int, mib: int) -> None:
        if slot is None or card is None:
            self.uuids.append(uuid)
        else:
            self.uuids.append(card)
            self.milli, self.memory_mib = milli, mib


def open_placements() -> QuerySet[Placement]:
    """Ranks that a node should have: of live attempts, and not ended."""
    return Placement.objects.filter(ended_at__isnull=True, attempt__state__in=LIVE_ATTEMPT_STATES)


@dataclass(frozen=True, slots=True)
class _Told:
    """A rank as its node is told of it; the row of `_WHOLE`, by name."""

    pk: int
    fence: int
    rank: int
    protocol: int
    number: int
    state: str
    stop_reason: str
    stop_grace_s: int
    master_port: int | None
    resumes: int | None
    cost_limit_s: int | None
    job_id: int
    job_name: str
    time_limit_s: int
    array: int | None
    array_index: int | None
    array_size: int | None
    project: str
    team: str
    spec: str


# In the order of `_Told`; the spec comes behind them, as text.
_COLUMNS = (
    *("pk", "attempt", "rank", "node__protocol"),
    *(f"attempt__{name}" for name in "number state stop_reason stop_grace_s".split()),
    *(f"attempt__{name}" for name in "master_port resumes cost_limit_s".split()),
    *(f"attempt__job__{name}" for name in "pk name time_limit_s job_set array_index".split()),
    *(f"attempt__job__{name}" for name in "job_set__size project__slug".split()),
    "attempt__job__project__team__slug",
)


def _whole_of(ids: Sequence[int], _now: datetime) -> QuerySet[Placement, tuple[Any, ...]]:
    spec = Cast("attempt__job__spec", TextField())
    told = open_placements().filter(pk__in=ids).order_by("attempt_id")
    return told.annotate(spec_text=spec).values_list(*_COLUMNS, "spec_text")


def _granted_to(ids: Sequence[int], _now: datetime) -> QuerySet[Allocation, tuple[Any, ...]]:
    held = Allocation.objects.filter(empty_here("released_at"), placement__in=ids)
    return held.order_by("device__index", "device__pk").values_list("placement_id", *_GRANTED)


def _ranks_of(fences: Sequence[int], _now: datetime) -> QuerySet[Placement, tuple[Any, ...]]:
    ranks = Placement.objects.filter(attempt__in=fences).order_by("rank")
    return ranks.values_list("attempt_id", "node__address")


_WHOLE, _GRANTS, _RANKS = BuiltOnce(_whole_of), BuiltOnce(_granted_to), BuiltOnce(_ranks_of)


def assignments_of(placement_ids: Sequence[int], now: datetime) -> dict[int, Assignment]:
    """By placement, in the order of their attempts.

    Three statements for any number of placements; one more where any resumes, and where any fetches
    code by a name that may move, one for their jobs and one for each array.
    """
    told = [_Told(*row) for row in _WHOLE.rows(placement_ids, now)]
    grants: dict[int, _Grant] = {}
    for placement_id, *device in _GRANTS.rows(placement_ids, now):
        grants.setdefault(placement_id, _Grant()).add(*device)
    addresses: dict[int, list[str]] = {}
    for fence, address in _RANKS.rows([one.fence for one in told], now):
        addresses.setdefault(fence, []).append(address)
    resumed = {one.resumes for one in told if one.resumes is not None}
    earlier = Attempt.objects.in_bulk(list(resumed)) if resumed else {}
    pins = _pins(told)
    return {
        one.pk: _assignment(
            one,
            tuple(addresses[one.fence]),
            grants.get(one.pk, _Grant()),
            earlier.get(one.resumes or 0),
            pins.get(one.job_id, ""),
        )
        for one in told
    }


def _pins(told: Sequence[_Told]) -> dict[int, str]:
    """By job, the commit that its code was fetched at before: in this very attempt, else in its
    last one that told any; of a task without one, in the first task of its array that has one."""
    moving = {one.job_id: one for one in told if _may_move(_spec_of(one.spec))}
    if not moving:
        return {}
    known = Attempt.objects.exclude(code_commit="")
    tried = known.filter(job__in=moving).order_by("job", "number")
    pins = dict(tried.values_list("job_id", "code_commit"))
    arrays = {one.array for job, one in moving.items() if job not in pins and one.array is not None}
    firsts: dict[int | None, str] = {array: _first_of(known, array) for array in arrays}
    found = {job: pins.get(job) or firsts.get(one.array, "") for job, one in moving.items()}
    return {job: commit for job, commit in found.items() if _COMMIT.fullmatch(commit)}


def _may_move(spec: JobSpec) -> bool:
    return bool(spec.code.git_url) and not _COMMIT.fullmatch(spec.code.git_ref)


def _first_of(known: QuerySet[Attempt], array: int) -> str:
    tasks = known.filter(job__job_set=array).order_by("job__array_index", "number")
    return tasks.values_list("code_commit", flat=True).first() or ""


def _assignment(
    told: _Told,
    addresses: tuple[str, ...],
    grant: _Grant,
    earlier: Attempt | None,
    commit: str,
) -> Assignment:
    spec = _spec_of(told.spec)
    stop = None
    if told.state == AttemptState.STOPPING:
        stop = StopOrder(_told_reason(told), told.stop_grace_s)
    return Assignment(
        fence=told.fence,
        job_id=told.job_id,
        job_name=told.job_name,
        team=told.team,
        project=f"{told.team}/{told.project}",
        attempt_number=told.number,
        rank=told.rank,
        addresses=addresses,
        device_uuids=tuple(grant.uuids),
        gpu_milli=grant.milli,
        gpu_memory_mib=grant.memory_mib,
        launch=_launch(spec, told, commit),
        master_port=told.master_port if told.rank else None,
        resume_from=earlier.checkpoint_path if earlier else "",
        resume=_resume(earlier),
        stop=stop,
    )


@lru_cache(maxsize=256)
def _spec_of(text: str) -> JobSpec:
    """The ranks of a gang are told of the same one, mostly one soon after the other."""
    return JobSpec.model_validate(json.loads(text))


def _told_reason(told: _Told) -> EndReason:
    """Agents of protocol 1 know no pause, and none knows of budgets, sizes, code and what
    idles; what follows from a stop is not theirs to know."""
    reason = EndReason(told.stop_reason)
    if reason in _AS_TIME_LIMIT:
        # For a node that is a time limit like any other, told by the server.
        return EndReason.TIME_LIMIT
    if reason is EndReason.SUPERSEDED:
        # For the program it is a cancel, which every agent knows.
        return EndReason.CANCELLED_BY_USER
    is_old = told.protocol < 2
    is_new_to_it = (is_old and reason in PAUSES) or reason in (
        EndReason.BUDGET_SPENT,
        EndReason.RESIZED,
        EndReason.SESSION_IDLE,
        EndReason.CODE_DIFFERS,
        EndReason.IDLE_PAUSED,
        EndReason.IDLE_STOPPED,
    )
    return EndReason.PREEMPTED if is_new_to_it else reason


def _resume(earlier: Attempt | None) -> Checkpoint | None:
    if earlier is None or earlier.checkpoint_at is None:
        return None
    return Checkpoint(
        path=earlier.checkpoint_path,
        step=earlier.checkpoint_step or 0,
        bytes=earlier.checkpoint_bytes or 0,
        digest=earlier.checkpoint_digest,
        taken_at=earlier.checkpoint_at.timestamp(),
    )


def _launch(spec: JobSpec, told: _Told, commit: str) -> Launch:
    return Launch(
        command=spec.command,
        env={**spec.env, **_of_array(told)},
        working_dir=spec.working_dir,
        code=Code(
            script=spec.script,
            folder=spec.code.folder,
            git_url=spec.code.git_url,
            # Where all agents look for what to fetch, the oldest too.
            git_ref=commit or spec.code.git_ref,
            git_named=(spec.code.git_ref or "HEAD") if commit else "",
        ),
        processes_per_node=spec.gpus_per_node if spec.processes == "gpu" else 1,
        cpus=spec.cpus,
        memory_mib=spec.memory,
        # Whichever comes first; the node holds it without the server.
        time_limit_s=min(told.time_limit_s, told.cost_limit_s or told.time_limit_s),
        checkpoint_dir=spec.checkpoint_dir,
        stop_signal=str(spec.stop.signal),
        stop_grace_s=spec.stop.grace,
        secrets=spec.secrets,
        log_cap_mib=load_conf().log_cap_mib,
        disconnect_grace_s=spec.disconnect_grace,
        usual_grace_s=load_conf().disconnect_grace_s,
        session=SessionLaunch(spec.session.app, path_of(told.job_id)) if spec.session else None,
    )


def _of_array(told: _Told) -> dict[str, str]:
    """What tells a task of an array which one it is; a user's variable never has such a name."""
    if told.array is None:
        return {}
    return {
        "TRAINYARD_ARRAY_ID": str(told.array),
        "TRAINYARD_ARRAY_INDEX": str(told.array_index),
        "TRAINYARD_ARRAY_SIZE": str(told.array_size),
    }
