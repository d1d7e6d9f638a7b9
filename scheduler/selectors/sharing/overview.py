"""The quota of a team: own, borrowed and lent, who borrows, and what does not add up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, F, OuterRef, Q

from accounts.errors import NotFound
from accounts.models import Project, Team, User
from accounts.models.rows import as_rows, moment_in, rows_in
from accounts.permissions import can, team_ids_for, teams_visible_to
from scheduler.models import Account, Device, Grant, Pool, Quota
from scheduler.selectors.sharing.bars import bar_whole
from scheduler.selectors.sharing.ceilings import is_capped
from scheduler.selectors.sharing.limits import quota_stamp
from scheduler.states import NodeState

_CAPS = ("max_gpus_per_job", "max_running", "max_pending", "max_sessions")
_OF_GRANT = ("guaranteed", "borrow_limit", "maximum", "max_hours", "valid_until")
# Whose a quota is, beside it: objects of each account, project and team would take longer.
_WHOSE = {
    "depth_": F("account__depth"),
    "project_": F("account__project__slug"),
    "of_team_": F("account__project__team_id"),
    "team_": F("account__team__slug"),
    "team_id_": F("account__team_id"),
    "parent_": F("account__team__parent_id"),
    "pool_": F("pool__name"),
}
# Names of borrowers that are shown, the largest first.
_NAMED = 5


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """A quota of the team or of one of its projects, in GPUs, with its active grants added.

    `own` and `borrowed` are held; `free` of its guarantee are not, of which others hold `lent` and
    nobody `rest`; `borrowers` by name as far as the viewer sees their teams. `oversubscribed`: what
    is guaranteed in this scope beyond what is in service. `is_above`: it holds more than it may
    since it was lowered, which affects new starts alone.
    """

    quota: Quota
    owner: str
    is_project: bool
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
    rest: int
    borrowers: tuple[tuple[str, int], ...]
    oversubscribed: int
    is_above: bool
    grants: tuple[Grant, ...]
    seen: str

    @property
    def whole(self) -> int:
        """What its bar stands for."""
        return bar_whole(self.quota.held, self.guaranteed, self.maximum)


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
    active = as_rows(given.filter(revoked_at__isnull=True), *_OF_GRANT)
    quotas: list[Any] = list(Quota.objects.annotate(**_WHOSE, given=active))
    for quota in quotas:
        quota.active = rows_in(quota.given)
        quota.whole = quota.guaranteed + sum(guaranteed for guaranteed, *_ in quota.active)
    devices = [(pool, model, count) for pool, model, count in rows_in(team.devices)]
    mine = [quota for quota in quotas if _team_of(quota) == team.pk]
    accounts = [
        (slug or team.slug, Account(**dict(zip(_CAPS, caps, strict=True))))
        for _, _, slug, *caps in sorted(rows_in(team.accounts), key=lambda row: row[:2])
    ]
    return TeamQuota(
        team=team,
        rows=_rows(mine, quotas, devices, _seen_by(viewer)),
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


def _seen_by(viewer: User) -> Collection[int] | None:
    """Ids of the teams whose names the viewer may read; None for all."""
    return None if can(viewer, "read_settings", None) else team_ids_for(viewer)


def _owners(viewer: User, team: Any) -> list[tuple[str, str]]:
    """A lead's own are projects alone."""
    projects = [
        (f"{team.slug}/{slug}", f"{team.slug}/{slug}") for (slug,) in sorted(rows_in(team.slugs))
    ]
    if can(viewer, "operate", None) or can(viewer, "keep_books", None):
        return [(team.slug, f"team {team.slug}"), *projects]
    return projects if can(viewer, "manage_team", team) else []


def _grants(active: Iterable[Sequence[Any]]) -> tuple[Grant, ...]:
    rows = (dict(zip(_OF_GRANT, row, strict=True)) for row in active)
    return tuple(Grant(**{**row, "valid_until": moment_in(row["valid_until"])}) for row in rows)


def _rows(
    mine: Iterable[Any],
    quotas: Iterable[Any],
    devices: Iterable[tuple[int, str, int]],
    seen: Collection[int] | None,
) -> list[QuotaRow]:
    """What they share with others is worked out once for all who share it, however many."""
    groups, scopes = defaultdict(list), defaultdict(list)
    for one in quotas:
        groups[_group_of(one)].append(one)
        if one.depth_ == 1:
            scopes[_scope_of(one)].append(one.whole)
    totals = {scope: _in_service(scope, devices) for scope in {_scope_of(one) for one in mine}}
    lent: dict[Any, _Lent] = {}
    rows = []
    for quota in mine:
        group, scope = _group_of(quota), _scope_of(quota)
        if group not in lent:
            lent[group] = _lent(groups[group], totals[scope], seen)
        over = max(0, sum(scopes[scope]) - totals[scope])
        rows.append(_row(quota, lent[group], over))
    return rows


