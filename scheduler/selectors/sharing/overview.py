"""The quota of a team: own, borrowed and lent, who borrows, and what does not add up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count

from accounts.errors import NotFound
from accounts.models import Project, Team, User
from accounts.permissions import can
from scheduler.models import Account, Device, Grant, Quota
from scheduler.selectors.sharing.ceilings import is_capped
from scheduler.selectors.sharing.limits import get_visible_owner, quota_stamp
from scheduler.states import NodeState

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
    """All of a team's quotas, the team's own first, and the caps on the shape of jobs."""

    rows: Sequence[QuotaRow]
    caps: Sequence[tuple[str, Account]]


def get_team_with_quota(viewer: User, slug: str) -> Team:
    """A team whose quota the viewer may see: one's own, for those who read settings any."""
    found = get_visible_owner(viewer, slug)
    if not isinstance(found, Team):
        raise NotFound()
    return found


def owners_in(viewer: User, team: Team) -> list[tuple[str, str]]:
    """Whose limits the viewer may set in this team, by path: a lead's own are projects alone."""
    get_team_with_quota(viewer, team.slug)
    projects = [(f"{team.slug}/{slug}", f"{team.slug}/{slug}") for slug in _slugs(team)]
    if can(viewer, "operate", None) or can(viewer, "keep_books", None):
        return [(team.slug, f"team {team.slug}"), *projects]
    return projects if can(viewer, "manage_team", team) else []


def _slugs(team: Team) -> list[str]:
    rows = Project.objects.filter(team=team, is_archived=False).order_by("slug")
    return list(rows.values_list("slug", flat=True))


def team_quota(viewer: User, slug: str, *, now: datetime) -> TeamQuota:
    """Raises NotFound; five queries for any number of quotas."""
    team = get_team_with_quota(viewer, slug)
    quotas = list(
        Quota.objects.select_related("account__team", "account__project", "pool").prefetch_related(
            "grants"
        )
    )
    capacity = list(
        Device.objects.filter(is_present=True, in_service=True)
        .exclude(node__state=NodeState.RETIRED)
        .order_by()
        .values_list("node__pool_id", "model")
        .annotate(n=Count("pk"))
    )
    mine = [quota for quota in quotas if _team_of(quota.account) == team.pk]
    rows = [_row(quota, quotas, capacity, team, now) for quota in mine]
    accounts = Account.objects.filter(pk__in={quota.account_id for quota in mine})
    own = Account.objects.filter(key=f"team:{team.pk}") | Account.objects.filter(project__team=team)
    capped = (accounts | own).select_related("team", "project").distinct()
    return TeamQuota(rows, [(_name(account), account) for account in capped if is_capped(account)])


def _row(
    quota: Quota,
    quotas: Iterable[Quota],
    capacity: Iterable[tuple[int, str, int]],
    team: Team,
    now: datetime,
) -> QuotaRow:
    siblings = [one for one in quotas if _is_beside(one, quota)]
    guaranteed = _guaranteed(quota, now)
    total = sum(
        count
        for pool, model, count in capacity
        if quota.pool_id in (None, pool) and quota.gpu_model in ("", model)
    )
    lent, borrowers = _lent(quota, siblings, total, now)
    grants = tuple(one for one in quota.grants.all() if _is_active(one, now))
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
        oversubscribed=max(0, sum(_guaranteed(one, now) for one in top) - total),
        is_above=maximum is not None and quota.held > maximum,
        grants=grants,
        seen=quota_stamp(quota),
    )


def _lent(
    quota: Quota, siblings: Sequence[Quota], total: int, now: datetime
) -> tuple[int, tuple[tuple[str, int], ...]]:
    """GPUs of its guarantee that siblings hold, and which of them borrow how many.

    What is borrowed is taken first from what nobody is guaranteed; the rest comes from guarantees
    that are not used, from each as far as it has them, by largest remainder.
    """
    everybody = [quota, *siblings]
    own = {one.pk: _guaranteed(one, now) for one in everybody}
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


def _guaranteed(quota: Quota, now: datetime) -> int:
    return quota.guaranteed + sum(
        one.guaranteed for one in quota.grants.all() if _is_active(one, now)
    )


def _is_active(grant: Grant, now: datetime) -> bool:
    return grant.revoked_at is None and grant.valid_from <= now < grant.valid_until


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
