"""What news are about, and who may see it: by the word that their subject begins with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, NamedTuple

from django.db.models import BigIntegerField, QuerySet, Value
from django.db.models.functions import Cast

from accounts.models import Project, Team, User
from accounts.permissions import acting_for, can
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
from scheduler.selectors.people.watchers import may_see_jobs_of
from scheduler.selectors.requesting.lists import sees_all
from scheduler.selectors.requesting.parties import Parties, may_end

# Whether a person may see a thing, and whether they may read what is said of it.
Sight = Callable[[User], tuple[bool, bool]]
_NUMBER = BigIntegerField()
_NOTHING = Cast(Value(None), _NUMBER)
# Who decided on a request, among the rows of things.
_DECIDED = -1


def is_asked_about(subject: str) -> bool:
    """Whether everybody may not see it anyway."""
    word = _word_of(subject)
    return word in _CLUSTER or word in _TOGETHER or word == "statement"


def things_of(subjects: Collection[str], people: Collection[int]) -> dict[str, Sight]:
    """What these people may see of each of these subjects; of words that nobody asks about,
    nothing. One statement for jobs, arrays, schedules, budgets, requests and proposals to cancel
    many jobs together, and one for statements where they are among them."""
    numbers: dict[str, set[int]] = {}
    found: dict[str, Sight] = {}
    for subject in filter(is_asked_about, subjects):
        word, _, number = subject.partition(":")
        if word in _CLUSTER:
            found[subject] = partial(_may, _CLUSTER[word])
            continue
        found[subject] = _nobody
        if number.isdecimal():
            numbers.setdefault(word, set()).add(int(number))
    found |= _together({word: some for word, some in numbers.items() if word in _TOGETHER}, people)
    if "statement" in numbers:
        sights = _statements(numbers["statement"])
        found |= {f"statement:{number}": sight for number, sight in sights.items()}
    return found


def _word_of(subject: str) -> str:
    return subject.partition(":")[0]


def _nobody(_person: User) -> tuple[bool, bool]:
    return False, False


def _may(action: str, person: User) -> tuple[bool, bool]:
    return can(person, action, None), True


def _together(numbers: Mapping[str, set[int]], people: Collection[int]) -> dict[str, Sight]:
    parts: list[Any] = []
    for word, some in numbers.items():
        one = _TOGETHER[word]
        parts.append(_rows(one.model.objects.filter(pk__in=some), _PLACES[word], *one.columns))
    if asked := numbers.get("request"):
        theirs = RequestDecision.objects.filter(request__in=asked, decided_by__in=people)
        parts.append(_rows(theirs, _DECIDED, "request_id", "decided_by_id"))
    if not parts:
        return {}
    rows = list(parts[0].union(*parts[1:]) if parts[1:] else parts[0])
    deciders = {(row[0], row[1]) for row in rows if row[-1] == _DECIDED}
    found: dict[str, Sight] = {}
    # A proposal has a row for each owner and project among the jobs that it names.
    facts_of: dict[tuple[int, int], list[list[Any]]] = {}
    for number, *facts, place in rows:
        if place != _DECIDED:
            facts_of.setdefault((place, number), []).append(facts)
    for (place, number), several in facts_of.items():
        word = _WORDS[place]
        sight = partial(_TOGETHER[word].sight, several if word == "bulk_cancel" else several[0])
        found[f"{word}:{number}"] = (
            partial(_or_decided, sight, number, deciders) if word == "request" else sight
        )
    return found


def _rows(rows: QuerySet[Any], place: int, *columns: str) -> QuerySet[Any, Any]:
    """Five numbers and the place of the word: statements that are united have as many columns."""
    lacking = {f"lacking_{n}": _NOTHING for n in range(len(columns), 5)}
    more = {**lacking, "place_": Value(place, _NUMBER)}
    return rows.order_by().annotate(**more).values_list(*columns, *more).distinct()


def _in_project(facts: list[int], person: User) -> tuple[bool, bool]:
    number, team, owner, *_ = facts
    project = Project(pk=number, team_id=team)
    is_read = person.pk == owner or can(person, "read_log", project)
    return may_see_jobs_of(person, project), is_read


def _budget(facts: list[int | None], person: User) -> tuple[bool, bool]:
    team = facts[0] or facts[1]
    is_theirs = team is not None and can(person, "view_costs", Team(pk=team))
    return is_theirs or can(person, "keep_books", None), True


def _request(facts: list[int | None], person: User) -> tuple[bool, bool]:
    team, *theirs = facts
    if person.pk in theirs or sees_all(person):
        return True, True
    of = Team(pk=team)
    lent = (("approve_requests", of), ("decide_requests", None), ("decide_spending", None))
    is_lent = any(acting_for(person, *one) for one in lent)
    return is_lent or can(person, "approve_requests", of), True


def _or_decided(
    sight: Sight, number: int, deciders: Collection[tuple[int, int]], person: User
) -> tuple[bool, bool]:
    """Who decided on a request goes on seeing it."""
    return (True, True) if (number, person.pk) in deciders else sight(person)


def _statements(numbers: set[int]) -> Mapping[int, Sight]:
    rows = Statement.objects.filter(number__in=numbers).order_by()
    return {
        number: partial(_statement, account)
        for number, account in rows.values_list("number", "account")
    }


def _statement(account: str, person: User) -> tuple[bool, bool]:
    team = account.partition("/")[0].removeprefix("team:")
    is_theirs = team.isdecimal() and can(person, "view_costs", Team(pk=int(team)))
    return is_theirs or can(person, "read_books", None), True


def _cancel(named: list[list[int | None]], person: User) -> tuple[bool, bool]:
    """Who proposed it, and who might end all that it names."""
    parties: Parties = frozenset(
        (owner, Project(pk=project, team_id=team))
        for _, owner, project, team in named
        if owner and project and team
    )
    return person.pk == named[0][0] or may_end(person, parties), True


class _Word(NamedTuple):
    """Where its things are, which of their columns say whose they are, and who sees them so."""

    model: Any
    columns: tuple[str, ...]
    sight: Callable[[list[Any], User], tuple[bool, bool]]


_OF_JOBS = ("jobs__owner_id", "jobs__project_id", "jobs__project__team_id")
_OF_PROJECT = ("pk", "project_id", "project__team_id", "owner_id")
_TOGETHER: Mapping[str, _Word] = {
    "job": _Word(Job, _OF_PROJECT, _in_project),
    "set": _Word(JobSet, _OF_PROJECT, _in_project),
    "schedule": _Word(JobSchedule, _OF_PROJECT, _in_project),
    "budget": _Word(Budget, ("pk", "account__team_id", "account__project__team_id"), _budget),
    "request": _Word(QuotaRequest, ("pk", "team_id", "asked_by_id", "assigned_to_id"), _request),
    "bulk_cancel": _Word(BulkCancel, ("pk", "proposed_by_id", *_OF_JOBS), _cancel),
}
_WORDS = tuple(_TOGETHER)
_PLACES = {word: place for place, word in enumerate(_WORDS)}
_CLUSTER = {"node": "operate", "invariants": "operate", "month": "keep_books"}