def _row(quota: Any, lent_of: _Lent, oversubscribed: int) -> QuotaRow:
    lent = lent_of.by_quota.get(quota.pk, 0)
    grants = _grants(quota.active)
    maximum = _plus(quota.maximum, (one.maximum for one in grants))
    own = min(quota.held, quota.whole)
    return QuotaRow(
        quota=quota,
        owner=_name(quota),
        is_project=quota.project_ is not None,
        pool=quota.pool_ or "",
        guaranteed=quota.whole,
        borrow_limit=_plus(quota.borrow_limit, (one.borrow_limit for one in grants)),
        lend_limit=quota.lend_limit,
        maximum=maximum,
        max_hours=_plus(quota.max_hours, (one.max_hours for one in grants)),
        own=own,
        borrowed=quota.held - own,
        lent=lent,
        free=quota.whole - own,
        rest=quota.whole - own - lent,
        borrowers=lent_of.borrowers if lent else (),
        oversubscribed=oversubscribed,
        is_above=maximum is not None and quota.held > maximum,
        grants=grants,
        seen=quota_stamp(quota),
    )


@dataclass(frozen=True, slots=True)
class _Lent:
    """GPUs of each one's guarantee (by id) that others beside it hold; who borrows most."""

    by_quota: Mapping[int, int]
    borrowers: tuple[tuple[str, int], ...]


def _lent(everybody: Sequence[Any], total: int, seen: Collection[int] | None) -> _Lent:
    """Of quotas that lie under the same account, in the same scope of `total` GPUs.

    What is borrowed is taken first from what nobody is guaranteed; the rest comes from guarantees
    that are not used, from each as far as it has them, by largest remainder. Who lends borrows
    nothing, so nobody is named to itself.
    """
    unused = {one.pk: max(0, one.whole - one.held) for one in everybody}
    borrowed = {one.pk: max(0, one.held - one.whole) for one in everybody}
    guaranteed = sum(one.whole for one in everybody)
    from_guarantees = max(0, sum(borrowed.values()) - max(0, total - guaranteed))
    lendable = {
        one.pk: unused[one.pk] if one.lend_limit is None else min(unused[one.pk], one.lend_limit)
        for one in everybody
    }
    whole = sum(lendable.values())
    taken = min(from_guarantees, whole)
    if not taken:
        return _Lent({}, ())
    shares = {pk: divmod(taken * size, whole) for pk, size in lendable.items()}
    rest = taken - sum(share for share, _ in shares.values())
    first = set(sorted(shares, key=lambda pk: (-shares[pk][1], pk))[:rest])
    lent = {pk: shares[pk][0] + (pk in first) for pk, size in lendable.items() if size}
    return _Lent(lent, _named([(one, borrowed[one.pk]) for one in everybody], seen))


def _named(
    borrowed: Sequence[tuple[Any, int]], seen: Collection[int] | None
) -> tuple[tuple[str, int], ...]:
    """GPUs by borrower, the largest first; teams that the viewer does not see last, as one."""
    known: list[tuple[str, int]] = []
    others: list[tuple[str, int]] = []
    for quota, gpus in borrowed:
        if gpus:
            is_seen = seen is None or _team_of(quota) in seen
            (known if is_seen else others).append((_name(quota), gpus))
    known = sorted(known, key=lambda pair: (-pair[1], pair[0]))[:_NAMED]
    if others:
        words = "another team" if len(others) == 1 else "other teams"
        known.append((words, sum(gpus for _, gpus in others)))
    return tuple(known)


def _in_service(scope: tuple[int | None, str], devices: Iterable[tuple[int, str, int]]) -> int:
    """The GPUs of a scope."""
    pool, model = scope
    return sum(n for its, name, n in devices if pool in (None, its) and model in ("", name))


def _plus(figure: int | None, added: Iterable[int]) -> int | None:
    return None if figure is None else figure + sum(added)


def _scope_of(quota: Quota) -> tuple[int | None, str]:
    return quota.pool_id, quota.gpu_model


def _group_of(quota: Any) -> tuple[Any, ...]:
    """Alike for those that lie under the same account, in the same scope."""
    return *_scope_of(quota), *_above(quota)


def _above(quota: Any) -> tuple[str, int | None]:
    """What account lies right above its own: a team, or the organisation; the root has none."""
    if quota.of_team_ is not None:
        return "team", quota.of_team_
    if quota.team_id_ is not None:
        return "team" if quota.parent_ else "org", quota.parent_
    return "none", None


def _team_of(quota: Any) -> int | None:
    found: int | None = quota.team_id_ if quota.of_team_ is None else quota.of_team_
    return found


def _name(quota: Any) -> str:
    return quota.project_ or quota.team_ or "the organisation"
