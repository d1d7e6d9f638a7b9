"""The attempts of a job with the nodes they were placed on, as they come with the job's row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.db import models
from django.db.models import QuerySet, prefetch_related_objects
from django.db.models.functions import Left

from accounts.errors import NotFound
from accounts.models import User
from accounts.models.rows import AsJson, moment_in, rows_in
from scheduler.models import Attempt, Job, Node, Placement
from scheduler.selectors.jobs import allocations_shown, check_visible, may_read_inside
from scheduler.selectors.one_job.carried import carried, document


def _columns(model: type[models.Model]) -> dict[str, models.Field[Any, Any]]:
    return {field.attname: field for field in model._meta.concrete_fields}


_SHARE, _TRY = _columns(Placement), _columns(Attempt)
_NODE = {name: field for name, field in _columns(Node).items() if name in ("id", "name", "pool_id")}
# Which may be large, and nobody reads more of it here than whether there is any.
_PATCH = "code_patch"


def tries_of(viewer: User, job: Job) -> QuerySet[Attempt]:
    """Oldest first, without their patches, which may be large; one query."""
    check_visible(viewer, job)
    return job.attempts.order_by("number").defer(_PATCH)


def patch_of(viewer: User, job: Job, number: int) -> tuple[str, str]:
    """The commit that an attempt ran, and its code's local changes, "" without any; raises NotFound
    where there is none for the viewer, whoever may see the job without what is inside."""
    found = job.attempts.filter(number=number).values_list("code_commit", _PATCH).first()
    if found is None or not may_read_inside(viewer, job):
        raise NotFound("This job has no such attempt for you.")
    return found


def tries_along(job: int) -> AsJson:
    """All that were placed, to come with the row of the job; `tries_in` reads them."""
    return carried(
        Placement.objects.filter(attempt__job=job).order_by(),
        *_SHARE,
        *(Left(f"attempt__{n}", 1) if n == _PATCH else f"attempt__{n}" for n in _TRY),
        *(f"node__{name}" for name in _NODE),
    )


def tries_in(job: Job, told: str | None) -> list[Attempt]:
    """Oldest first, with their placements by rank and the names of the nodes; of a patch no more
    than its first sign."""
    tries: dict[int, tuple[Attempt, list[Placement]]] = {}
    for row in rows_in(told):
        values = iter(row)
        placement, attempt, node = (
            _made(model, fields, values)
            for model, fields in ((Placement, _SHARE), (Attempt, _TRY), (Node, _NODE))
        )
        attempt, its = tries.setdefault(attempt.pk, (attempt, []))
        placement.attempt, placement.node = attempt, node
        its.append(placement)
    found = sorted((attempt for attempt, _ in tries.values()), key=lambda one: one.number)
    for attempt in found:
        attempt.job = job
        by_rank = sorted(tries[attempt.pk][1], key=lambda one: one.rank)
        hand_over(attempt, "placements", by_rank)
    return found


def read_devices(attempts: Iterable[Attempt]) -> None:
    """Read what their placements held, with the devices, by index; one query."""
    placements = [one for attempt in attempts for one in attempt.placements.all()]
    prefetch_related_objects(placements, allocations_shown())


def hand_over(owner: models.Model, name: str, rows: list[Any]) -> None:
    """Let `owner.<name>.all()` be these rows, as after `prefetch_related`."""
    kept = getattr(owner, name).none()
    kept._result_cache = rows
    owner.__dict__.setdefault("_prefetched_objects_cache", {})[name] = kept


def stream_among(
    job: Job, tries: Sequence[Attempt], attempt_number: int | None, rank: int
) -> Placement | None:
    """Equals `get_readable_placement` for tries of `tries_in`; raises NotFound."""
    found = None
    for attempt in tries:
        if attempt_number in (None, attempt.number):
            found = next((one for one in attempt.placements.all() if one.rank == rank), found)
    is_odd = attempt_number is not None or rank >= job.nodes
    if found is None and (is_odd or (rank and tries)):
        raise NotFound("This job has no such attempt or rank.")
    return found


def _made(model: Any, fields: dict[str, models.Field[Any, Any]], values: Any) -> Any:
    """A row of a table, of JSON as either database writes it."""
    read = [_read(field, next(values)) for field in fields.values()]
    return model.from_db("default", list(fields), read)


def _read(field: models.Field[Any, Any], value: Any) -> Any:
    if isinstance(field, models.DateTimeField):
        return moment_in(value)
    if isinstance(field, models.JSONField):
        return document(value)
    return bool(value) if isinstance(field, models.BooleanField) else value
