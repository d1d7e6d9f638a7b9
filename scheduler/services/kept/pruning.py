"""How long logs, files and readings of GPUs are kept, by project, and deleting what is older.

Only jobs that are over are looked at. Nothing that money or the audit needs goes: jobs, attempts,
events, usage and digests stay; what goes are bytes and readings, whose sums by day stay. Hours of
readings that no project speaks for go by their own age. A job's last confirmed checkpoint stays,
however old it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf
from time import monotonic
from typing import Any, TypeVar

from django.core.files.storage import default_storage
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery, Sum, Value
from django.db.models.functions import Coalesce

from accounts.models import Project, User
from accounts.permissions import can, managed_for
from accounts.services.audit import record
from scheduler.conf import load_conf
from scheduler.models import (
    Attempt,
    DeviceHour,
    DeviceSample,
    LogChunk,
    OutputFile,
    Placement,
    Retention,
)
from scheduler.services.errors import Forbidden, Invalid, NotFound
from scheduler.services.kept.folders import clear_folder, remove_if_empty
from scheduler.services.kept.outputs import delete_bytes
from scheduler.services.logs import log_folder
from scheduler.services.timeline.readings.hours import forget_attempts
from scheduler.services.timeline.wasted_days import keep_readings
from scheduler.states import FINAL_JOB_STATES

logger = logging.getLogger(__name__)

BATCH = 200
_ROWS = 5000
MAX_DAYS = 36_500
_Row = TypeVar("_Row", Placement, OutputFile)


@dataclass(frozen=True, slots=True)
class Pruned:
    """What went, or would go: logs of ranks, files, the bytes of both, and readings of GPUs."""

    logs: int = 0
    files: int = 0
    bytes: int = 0
    samples: int = 0

    @property
    def items(self) -> int:
        """All of them together."""
        return self.logs + self.files + self.samples


@transaction.atomic
def set_retention(
    *,
    actor: User,
    project: Project,
    log_days: int | None,
    file_days: int | None,
    sample_days: int | None = None,
) -> Retention:
    """Keep what this project's jobs leave for so many days after a job's end; None: the default.

    Raises NotFound for a project that is not the actor's to see, Forbidden for who does not manage
    it, Invalid for a number that cannot be.
    """
    after = {"log_days": log_days, "file_days": file_days, "sample_days": sample_days}
    _check(actor, project, **after)
    row, _ = Retention.objects.select_for_update().get_or_create(project=project)
    before = {name: getattr(row, name) for name in after}
    if before != after:
        for name, days in after.items():
            setattr(row, name, days)
        row.version += 1
        row.save()
        giver, what = managed_for(actor, project), "project.retention"
        record(actor, what, project, before=before, after=after, on_behalf_of=giver)
    return row


def _check(actor: User, project: Project, **days: int | None) -> None:
    if not can(actor, "view", project):
        raise NotFound("There is no such project.")
    if not can(actor, "manage_project", project):
        raise Forbidden("Leads of the team decide how long what its jobs leave is kept.")
    for field, count in days.items():
        if count is not None and not 1 <= count <= MAX_DAYS:
            raise Invalid(f"{field}: write 1 to {MAX_DAYS} days.", field=field)


def prune_kept(*, now: datetime, dry_run: bool = False, within_s: float = inf) -> Pruned:
    """Delete what is due, one after the other; `dry_run`: only count.

    `within_s`: logs, files and readings have a third of it each; what is left is due the next time.
    """
    logs, files = _due_logs(now), _due_files(now)
    attempts, hours = _due_attempts(now), _old_hours(now)
    if dry_run:
        return _count(logs, files, attempts, hours.count())
    turn_s = within_s / 3
    done_logs, of_logs = _prune_each(logs, _prune_log, now, monotonic() + turn_s)
    done_files, of_files = _prune_each(files, _prune_file, now, monotonic() + turn_s)
    done_samples, until_s = 0, monotonic() + turn_s
    while monotonic() < until_s and (ids := list(attempts.values_list("pk", flat=True)[:BATCH])):
        keep_readings(ids)
        forget_attempts(ids)
        done_samples += sum(each.delete()[0] for each in _readings_of(ids))
    while monotonic() < until_s and (ids := list(hours.values_list("pk", flat=True)[:_ROWS])):
        due = DeviceHour.objects.filter(pk__in=ids)
        keep_readings({pk for pk in due.values_list("attempt", flat=True) if pk is not None})
        done_samples += due.delete()[0]
    return Pruned(done_logs, done_files, of_logs + of_files, done_samples)


def would_prune(
    *,
    actor: User,
    project: Project,
    log_days: int | None,
    file_days: int | None,
    sample_days: int | None = None,
    now: datetime,
) -> Pruned:
    """What would go at once if the project kept what is left for so many days; deletes nothing.

    Refuses what `set_retention` refuses.
    """
    _check(actor, project, log_days=log_days, file_days=file_days, sample_days=sample_days)
    conf = load_conf()
    logs = _logs_of(_ended_before("attempt__job__", log_days or conf.keep_log_days, now, project))
    files = _files_of(_ended_before("job__", file_days or conf.keep_file_days, now, project))
    if sample_days is None:
        # As `_old_hours` does it for who says nothing: by the age of the hour, hours alone.
        hours = _aged_hours(now).filter(attempt__job__project=project)
        return _count(logs, files, Attempt.objects.none(), hours.count())
    return _count(logs, files, _attempts_of(_ended_before("job__", sample_days, now, project)))


def _count(
    logs: QuerySet[Placement],
    files: QuerySet[OutputFile],
    attempts: QuerySet[Attempt],
    samples: int = 0,
) -> Pruned:
    samples += sum(each.count() for each in _readings_of(attempts.values("pk")))
    chunks = LogChunk.objects.filter(placement__in=logs.order_by())
    size = chunks.aggregate(sum=Sum("size", default=0))["sum"]
    size += files.aggregate(sum=Sum("stored", default=0))["sum"]
    return Pruned(logs.count(), files.count(), size, samples)


def _due_logs(now: datetime) -> QuerySet[Placement]:
    """Ranks whose log's time is over, and those whose pruning was cut short."""
    return _logs_of(_over("attempt__job__", "log_days", load_conf().keep_log_days, now))


