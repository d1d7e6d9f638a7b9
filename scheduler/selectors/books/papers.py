"""A statement as it is handed over: lines by project, cents, rounding, its place in the chain."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import OuterRef, Subquery

from accounts.errors import NotFound
from accounts.models import Team, User
from accounts.models.rows import as_rows, moment_in, rows_in
from accounts.permissions import can
from scheduler.ledger.currencies import from_minor
from scheduler.ledger.exact import ZERO, total
from scheduler.ledger.periods import Month
from scheduler.ledger.rating import is_recovery
from scheduler.models import Pool, Statement, StatementEvent, StatementLine
from scheduler.models.money.disputes import StatementStep
from scheduler.selectors.books.frame import Check
from scheduler.selectors.books.months import effect_of
from scheduler.selectors.books.scope import Place, Scope, scope_of


@dataclass(frozen=True, slots=True)
class PaperLine:
    """One entry on a statement; `billed` is its share of the cents."""

    entry: int
    kind: str
    flavour: str
    meter: str
    rate: str
    note: str
    gpu_seconds: int
    unit_price: Decimal | None
    amount: Decimal
    billed: Decimal


@dataclass(frozen=True, slots=True)
class PaperProject:
    """A project's lines and what they come to; `path` where it is a project."""

    name: str
    path: str
    lines: tuple[PaperLine, ...]
    billed: Decimal


@dataclass(frozen=True, slots=True)
class Paper:
    """`later`: the number of the statement that a reopened month replaced it by, 0 for none."""

    number: int
    period: str
    first_s: int
    version: int
    state: str
    place: Place
    currency: str
    closed_at: datetime
    projects: tuple[PaperProject, ...]
    exact: Decimal
    rounding: Decimal
    billed: Decimal
    head_number: int
    head_hash: str
    checks: tuple[Check, ...]
    later: int
    events: tuple[StatementEvent, ...]
    may_dispute: bool
    may_keep: bool

    @property
    def standing(self) -> str:
        """The last step that is more than a mail; empty: issued, and nothing since."""
        steps = [event.step for event in self.events if event.step != StatementStep.SENT]
        return steps[-1] if steps else ""


def paper_of(viewer: User, number: int) -> Paper:
    """A statement for those who may see the account's costs; raises NotFound for others alike."""
    scope = scope_of(viewer)
    statement = _visible(scope, number)
    close = statement.close
    currency = close.period.currency
    projects = _projects(statement, scope, currency)
    billed = from_minor(statement.units, currency)
    exact = total(line.amount for project in projects for line in project.lines)
    return Paper(
        number=number,
        period=close.period.name,
        first_s=Month.parse(close.period.name).start_s,
        version=close.version,
        state=close.period.state,
        place=scope.place(statement.account),
        currency=currency,
        closed_at=close.closed_at,
        projects=projects,
        exact=statement.exact,
        rounding=statement.rounding,
        billed=billed,
        head_number=close.head_number,
        head_hash=close.head_hash,
        checks=(
            Check(
                "projects equal the statement", total(p.billed for p in projects), billed, currency
            ),
            Check(
                "lines equal the statement, exact",
                exact or ZERO,
                statement.exact,
                currency,
                is_exact=True,
            ),
        ),
        later=statement.later or 0,
        events=_events(statement.said),
        may_dispute=_leads(scope, statement),
        may_keep=can(viewer, "keep_books", None),
    )


def require_statement(viewer: User, number: int) -> None:
    """Raises NotFound for a statement that is missing or not the viewer's to see."""
    _visible(scope_of(viewer), number)


def _visible(scope: Scope, number: int) -> Any:
    said = StatementEvent.objects.filter(statement=OuterRef("pk")).order_by()
    later = Statement.objects.filter(
        close__period=OuterRef("close__period"),
        account=OuterRef("account"),
        close__version__gt=OuterRef("close__version"),
    ).order_by("-number")
    found = Statement.objects.select_related("close__period").filter(number=number)
    found = found.annotate(said=as_rows(said, "id", "step", "at", "text", "by__username"))
    statement = found.annotate(later=Subquery(later.values("number")[:1])).first()
    if statement is None or not scope.shows(statement.account):
        raise NotFound("There is no such statement for you.")
    return statement


def _events(text: str | None) -> tuple[StatementEvent, ...]:
    return tuple(
        StatementEvent(step=step, at=moment_in(at), text=words, by=by and User(username=by))
        for _, step, at, words, by in sorted(rows_in(text), key=lambda row: row[0])
    )


def _leads(scope: Scope, statement: Statement) -> bool:
    key = statement.account.removeprefix("team:")
    is_there = key.isdecimal() and statement.account in scope.places
    return is_there and can(scope.viewer, "manage_team", Team(pk=int(key)))


def _projects(statement: Statement, scope: Scope, currency: str) -> tuple[PaperProject, ...]:
    """The statement's lines by project, in the order they were posted."""
    lines: dict[str, list[PaperLine]] = {}
    paths: dict[str, str] = {}
    parts = StatementLine.objects.filter(statement=statement).select_related("entry")
    found = list(parts.order_by("entry__number"))
    pools = _pools_named([part.entry.sku for part in found])
    for part in found:
        effect = effect_of(part.entry)
        place = scope.place(effect.account)
        name = place.project or place.team or place.account
        if place.project:
            paths[name] = f"{place.team}/{place.project}"
        lines.setdefault(name, []).append(
            PaperLine(
                entry=part.entry.number,
                kind=part.entry.kind,
                flavour=pools.get(part.entry.sku, part.entry.sku.rpartition(":")[0]),
                meter=part.entry.sku.rpartition(":")[2],
                rate=str(part.entry.rate_id or ""),
                note=part.entry.reason,
                gpu_seconds=effect.gpu_seconds,
                unit_price=part.entry.unit_price if part.entry.sku else None,
                amount=effect.amount,
                billed=from_minor(part.units, currency),
            )
        )
    return tuple(
        PaperProject(name, paths.get(name, ""), tuple(own), total(line.billed for line in own))
        for name, own in sorted(lines.items())
    )


def _pools_named(skus: list[str]) -> dict[str, str]:
    """By SKU the pool whose cost it recovers; a statement where there is one."""
    pools = {sku: int(sku.partition(":")[0]) for sku in skus if is_recovery(sku)}
    names = dict(Pool.objects.filter(pk__in=pools.values()).values_list("pk", "name"))
    return {sku: f"pool {names[pk]}" for sku, pk in pools.items() if pk in names}
