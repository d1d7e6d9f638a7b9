"""Who shares the cluster: teams, projects and people as a tree, and their limits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
from django.db.models import F, QuerySet

from accounts.selectors import every_project, every_team
from accounts.statements import AskedOnce
from scheduler.engine.snapshot import ANY_AMOUNT, NONE, Accounts, Ints, Limits, floats, ints
from scheduler.loop.loading.columns import rows_of_ids
from scheduler.models import Account, AlertAction, Budget, CommitsAt, Enforcement, Quota
from scheduler.selectors.sharing.periods import in_force_or_late, is_late
from scheduler.services.sharing.alerts import alerted
from scheduler.services.sharing.effective import effective_of
from scheduler.services.sharing.past_use import decayed_use
from scheduler.services.sharing.tree import ROOT_KEY

# In the tree people stand beside the projects of their team: they share, projects are limited.
_PERSON = "team:{}:user:{}"
# Of an account its key alone counts: an object of each, and of its project, would take longer.
_WHOSE = {"key_": F("account__key")}


@dataclass(frozen=True, slots=True, eq=False)
class Owners:
    """The tree as the engine sees it, and whose each project and person is in it.

    Who has come since it was read is nobody's, until the next cycle. `is_late`: a budget is over
    and its next one still to be made.
    """

    accounts: Accounts
    names: tuple[str, ...]
    row_of: dict[str, int]
    team_of: dict[int, int]
    has_rules: bool
    is_late: bool = False

    def of(self, projects: Ints) -> Ints:
        """By job the row of its project; `projects` are ids."""
        return rows_of_ids(lambda pk: self.row_of.get(f"project:{pk}", NONE), projects)

    def way_up(self, key: str) -> list[str]:
        """The keys of the accounts above this one, the next one first."""
        keys, parent = list(self.row_of), self.accounts.parent
        row, found = self.row_of[key], []
        while (row := int(parent[row])) != NONE:
            found.append(keys[row])
        return found

    def sharers(self, projects: Ints, people: Ints) -> Ints:
        """By job the row of its owner in the team that pays for it."""
        return rows_of_ids(self._person, projects, people)

    def _person(self, project: int, person: int) -> int:
        return self.row_of.get(_PERSON.format(self.team_of.get(project), person), NONE)


NOBODY = Owners(Accounts.of(parent=ints([])), (), {}, {}, has_rules=False)


def load_owners(
    jobs: Iterable[tuple[int, int]], *, now: datetime, half_life_s: float | None
) -> Owners:
    """Everybody who has a job or has used something; `jobs`: project id and owner id of each.

    Three queries: projects, teams, and rules of accounts; one for past use if a half-life
    is given; one for budgets if there are rules.
    """
    projects = {pk: (team, path) for pk, team, path in every_project()}
    rows = every_team()
    teams = {pk: slug for pk, slug, _ in rows}
    used = decayed_use(now, half_life_s) if half_life_s is not None else {}
    pairs = {(projects[project][0], person) for project, person in jobs} | used.keys()
    people = sorted(pair for pair in pairs if pair[0] in teams)
    keys = [ROOT_KEY, *(f"team:{pk}" for pk in teams), *(f"project:{pk}" for pk in projects)]
    keys += [_PERSON.format(team, person) for team, person in people]
    row_of = {key: row for row, key in enumerate(keys)}
    parent = [NONE, *(row_of[f"team:{up}"] if up else 0 for _, _, up in rows)]
    parent += [row_of[f"team:{team}"] for team, _ in projects.values()]
    parent += [row_of[f"team:{team}"] for team, _ in people]
    past = [0.0] * (len(keys) - len(people)) + [used.get(pair, 0.0) for pair in people]
    names = ["the organisation", *teams.values(), *(path for _, path in projects.values())]
    names += [f"a member of {teams[team]}" for team, _ in people]
    accounts, has_rules, late = _with_rules(row_of, parent, past, now)
    team_of = {pk: team for pk, (team, _) in projects.items()}
    return Owners(accounts, tuple(names), row_of, team_of, has_rules, late)


def _with_rules(
    row_of: dict[str, int], parent: list[int], past: list[float], now: datetime
) -> tuple[Accounts, bool, bool]:
    """The tree with the weights, caps and budgets that are set, whether any is, and whether a
    budget is late."""
    size = len(parent)
    weight = np.ones(size)
    left_s, left_money = np.full(size, np.inf), np.full(size, np.inf)
    most_gpus, most_running = np.full(size, NONE), np.full(size, NONE)
    rules = RULES.read()
    for key, share, gpus, running in rules:
        if (row := row_of.get(key)) is not None:
            weight[row] = share
            most_gpus[row] = NONE if gpus is None else gpus
            most_running[row] = NONE if running is None else running
    budgets = BUDGETS.read(now) if rules else []
    for budget in budgets:
        row, left = row_of.get(budget.key_), 0 if is_late(budget, now) else _left(budget)
        if row is None or left is None:
            continue
        column = left_money if budget.is_money else left_s
        column[row] = min(column[row], left)
    accounts = Accounts.of(
        parent=ints(parent),
        weight=floats(weight),
        used_gpu_s=floats(past),
        max_gpus_per_job=ints(most_gpus),
        max_running=ints(most_running),
        budget_gpu_s=floats(left_s),
        budget_money=floats(left_money),
    )
    return accounts, bool(rules), any(is_late(budget, now) for budget in budgets)


def _left(budget: Budget) -> float | None:
    """In its own measure; None for one that keeps nobody from starting. What stops at its end pays
    until then for whatever has a price.

    Of one that commits at the submit whoever waits in line has pledged what the start takes, at the
    price of the submit: asked again at today's, a job could wait for what it has.
    """
    if budget.commits_at == CommitsAt.SUBMIT:
        return None
    if budget.enforcement == Enforcement.RESERVE:
        left = budget.limit - budget.committed - budget.spent
        # The engine's floats are exact below 2**53: of more it sees a little less, never more.
        return left - (max(0, left) >> 50)
    if budget.enforcement == Enforcement.HARD_STOP and budget.spent_out_at is not None:
        return 0
    if budget.enforcement == Enforcement.HARD_STOP and budget.is_money:
        return ANY_AMOUNT
    return None


def load_limits(
    owners: Owners, pool_row: dict[int, int], model_row: dict[str, int], *, now: datetime
) -> Limits:
    """Quotas with the grants that are active now; three queries if there are rules.

    Models nobody has limit nothing. Who may start on borrowed GPUs only, by an alert of a budget,
    has no guarantee for what starts now.
    """
    quotas = [
        quota
        for quota in (QUOTAS.read() if owners.has_rules else ())
        if quota.key_ in owners.row_of and (not quota.gpu_model or quota.gpu_model in model_row)
    ]
    found = effective_of(quotas, now=now, whole=True)
    without = alerted(AlertAction.BORROWED_ONLY, now) if quotas else {}
    for quota in quotas if without else ():
        way = owners.way_up(quota.key_)
        if quota.key_ in without or without.keys() & set(way) - {ROOT_KEY}:
            found[quota.pk] = replace(found[quota.pk], guaranteed=0, lend_limit=None)

    def column(name: str) -> Ints:
        values = (getattr(found[quota.pk], name) for quota in quotas)
        return ints([NONE if value is None else value for value in values])

    return Limits.of(
        account=ints([owners.row_of[quota.key_] for quota in quotas]),
        pool=ints([pool_row[q.pool_id] if q.pool_id is not None else NONE for q in quotas]),
        model=ints([model_row[q.gpu_model] if q.gpu_model else NONE for q in quotas]),
        guaranteed=column("guaranteed"),
        borrow_limit=column("borrow_limit"),
        lend_limit=column("lend_limit"),
        maximum=column("maximum"),
    )


def _account_rules() -> QuerySet[Account, tuple[Any, ...]]:
    return Account.objects.values_list("key", "weight", "max_gpus_per_job", "max_running")


def _budgets(now: datetime) -> QuerySet[Any]:
    return in_force_or_late(now).annotate(**_WHOSE)


def _quotas() -> QuerySet[Any]:
    return Quota.objects.annotate(**_WHOSE)


RULES, BUDGETS, QUOTAS = AskedOnce(_account_rules), AskedOnce(_budgets), AskedOnce(_quotas)