def _logs_of(due: Q) -> QuerySet[Placement]:
    has_log = LogChunk.objects.filter(placement=OuterRef("pk"))
    return Placement.objects.filter(due, Exists(has_log)).order_by("pk")


def _due_files(now: datetime) -> QuerySet[OutputFile]:
    return _files_of(_over("job__", "file_days", load_conf().keep_file_days, now))


def _files_of(due: Q) -> QuerySet[OutputFile]:
    """Without those that have the bytes of their job's furthest confirmed checkpoint."""
    saved = Attempt.objects.filter(job=OuterRef("job"), checkpoint_at__isnull=False)
    furthest = saved.order_by(F("checkpoint_step").desc(nulls_last=True), "-number")
    digest = Coalesce(Subquery(furthest.values("checkpoint_digest")[:1]), Value("-"))
    files = OutputFile.objects.filter(due, pruned_at=None, problem="")
    return files.alias(last_good=digest).exclude(digest=F("last_good")).order_by("pk")


def _due_attempts(now: datetime) -> QuerySet[Attempt]:
    """Of projects that say for how long they keep readings; others' go by the age of the hour."""
    due = Q(pk__in=[])
    for project, days in _own_days("sample_days").items():
        due |= _ended_before("job__", days, now, project)
    return _attempts_of(due)


def _attempts_of(due: Q) -> QuerySet[Attempt]:
    raw, hours = _readings_of(OuterRef("pk"), "")
    return Attempt.objects.filter(due).filter(Exists(raw) | Exists(hours)).order_by("pk")


def _readings_of(
    attempts: Any, among: str = "__in"
) -> tuple[QuerySet[DeviceSample], QuerySet[DeviceHour]]:
    of = {f"attempt{among}": attempts}
    return DeviceSample.objects.filter(**of), DeviceHour.objects.filter(**of)


def _old_hours(now: datetime) -> QuerySet[DeviceHour]:
    own = "attempt__job__project__retention__sample_days"
    return _aged_hours(now).filter(Q(attempt=None) | Q(**{own: None}))


def _aged_hours(now: datetime) -> QuerySet[DeviceHour]:
    return DeviceHour.objects.filter(hour__lt=now - timedelta(days=load_conf().keep_hour_days))


def _own_days(field: str) -> dict[int, int]:
    """By project, where it says so itself."""
    return dict(
        Retention.objects.filter(**{f"{field}__isnull": False}).values_list("project", field)
    )


def _over(job: str, field: str, default_days: int, now: datetime) -> Q:
    """Jobs that are over and ended longer ago than their project keeps them."""
    own = _own_days(field)
    due = _ended_before(job, default_days, now) & ~Q(**{f"{job}project__in": list(own)})
    for project, days in own.items():
        due |= _ended_before(job, days, now, project)
    return due


def _ended_before(job: str, days: int, now: datetime, project: Project | int | None = None) -> Q:
    over = Q(**{f"{job}state__in": FINAL_JOB_STATES})
    over &= Q(**{f"{job}ended_at__lt": now - timedelta(days=days)})
    return over & Q(**{f"{job}project": project}) if project is not None else over


def _prune_log(placement: Placement, now: datetime) -> int:
    """Show the log as empty, then delete its bytes, then their rows; returns how many bytes went.

    Raises OSError for what cannot be deleted.
    """
    Placement.objects.filter(pk=placement.pk).update(log_pruned_at=now, log_size=0, log_lines=0)
    chunks, size, is_last = LogChunk.objects.filter(placement=placement), 0, False
    while not is_last:
        rows = list(chunks.order_by("pk").values_list("pk", "path", "size")[:_ROWS])
        for _, path, _ in rows:
            with suppress(FileNotFoundError):
                default_storage.delete(path)
        is_last = len(rows) < _ROWS
        if is_last:
            # And what no row names: pieces that came too late, and what a crash left.
            folder = log_folder(placement.attempt_id, placement.rank)
            clear_folder(folder)
            remove_if_empty(folder.rpartition("/")[0])
        chunks.filter(pk__in=[key for key, _, _ in rows]).delete()
        size += sum(bytes_ for _, _, bytes_ in rows)
    return size


def _prune_file(row: OutputFile, now: datetime) -> int:
    # Bytes first: who is killed in between deletes nothing twice and forgets nothing.
    delete_bytes(row)
    remove_if_empty(row.folder.rpartition("/")[0])
    OutputFile.objects.filter(pk=row.pk).update(pruned_at=now, stored=0)
    return row.stored


def _prune_each(
    due: QuerySet[_Row], prune: Callable[[_Row, datetime], int], now: datetime, until_s: float
) -> tuple[int, int]:
    """How many went, and their bytes. What cannot be deleted now is passed by, and due again the
    next time."""
    count = size = last = 0
    while batch := list(due.filter(pk__gt=last)[:BATCH]):
        last = batch[-1].pk
        for row in batch:
            if monotonic() > until_s:
                return count, size
            try:
                size += prune(row, now)
                count += 1
            except OSError as problem:
                logger.warning("something kept for long enough could not be deleted: %s", problem)
    return count, size
