"""What grants add to quotas, moment by moment, and what is left of a limit when least is."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from django.db.models import F
from django.db.models.expressions import Combinable

from scheduler.models import Grant, Quota

# Of a grant: its quota, how much it adds, from when until when.
Span = tuple[int, int, datetime, datetime]


def granted_over(
    spans: Sequence[Span], since: datetime, until: datetime | None = None
) -> Iterator[tuple[datetime, Mapping[int | None, int]]]:
    """The moments from `since` until right before `until` (None: without end) at which something
    changes, the first one too, each with what is granted then, by quota."""
    turns = {turn for _, _, *both in spans for turn in both if turn > since}
    for moment in sorted({since, *(turn for turn in turns if until is None or turn < until)}):
        granted: dict[int | None, int] = {}
        for pk, more, begin, end in spans:
            if begin <= moment < end:
                granted[pk] = granted.get(pk, 0) + more
        yield moment, granted


def least_room(quota: Quota, since: datetime, until: datetime) -> int | None:
    """By how much the maximum lies above the guarantee when it does so least from `since` until
    right before `until`; None without a maximum. One query."""
    if quota.maximum is None:
        return None
    own = quota.maximum - quota.guaranteed
    spans = _spans([quota.pk], F("maximum") - F("guaranteed"), since, until)
    return min(own + granted.get(quota.pk, 0) for _, granted in granted_over(spans, since, until))


def limits_over(
    quotas: Collection[Quota], field: str, since: datetime, until: datetime
) -> Iterator[tuple[datetime, datetime, Mapping[int, int]]]:
    """From when until when, and what this limit is (of those that set it, by id) with the grants
    then; from `since` until right before `until`. One query."""
    limits = {quota.pk: getattr(quota, field) for quota in quotas}
    own = {pk: limit for pk, limit in limits.items() if limit is not None}
    turns = list(granted_over(_spans(own, F(field), since, until), since, until))
    ends = [*(moment for moment, _ in turns[1:]), until]
    for (moment, granted), end in zip(turns, ends, strict=True):
        yield moment, end, {pk: most + granted.get(pk, 0) for pk, most in own.items()}


def _spans(
    quotas: Collection[int], adds: Combinable, since: datetime, until: datetime | None
) -> list[Span]:
    """What grants on these quotas (ids) add within that time, as the expression says."""
    within = {"valid_until__gt": since} | ({} if until is None else {"valid_from__lt": until})
    grants = Grant.objects.filter(quota__in=quotas, revoked_at=None, **within)
    return list(
        grants.annotate(adds=adds).values_list("quota_id", "adds", "valid_from", "valid_until")
    )


class Left(NamedTuple):
    """At a moment: the limit above, what all below it have of it, and what of these is granted."""

    at: datetime
    above: int
    below: int
    granted: Mapping[int | None, int]

    @property
    def free(self) -> int:
        """Below zero where more was given away than there is."""
        return self.above - self.below


def least_left(
    above: Quota,
    below: Collection[Quota],
    field: str,
    *,
    since: datetime,
    until: datetime | None = None,
) -> Left | None:
    """The first of the moments from `since` until right before `until` at which least is left of a
    limit (its `field`); None if the quota above sets none. One query.
    """
    limit = getattr(above, field)
    if limit is None:
        return None
    spans = _spans([above.pk, *(one.pk for one in below)], F(field), since, until)
    given = sum(getattr(one, field) or 0 for one in below)
    return min(
        (
            Left(
                moment,
                limit + granted.get(above.pk, 0),
                given + sum(more for pk, more in granted.items() if pk != above.pk),
                granted,
            )
            for moment, granted in granted_over(spans, since, until)
        ),
        key=lambda left: left.free,
    )
