"""Guarantees are kept within what is there: capacity in service, less the headroom.

What lies beyond takes a second person: somebody asks for it as a request, and whoever decides sees
by how much it would be oversubscribed. Nodes that leave later lower no guarantee.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db.models import Sum

from accounts.models import Team
from scheduler.models import Account, Device, Grant, Headroom, Quota
from scheduler.selectors.sharing.promised.granted import Span, granted_over
from scheduler.states import NodeState

Scope = tuple[int | None, str]


def capacity_for_guarantees(pool_id: int | None, gpu_model: str) -> tuple[int, int]:
    """GPUs in service of a pool (None: all) and model (empty: any), and the headroom of them."""
    devices = Device.objects.filter(is_present=True, in_service=True)
    devices = devices.exclude(node__state=NodeState.RETIRED)
    kept = Headroom.objects.all()
    if pool_id is not None:
        devices, kept = devices.filter(node__pool=pool_id), kept.filter(pool=pool_id)
    if gpu_model:
        devices, kept = devices.filter(model=gpu_model), kept.filter(gpu_model=gpu_model)
    # Parts of a card count as thousandths of it; three thirds are a whole one again.
    total = ((devices.aggregate(milli=Sum("milli"))["milli"] or 0) + 500) // 1000
    return total, min(total, kept.aggregate(gpus=Sum("gpus"))["gpus"] or 0)


@dataclass(frozen=True, slots=True)
class Shortage:
    """Fewer GPUs than would be guaranteed: `others` are guaranteed `others` of them, the account
    itself `beside` for finer pools and models, and grants add `granted` to the quota.
    """

    in_service: int
    headroom: int
    others: int
    beside: int
    granted: int

    @property
    def most(self) -> int:
        """What may be guaranteed without grants."""
        left = self.in_service - self.headroom - self.others - self.beside
        return max(0, left - self.granted)

    def plain(self) -> dict[str, int]:
        """The facts of a refusal."""
        return {
            "in_service": self.in_service,
            "headroom": self.headroom,
            "guaranteed": self.others,
        }

    @property
    def words(self) -> str:
        """What stands in the way."""
        kept = f", less {self.headroom} of headroom" if self.headroom else ""
        beside = f"the {self.beside} it has of other pools or models, " if self.beside else ""
        return (
            f"{beside}the {self.others} guaranteed to others this is more than the "
            f"{self.in_service} GPUs in service{kept}"
        )


def guarantee_shortage(quota: Quota, guaranteed: int, *, now: datetime) -> Shortage | None:
    """Whether a higher guarantee goes beyond what is there, now or when a grant begins later.

    A lower one always may: it stops nobody.
    """
    if guaranteed <= quota.guaranteed:
        return None
    row = _Row(quota.pk, quota.account_id, quota.pool_id, quota.gpu_model, guaranteed)
    return _shortage_with(quota, row, _spans(valid_until__gt=now), now)


def top_shortage(account: Account, *, now: datetime) -> Shortage | None:
    """Whether what an account that comes to the top is guaranteed goes beyond what is there, now
    or when a grant begins later; it is there already."""
    after = _top_rows()
    before = [one for one in after if one.account != account.pk]
    spans = _spans(valid_until__gt=now)
    own = (one for one in after if one.account == account.pk)
    found = (_first_shortage(before, after, row, spans, now) for row in own)
    return next(filter(None, found), None)


def grant_shortage(
    quota: Quota, gpus: int, *, valid_from: datetime, valid_until: datetime
) -> Shortage | None:
    """The first moment at which so many more do not fit, beside every grant that counts then."""
    if not gpus:
        return None
    spans = _spans(valid_from__lt=valid_until, valid_until__gt=valid_from)
    figures = (quota.pool_id, quota.gpu_model, quota.guaranteed + gpus)
    row = _Row(quota.pk, quota.account_id, *figures)
    return _shortage_with(quota, row, spans, valid_from, valid_until)


@dataclass(frozen=True, slots=True)
class Promised:
    """GPUs of a scope (a pool's id or None: all, a model or empty: any) that teams are guaranteed
    at a moment, for each of some choices."""

    scope: Scope
    in_service: int
    headroom: int
    guaranteed: tuple[int, ...]

    @property
    def lacking(self) -> tuple[int, ...]:
        """By how much that is more than there is, less the headroom."""
        most = self.in_service - self.headroom
        return tuple(max(0, one - most) for one in self.guaranteed)


def most_promised(
    team: Team, scope: Scope, more: Sequence[int], *, since: datetime, until: datetime
) -> Promised:
    """The moment of that time at which most would be lacking if a team were guaranteed so much
    `more` (by choice, the most last) of a scope, there or in what the scope is part of; by what
    a grant is refused. A team below another has it within what that one is guaranteed.
    """
    rows = _top_rows()
    account = Account.objects.filter(team=team, depth=1).values_list("pk", flat=True).first() or 0
    new = _Row(None, account, *scope, 0)
    own = next((one for one in rows if (one.account, one.pool, one.model) == new[1:4]), new)
    rest = [one for one in rows if one != own]
    if team.parent_id is not None:
        more = [0] * len(more)
    choices = [[*rest, own._replace(gpus=own.gpus + gpus)] for gpus in more]
    found = []
    there = _there(*scope)
    spans = _spans(valid_from__lt=until, valid_until__gt=since)
    for _, granted in granted_over(spans, since, until):
        for part, (in_service, headroom) in there.items():
            sums = tuple(sum(_claims(one, part, granted).values()) for one in choices)
            if part == scope or (in_service and sums[-1] > sums[0]):
                found.append(Promised(part, in_service, headroom, sums))
    return max(found, key=lambda one: (one.lacking[-1], one.scope == scope, one.guaranteed[-1]))


class _Row(NamedTuple):
    """A quota as far as its guarantee goes; `pk` None for one that is not there yet."""

    pk: int | None
    account: int
    pool: int | None
    model: str
    gpus: int

    def is_within(self, scope: Scope) -> bool:
        return scope[0] in (None, self.pool) and scope[1] in ("", self.model)


def _spans(**within: datetime) -> list[Span]:
    """Grants of top-level accounts that guarantee something within some time; one query."""
    grants = Grant.objects.filter(
        guaranteed__gt=0, revoked_at=None, quota__account__depth=1, **within
    )
    return list(grants.values_list("quota_id", "guaranteed", "valid_from", "valid_until"))


def _shortage_with(
    quota: Quota, row: _Row, spans: Sequence[Span], since: datetime, until: datetime | None = None
) -> Shortage | None:
    """`row` is the quota as it would be."""
    if quota.account.depth > 1:
        return None
    before = _top_rows() if quota.account.depth else []
    after = [one for one in before if one.pk != row.pk or row.pk is None] + [row]
    return _first_shortage(before, after, row, spans, since, until)


def _first_shortage(
    before: Sequence[_Row],
    after: Sequence[_Row],
    row: _Row,
    spans: Sequence[Span],
    since: datetime,
    until: datetime | None = None,
) -> Shortage | None:
    """Of the account of `row`, one of those after. Looked at for its own pool and model and for
    everything they are part of. Where nothing is in service yet there is nothing to compare with.
    """
    there = _there(row.pool, row.model)
    for _, granted in granted_over(spans, since, until):
        for scope, (in_service, headroom) in there.items():
            was, now = _claims(before, scope, granted), _claims(after, scope, granted)
            own = now.pop(row.account)
            others, is_more = sum(now.values()), own > was.get(row.account, 0)
            if in_service and is_more and own + others > in_service - headroom:
                beside = _beside(after, row, scope, granted)
                return Shortage(in_service, headroom, others, beside, granted.get(row.pk, 0))
    return None


def _top_rows() -> list[_Row]:
    fields = ("pk", "account_id", "pool_id", "gpu_model", "guaranteed")
    return [_Row(*one) for one in Quota.objects.filter(account__depth=1).values_list(*fields)]


def _there(pool: int | None, model: str) -> dict[Scope, tuple[int, int]]:
    """Capacity of a pool and model, and of everything they are part of; itself first."""
    scopes = [(pool, model), (pool, ""), (None, model), (None, "")]
    return {scope: capacity_for_guarantees(*scope) for scope in dict.fromkeys(scopes)}


def _claims(
    rows: Sequence[_Row], scope: Scope, granted: Mapping[int | None, int]
) -> dict[int, int]:
    """What each account is guaranteed within a scope, with what is `granted`.

    An account's guarantee for the scope and its finer ones are two views of the same GPUs, so the
    larger counts.
    """
    broad: dict[int, int] = {}
    fine: dict[int, int] = {}
    for row in rows:
        gpus = row.gpus + granted.get(row.pk, 0)
        if (row.pool, row.model) == scope:
            broad[row.account] = gpus
        elif row.is_within(scope):
            fine[row.account] = fine.get(row.account, 0) + gpus
    return {one: max(broad.get(one, 0), fine.get(one, 0)) for one in {*broad, *fine}}


def _beside(
    rows: Sequence[_Row], row: _Row, scope: Scope, granted: Mapping[int | None, int]
) -> int:
    """What the account has within the scope beside this row, if the two add up."""
    if (row.pool, row.model) == scope:
        return 0
    same = [one for one in rows if one.account == row.account and one != row]
    fine = [one for one in same if one.is_within(scope) and (one.pool, one.model) != scope]
    return sum(one.gpus + granted.get(one.pk, 0) for one in fine)
