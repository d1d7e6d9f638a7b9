"""What was guaranteed when: spans follow quotas and grants, in the transaction of the change."""

from __future__ import annotations

import math
from datetime import datetime

from django.db.models import F, Q
from django.db.models.functions import Greatest

from scheduler.models import Grant, GuaranteeSpan, Quota


def _second(moment: datetime) -> int:
    """The first whole second from which a change counts."""
    return math.ceil(moment.timestamp())


def follow_quota(quota: Quota, *, now: datetime) -> None:
    """Let the open span of a team's quota say what it guarantees now; projects have none."""
    team = quota.account.team_id
    if team is None:
        return
    at_s = _second(now)
    open_now = GuaranteeSpan.objects.filter(quota=quota.pk, grant=None, until_s=None)
    span = open_now.first()
    if (span.gpus if span else 0) == quota.guaranteed:
        return
    open_now.update(until_s=Greatest(F("from_s"), at_s))
    if quota.guaranteed:
        GuaranteeSpan.objects.create(
            team_id=team,
            pool_id=quota.pool_id,
            flavour=quota.gpu_model,
            gpus=quota.guaranteed,
            from_s=at_s,
            quota=quota.pk,
        )


def begin_grant(grant: Grant, *, now: datetime) -> None:
    """A grant's span, which begins now at the earliest; it ends by itself."""
    quota = grant.quota
    if quota.account.team_id is None or not grant.guaranteed:
        return
    GuaranteeSpan.objects.create(
        team_id=quota.account.team_id,
        pool_id=quota.pool_id,
        flavour=quota.gpu_model,
        gpus=grant.guaranteed,
        from_s=_second(max(now, grant.valid_from)),
        until_s=_second(grant.valid_until),
        quota=quota.pk,
        grant=grant.pk,
    )


def end_grant(grant: Grant, *, now: datetime) -> None:
    """A revoked grant guarantees nothing from now on."""
    _end(Q(grant=grant.pk), now)


def end_quota(quota_id: int, *, now: datetime) -> None:
    """A removed quota and its grants guarantee nothing from now on."""
    _end(Q(quota=quota_id), now)


def _end(which: Q, now: datetime) -> None:
    at_s = _second(now)
    still = GuaranteeSpan.objects.filter(which).filter(Q(until_s=None) | Q(until_s__gt=at_s))
    still.update(until_s=Greatest(F("from_s"), at_s))
