"""The quota of a team: own, borrowed and lent, who borrows, and what does not add up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, OuterRef, Q

from accounts.errors import NotFound
from accounts.models import Project, Team, User
from accounts.models.rows import as_rows, moment_in, rows_in
from accounts.permissions import can, teams_visible_to
from scheduler.models import Account, Device, Grant, Pool, Quota
from scheduler.selectors.sharing.ceilings import is_capped
from scheduler.selectors.sharing.limits import quota_stamp
from scheduler.states import NodeState

_CAPS = ("max_gpus_per_job", "max_running", "max_pending", "max_sessions")
_OF_GRANT = ("guaranteed", "borrow_limit", "maximum", "max_hours", "valid_until")
# Names of borrowers that are shown, the largest first.
_NAMED = 5


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """A quota of the team or of one of its projects, in GPUs, with its active grants added.

    `own` and `borrowed` are held; `lent` of its guarantee others hold, `borrowers` by name.
    `oversubscribed`: guarantees of all teams in this scope beyond what is in service. `is_above`:
    it holds more than it may since it was lowered, which affects new starts alone.
    """

    quota: Quota
    owner: str
    pool: str
    guaranteed: int
    borrow_limit: int | None
    lend_limit: int | None
    maximum: int | None
    max_hours: int | None
    own: int
    borrowed: int
    lent: int
    free: int
    borrowers: tuple[tuple[str, int], ...]
    oversubscribed: int
    is_above: bool
    grants: tuple[Grant, ...]
    seen: str

    @property
    def whole(self) -> int:
        """What the bar stands for: the guarantee, and what is held beyond it."""
        return max(1, self.guaranteed + self.borrowed)


@dataclass(frozen=True, slots=True)
class TeamQuota:
    """All of a team's quotas, the team's own first, and the caps on the shape of jobs.

    `owners`: whose limits the viewer may set, by path; `pools` and `models`: for what.
    """

    team: Team
    rows: Sequence[QuotaRow]
    caps: Sequence[tuple[str, Account]]
    owners: Sequence[tuple[str, str]]
    pools: Sequence[str]
    models: Sequence[str]


def team_quota(viewer: User, slug: str, *, now: datetime) -> TeamQuota:
    """Of a team whose quota the viewer may see: one's own, for those who read settings any.

    Raises NotFound; two queries for any number of quotas.
    """
    team = _team_and_beside(viewer, slug)
    given = Grant.objects.filter(quota=OuterRef("pk"), valid_from__lte=now, valid_until__gt=now)
    quotas: list[Any] = list(
        Quota.objects.select_related("account__team", "account__project", "pool").annotate(
            given=as_rows(given.filter(revoked_at__isnull=True), *_OF_GRANT)
        )
    )
    for quota in quotas:
        quota.active = _grants(quota.given)
    devices = [(pool, model, count) for pool, model, count in rows_in(team.devices)]
    mine = [quota for quota in quotas if _team_of(quota.account) == team.pk]
    accounts = [
        (slug or team.slug, Account(**dict(zip(_CAPS, caps, strict=True))))
        for _, _, slug, *caps in sorted(rows_in(team.accounts), key=lambda row: row[:2])
    ]
    return TeamQuota(
        team=team,
        rows=[_row(quota, quotas, devices) for quota in mine],
        caps=[(name, account) for name, account in accounts if is_capped(account)],
        owners=_owners(viewer, team),
        pools=sorted(name for (name,) in rows_in(team.pools)),
        models=sorted({model for _, model, _ in devices}),
    )


def _team_and_beside(viewer: User, slug: str) -> Any:
    """The team, and what its page needs that is little, in one statement. Raises NotFound."""
    seen = Team.objects.all() if can(viewer, "read_settings", None) else teams_visible_to(viewer)
    projects = Project.objects.filter(team=OuterRef("pk"), is_archived=False)
    accounts = Account.objects.filter(Q(team=OuterRef("pk")) | Q(project__team=OuterRef("pk")))
    devices = (
        Device.objects.filter(is_present=True, in_service=True)
        .exclude(node__state=NodeState.RETIRED)
        .order_by()
        .values_list("node__pool_id", "model")
        .annotate(n=Count("pk"))
    )
    beside = seen.filter(slug=slug).annotate(
        slugs=as_rows(projects.order_by(), "slug"),
        accounts=as_rows(accounts.order_by(), "depth", "id", "project__slug", *_CAPS),
        pools=as_rows(Pool.objects.order_by(), "name"),
        devices=as_rows(devices, "node__pool_id", "model", "n"),
    )
    found = beside.first()
    if found is None:
        raise NotFound("There is no such team for you.")
    return found


def _owners(viewer: User, team: Any) -> list[tuple[str, str]]:
    """A lead's own are projects alone."""
    projects = [
        (f"{team.slug}/{slug}", f"{team.slug}/{slug}") for (slug,) in sorted(rows_in(team.slugs))
    ]
    if can(viewer, "operate", None) or can(viewer, "keep_books", None):
        return [(team.slug, f"team {team.slug}"), *projects]
    return projects if can(viewer, "manage_team", team) else []


