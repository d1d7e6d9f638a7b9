"""Licences: what there is, who holds some, and what jobs ask for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet

from accounts.statements import AskedOnce
from scheduler.engine.snapshot import Tokens, floats, ints
from scheduler.loop.loading.wishes import Wishes
from scheduler.models import Attempt, Licence
from scheduler.states import LIVE_ATTEMPT_STATES


def load_licences(wishes: Wishes) -> dict[str, Any]:
    """The licence tables of the snapshot, in two queries.

    Tokens are held by live attempts, as their jobs ask. A name that jobs ask for and nobody keeps
    any more has no tokens.
    """
    totals = dict(LICENCES.read())
    if not totals and not wishes.licence_sets.rows:
        return {}
    asked = [name for members in wishes.licence_sets.rows for name, _ in members]
    row_of = {name: row for row, name in enumerate(sorted({*totals, *asked}))}
    held = Attempt.objects.filter(state__in=LIVE_ATTEMPT_STATES, job__is_shaped=True).values_list(
        "job_id", "job__licences", "started_at", "assigned_at", "job__time_limit_s"
    )
    tokens = [
        (job, row_of[name], count, (started or assigned).timestamp() + limit_s)
        for job, licences, started, assigned, limit_s in held
        for name, count in licences.items()
        if name in row_of
    ]
    return {
        "licences": tuple(row_of),
        "licence_total": ints([totals.get(name, 0) for name in row_of]),
        "licence_sets": tuple(
            tuple((row_of[name], count) for name, count in members)
            for members in wishes.licence_sets.rows
        ),
        "tokens": _as_tokens(tokens),
    }


def _as_tokens(rows: Iterable[tuple[int, int, int, float]]) -> Tokens:
    jobs, licences, counts, ends_s = list(zip(*rows, strict=True)) or [()] * 4
    return Tokens(
        job=ints(jobs), licence=ints(licences), count=ints(counts), until_s=floats(ends_s)
    )


def _licences() -> QuerySet[Licence, tuple[Any, ...]]:
    return Licence.objects.values_list("name", "total")


LICENCES = AskedOnce(_licences)
