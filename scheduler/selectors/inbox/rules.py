"""Who may see what news are about, by the word that their subject begins with: each rule once, as a
condition for the database and as a question about what was read for many people at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, ClassVar, Protocol

from django.db.models import Exists, Model, OuterRef, Q, QuerySet

from accounts.models import Project, Team, User
from accounts.permissions import (
    acting_for,
    can,
    projects_visible_to,
    team_ids_acted_for,
    team_ids_for,
)
from scheduler.models import (
    Budget,
    BulkCancel,
    Job,
    JobSchedule,
    JobSet,
    QuotaRequest,
    RequestDecision,
    Statement,
)
from scheduler.selectors.requesting.lists import SEE_ALL
from scheduler.selectors.requesting.parties import ends_all, may_end

# Columns of one row of a thing; of what names many jobs there is a row for each owner and project.
Facts = Mapping[str, Any]
DECIDERS = "deciders"
_NOTHING = Q(pk__in=[])
_EVERYTHING = ~_NOTHING


class Rule(Protocol):
    """One way to be somebody who sees a thing; `columns` are what `holds` has to know of it."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Ways to what says whose it is."""
        ...

    def where(self, viewer: User) -> Q:
        """The rows that the viewer sees by it; asks for nothing but rights."""
        ...

    def holds(self, person: User, rows: Sequence[Facts]) -> bool:
        """Whether the person sees a thing of these rows by it; the same."""
        ...


@dataclass(frozen=True, slots=True)
class _Everywhere:
    """Whoever may do one of these to the cluster, or in the place of somebody who may."""

    actions: tuple[str, ...]
    is_lent: bool = False
    columns: ClassVar[tuple[str, ...]] = ()

    def where(self, viewer: User) -> Q:
        return _EVERYTHING if self.holds(viewer, ()) else _NOTHING

    def holds(self, person: User, rows: Sequence[Facts]) -> bool:
        may = acting_for if self.is_lent else can
        return any(may(person, action, None) for action in self.actions)


@dataclass(frozen=True, slots=True)
class _Named:
    """Whoever is named in one of these columns."""

    columns: tuple[str, ...]

    def where(self, viewer: User) -> Q:
        return reduce(or_, (Q(**{column: viewer.pk}) for column in self.columns))

    def holds(self, person: User, rows: Sequence[Facts]) -> bool:
        return person.pk in (rows[0][column] for column in self.columns)


@dataclass(frozen=True, slots=True)
class _OfProject:
    """Whoever sees its project."""

    columns: ClassVar[tuple[str, ...]] = ("project_id", "project__team_id")

    def where(self, viewer: User) -> Q:
        return Q(project__in=projects_visible_to(viewer).order_by().values("pk"))

    def holds(self, person: User, rows: Sequence[Facts]) -> bool:
        number, team = (rows[0][column] for column in self.columns)
        return can(person, "view", Project(pk=number, team_id=team))


@dataclass(frozen=True, slots=True)
class _OfTeam:
    """Whoever may do this for the team in one of these columns, or `is_lent`: in the place of
    somebody who may."""

    action: str
    columns: tuple[str, ...]
    is_lent: bool = False

    def where(self, viewer: User) -> Q:
        found = team_ids_acted_for if self.is_lent else team_ids_for
        teams = found(viewer, self.action)
        how = ("isnull", False) if teams is None else ("in", teams)
        return reduce(or_, (Q(**{f"{column}__{how[0]}": how[1]}) for column in self.columns))

    def holds(self, person: User, rows: Sequence[Facts]) -> bool:
        may = acting_for if self.is_lent else can
        teams = {rows[0][column] for column in self.columns} - {None}
        return any(may(person, self.action, Team(pk=team)) for team in teams)


@dataclass(frozen=True, slots=True)
class _OfAccount:
    """Whoever sees what the team of an account costs, which begins with `team:7`."""

    columns: ClassVar[tuple[str, ...]] = ("account",)

    def where(self, viewer: User) -> Q:
        teams = team_ids_for(viewer, "view_costs")
        if teams is None:
            return Q(account__startswith="team:")
        names = [f"team:{team}" for team in teams]
        own = (Q(account=name) | Q(account__startswith=f"{name}/") for name in names)
        return reduce(or_, own, _NOTHING)

    def holds(self, person: User, rows: Sequence[Facts]) -> bool:
        team = rows[0]["account"].partition("/")[0].removeprefix("team:")
        return team.isdecimal() and can(person, "view_costs", Team(pk=int(team)))


