"""What a rule for GPUs that do little would have done in the last days; it does nothing.

From the readings that are kept, as the report *Idle waste* counts them: time in which every GPU of
an attempt was used little over whole spans. Lines of log and checkpoints count as work, as far as
their times are still known. Readings that were rolled up to hours are told below the site's own per
cent, younger ones below the rule's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Count, F, Q, QuerySet
from django.db.models.functions import Coalesce

from accounts.models import Project, User
from scheduler.conf import load_conf
from scheduler.models import Attempt, DeviceHour, DeviceSample, LogChunk, Pool
from scheduler.selectors.books.seconds import Readings, read_idle
from scheduler.services.errors import Invalid
from scheduler.services.idling.rules import IdleTerms, check_terms
from scheduler.states import IdleAct

MAX_DAYS = 28
MOST_SHOWN = 50
_Piece = tuple[int, int]


@dataclass(frozen=True, slots=True)
class TriedJob:
    """An attempt that would have been warned; `act_at` None: nothing would have followed."""

    job: int
    name: str
    owner: str
    attempt: int
    gpus: int
    idle_since: datetime
    warned_at: datetime
    act_at: datetime | None
    freed_gpu_s: int


@dataclass(frozen=True, slots=True)
class Trial:
    """Of `attempts` that ran long enough, how many would have been warned and then paused or
    stopped, and for how many GPU-seconds they held their GPUs after that; `rows` those that held
    most, at most MOST_SHOWN. Readings from before `exact_since`, if it `has_hours`, are told below
    `site_percent`."""

    days: int
    attempts: int
    warned: int
    acted: int
    freed_gpu_s: int
    rows: Sequence[TriedJob]
    exact_since: datetime
    has_hours: bool
    site_percent: int


def try_idle_rule(
    *, actor: User, owner: Project | Pool, terms: IdleTerms, days: int, now: datetime
) -> Trial:
    """A constant number of statements. Raises what `set_idle_rule` raises, and Invalid for days."""
    check_terms(actor, owner, terms)
    if not 1 <= days <= MAX_DAYS:
        raise Invalid(f"days: write 1 to {MAX_DAYS} days.", field="days")
    conf = replace(load_conf(), idle_below_percent=terms.below_percent)
    since = now - timedelta(days=days)
    attempts = _long_enough(owner, terms, since, now)
    rows = {row["pk"]: row for row in attempts}
    ids = attempts.values("pk")
    # Hours whose begin lies before are of the window's first one.
    hours = DeviceHour.objects.filter(attempt__in=ids, hour__gte=since - timedelta(hours=1))
    samples = DeviceSample.objects.filter(attempt__in=ids, at__gte=since, at__lte=now)
    idle = {
        pk: pieces
        for pk, read in read_idle(samples, hours, conf).items()
        if pk in rows and (pieces := list(_all_idle(read, rows[pk]["devices"])))
    }
    breaks = _breaks(idle, since)
    found = [
        tried
        for pk, pieces in idle.items()
        if (tried := _tried(rows[pk], pieces, breaks.get(pk, ()), terms, now)) is not None
    ]
    raw_since = now - timedelta(seconds=conf.sample_retention_s)
    found.sort(key=lambda one: (-one.freed_gpu_s, one.act_at is None, one.job))
    return Trial(
        days=days,
        attempts=len(rows),
        warned=len(found),
        acted=sum(one.act_at is not None for one in found),
        freed_gpu_s=sum(one.freed_gpu_s for one in found),
        rows=found[:MOST_SHOWN],
        exact_since=max(since, raw_since),
        has_hours=raw_since > since,
        site_percent=load_conf().idle_below_percent,
    )


def _long_enough(
    owner: Project | Pool, terms: IdleTerms, since: datetime, now: datetime
) -> QuerySet[Any, Any]:
    whose = Q(job__pool=owner) if isinstance(owner, Pool) else Q(job__project=owner)
    least = timedelta(minutes=terms.first_minutes + terms.warn_minutes)
    until = Coalesce("released_at", "ended_at", now)
    return (
        Attempt.objects.filter(
            whose,
            Q(ended_at__isnull=True) | Q(ended_at__gt=since),
            started_at__isnull=False,
            job__session__isnull=True,
            job__gpus_per_node__gt=0,
        )
        .order_by("pk")
        .annotate(until=until, devices=Count("placements__allocations__device", distinct=True))
        .filter(until__gte=F("started_at") + least)
        .values(
            "pk",
            "number",
            "started_at",
            "until",
            "checkpoint_at",
            "devices",
            "job_id",
            "job__name",
            "job__owner__username",
        )
    )


def _all_idle(read: Readings, devices: int) -> Iterator[_Piece]:
    """The time in which all of so many GPUs rested, as (first second, end)."""
    if len(read.pieces) < devices:
        return
    edges: dict[int, int] = {}
    for pieces in read.pieces.values():
        for begin, end in _joined(pieces):
            edges[begin] = edges.get(begin, 0) + 1
            edges[end] = edges.get(end, 0) - 1
    resting, began = 0, 0
    for moment in sorted(edges):
        was, resting = resting, resting + edges[moment]
        if resting == devices and was < devices:
            began = moment
        elif was == devices and resting < devices:
            yield began, moment


def _joined(pieces: Iterable[_Piece]) -> Iterator[_Piece]:
    """Pieces of (first second, seconds) that touch or overlap as one of (first second, end)."""
    began = ended = -1
    for start, length in sorted(pieces):
        if start > ended:
            if ended > began:
                yield began, ended
            began = start
        ended = max(ended, start + length)
    if ended > began:
        yield began, ended


def _breaks(idle: Mapping[int, object], since: datetime) -> dict[int, list[int]]:
    """When the attempts that rested wrote a line, in seconds, in order; one statement."""
    found: dict[int, list[int]] = {}
    wrote = LogChunk.objects.filter(placement__attempt__in=list(idle), created_at__gte=since)
    rows = wrote.order_by("created_at").values_list("placement__attempt_id", "created_at")
    for attempt, at in rows.iterator(20_000) if idle else ():
        found.setdefault(attempt, []).append(int(at.timestamp()))
    return found


def _tried(
    row: Mapping[str, Any],
    pieces: Sequence[_Piece],
    breaks: Iterable[int],
    terms: IdleTerms,
    now: datetime,
) -> TriedJob | None:
    """The first pause or stop that would have come, or else the first warning."""
    until = int(row["until"].timestamp())
    first = int(row["started_at"].timestamp()) + 60 * terms.first_minutes
    warn_s, act_s = 60 * terms.warn_minutes, 60 * (terms.act_minutes or 0)
    stirs = [*breaks]
    if row["checkpoint_at"] is not None:
        stirs.append(int(row["checkpoint_at"].timestamp()))
    warned: int | None = None
    for begin, end in _cut(pieces, sorted(stirs), first, until):
        if end - begin < warn_s:
            continue
        warned = warned if warned is not None else begin
        if terms.act != IdleAct.TELL and end - begin >= warn_s + act_s:
            act = begin + warn_s + act_s
            return _row(row, begin, begin + warn_s, act, (until - act) * row["devices"])
    return None if warned is None else _row(row, warned, warned + warn_s, None, 0)


def _cut(
    pieces: Sequence[_Piece], stirs: Sequence[int], first: int, until: int
) -> Iterator[_Piece]:
    """The pieces between the first minutes and the end, cut where something stirred."""
    for begin, end in pieces:
        begin, end = max(begin, first), min(end, until)
        for moment in stirs:
            if begin < moment < end:
                yield begin, moment
                begin = moment
        if end > begin:
            yield begin, end


def _row(row: Mapping[str, Any], since: int, warned: int, act: int | None, freed: int) -> TriedJob:
    return TriedJob(
        job=row["job_id"],
        name=row["job__name"],
        owner=row["job__owner__username"],
        attempt=row["number"],
        gpus=row["devices"],
        idle_since=datetime.fromtimestamp(since, UTC),
        warned_at=datetime.fromtimestamp(warned, UTC),
        act_at=None if act is None else datetime.fromtimestamp(act, UTC),
        freed_gpu_s=max(0, freed),
    )