def _grants(text: str | None) -> tuple[Grant, ...]:
    rows = (dict(zip(_OF_GRANT, row, strict=True)) for row in rows_in(text))
    return tuple(Grant(**{**row, "valid_until": moment_in(row["valid_until"])}) for row in rows)


def _row(quota: Any, quotas: Iterable[Any], capacity: Iterable[tuple[int, str, int]]) -> QuotaRow:
    siblings = [one for one in quotas if _is_beside(one, quota)]
    guaranteed = _guaranteed(quota)
    total = sum(
        count
        for pool, model, count in capacity
        if quota.pool_id in (None, pool) and quota.gpu_model in ("", model)
    )
    lent, borrowers = _lent(quota, siblings, total)
    grants = quota.active
    maximum = _plus(quota.maximum, (one.maximum for one in grants))
    top = [one for one in quotas if one.account.depth == 1 and _same_scope(one, quota)]
    own = min(quota.held, guaranteed)
    return QuotaRow(
        quota=quota,
        owner=_name(quota.account),
        pool=quota.pool.name if quota.pool else "",
        guaranteed=guaranteed,
        borrow_limit=_plus(quota.borrow_limit, (one.borrow_limit for one in grants)),
        lend_limit=quota.lend_limit,
        maximum=maximum,
        max_hours=_plus(quota.max_hours, (one.max_hours for one in grants)),
        own=own,
        borrowed=quota.held - own,
        lent=lent,
        free=guaranteed - own - lent,
        borrowers=borrowers,
        oversubscribed=max(0, sum(_guaranteed(one) for one in top) - total),
        is_above=maximum is not None and quota.held > maximum,
        grants=grants,
        seen=quota_stamp(quota),
    )


def _lent(
    quota: Any, siblings: Sequence[Any], total: int
) -> tuple[int, tuple[tuple[str, int], ...]]:
    """GPUs of its guarantee that siblings hold, and which of them borrow how many.

    What is borrowed is taken first from what nobody is guaranteed; the rest comes from guarantees
    that are not used, from each as far as it has them, by largest remainder.
    """
    everybody = [quota, *siblings]
    own = {one.pk: _guaranteed(one) for one in everybody}
    unused = {one.pk: max(0, own[one.pk] - one.held) for one in everybody}
    borrowed = {one.pk: max(0, one.held - own[one.pk]) for one in everybody}
    from_guarantees = max(0, sum(borrowed.values()) - max(0, total - sum(own.values())))
    lendable = {
        one.pk: unused[one.pk] if one.lend_limit is None else min(unused[one.pk], one.lend_limit)
        for one in everybody
    }
    taken = min(from_guarantees, sum(lendable.values()))
    if not taken or not lendable[quota.pk]:
        return 0, ()
    whole = sum(lendable.values())
    shares = {pk: divmod(taken * size, whole) for pk, size in lendable.items()}
    rest = taken - sum(share for share, _ in shares.values())
    first = sorted(shares, key=lambda pk: (-shares[pk][1], pk))[:rest]
    lent = shares[quota.pk][0] + (quota.pk in first)
    names = [(_name(one.account), borrowed[one.pk]) for one in siblings if borrowed[one.pk]]
    return lent, tuple(sorted(names, key=lambda pair: (-pair[1], pair[0]))[:_NAMED]) if lent else ()


def _guaranteed(quota: Any) -> int:
    return quota.guaranteed + sum(one.guaranteed for one in quota.active)


def _plus(figure: int | None, added: Iterable[int]) -> int | None:
    return None if figure is None else figure + sum(added)


def _same_scope(one: Quota, other: Quota) -> bool:
    return one.pool_id == other.pool_id and one.gpu_model == other.gpu_model


def _is_beside(one: Quota, other: Quota) -> bool:
    """Whether both lie under the same account, in the same scope."""
    if one.pk == other.pk or not _same_scope(one, other):
        return False
    return _above(one.account) == _above(other.account)


def _above(account: Account) -> tuple[str, int | None]:
    """What account lies right above: a team, or the organisation; the root has none."""
    if account.project is not None:
        return "team", account.project.team_id
    if account.team is not None:
        return "team" if account.team.parent_id else "org", account.team.parent_id
    return "none", None


def _team_of(account: Account) -> int | None:
    return account.project.team_id if account.project is not None else account.team_id


def _name(account: Account) -> str:
    if account.project is not None:
        return account.project.slug
    return account.team.slug if account.team is not None else "the organisation"