@dataclass(frozen=True, slots=True)
class _Decided:
    """Who decided on a request goes on seeing it."""

    columns: ClassVar[tuple[str, ...]] = ()

    def where(self, viewer: User) -> Q:
        mine = RequestDecision.objects.filter(request=OuterRef("pk"), decided_by=viewer)
        return Q(Exists(mine.order_by()))

    def holds(self, person: User, rows: Sequence[Facts]) -> bool:
        return person.pk in rows[0][DECIDERS]


@dataclass(frozen=True, slots=True)
class _EndsAll:
    """Whoever might end every one of the jobs that it names, if it names any."""

    columns: ClassVar[tuple[str, ...]] = (
        *("jobs__owner_id", "jobs__project_id", "jobs__project__team_id"),
    )

    def where(self, viewer: User) -> Q:
        return ends_all(viewer)

    def holds(self, person: User, rows: Sequence[Facts]) -> bool:
        named = ([row[column] for column in self.columns] for row in rows)
        parties = (
            (owner, Project(pk=number, team_id=team))
            for owner, number, team in named
            if owner and number and team
        )
        return may_end(person, frozenset(parties))


@dataclass(frozen=True, slots=True)
class Word:
    """The things of a word, and who sees them: by any of these rules.

    `is_inside`: what is said of it may tell of the inside of jobs. `number` is the column that its
    subject has.
    """

    model: type[Model]
    rules: tuple[Rule, ...]
    is_inside: bool = False
    number: str = "pk"

    @property
    def columns(self) -> tuple[str, ...]:
        """What is to be known of each thing, its number first."""
        owner = ("owner_id",) if self.is_inside else ()
        known = (column for rule in self.rules for column in rule.columns)
        return tuple(dict.fromkeys((self.number, *known, *owner)))

    def seen_by(self, viewer: User) -> QuerySet[Model]:
        """The things that the viewer sees."""
        rows = self.model._default_manager.order_by()
        return rows.filter(reduce(or_, (rule.where(viewer) for rule in self.rules)))

    def is_seen(self, person: User, rows: Sequence[Facts]) -> bool:
        """Whether the person sees a thing of these rows."""
        return any(rule.holds(person, rows) for rule in self.rules)

    def is_read(self, person: User, rows: Sequence[Facts]) -> bool:
        """Whether they may read what is said of it."""
        if not self.is_inside or rows[0]["owner_id"] == person.pk:
            return True
        project = Project(pk=rows[0]["project_id"], team_id=rows[0]["project__team_id"])
        return can(person, "read_log", project)


_OF_JOBS = (_Everywhere(("see_jobs",)), _OfProject())
_OF_REQUESTS = (
    _Everywhere(SEE_ALL),
    _Everywhere(("decide_requests", "decide_spending"), is_lent=True),
    _Named(("asked_by_id", "assigned_to_id")),
    _OfTeam("approve_requests", ("team_id",)),
    _OfTeam("approve_requests", ("team_id",), is_lent=True),
    _Decided(),
)
_OF_BUDGETS = _OfTeam("view_costs", ("account__team_id", "account__project__team_id"))
WORDS: Mapping[str, Word] = {
    "job": Word(Job, _OF_JOBS, is_inside=True),
    "set": Word(JobSet, _OF_JOBS, is_inside=True),
    "schedule": Word(JobSchedule, _OF_JOBS, is_inside=True),
    "budget": Word(Budget, (_Everywhere(("keep_books",)), _OF_BUDGETS)),
    "request": Word(QuotaRequest, _OF_REQUESTS),
    "bulk_cancel": Word(
        BulkCancel, (_Everywhere(("operate",)), _Named(("proposed_by_id",)), _EndsAll())
    ),
    "statement": Word(Statement, (_Everywhere(("read_books",)), _OfAccount()), number="number"),
}
# About no single thing: what one has to be able to do.
OF_CLUSTER: Mapping[str, str] = {"node": "operate", "invariants": "operate", "month": "keep_books"}
