"""What people were told and may still see when it goes out later, asked for many at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from accounts.held import read_grants_of
from accounts.models import Project, Team, User
from accounts.permissions import acting_for, can
from scheduler.models import Budget, Job, JobSchedule, JobSet, Notification, QuotaRequest
from scheduler.selectors.people.watchers import may_see_jobs_of
from scheduler.selectors.requesting.lists import sees_all

# Whether a person may see a thing, and whether they may read what is said of it.
_Sight = Callable[[User], tuple[bool, bool]]


def still_seen(told: Sequence[Notification]) -> list[Notification]:
    """Those whose people may see now what they are about; without the text where that tells of the
    inside of a job of another that they may not read. What is gone cannot be seen.

    Jobs, arrays, schedules, budgets and requests are asked about, and what is for operators or who
    keeps the books: a statement for each of these words that is there, and two for rights.
    """
    things = _things_of(told)
    if not things:
        return list(told)
    people = User.objects.in_bulk({one.person_id for one in told})
    read_grants_of(list(people.values()))
    found = []
    for one in told:
        sight = things.get(one.subject)
        if sight is not None:
            person = people.get(one.person_id)
            is_seen, is_read = sight(person) if person is not None else (False, False)
            if not is_seen:
                continue
            if not is_read:
                one.text = ""
        found.append(one)
    return found


def _things_of(told: Sequence[Notification]) -> dict[str, _Sight]:
    """By subject; nothing of words that nobody asks about."""
    numbers: dict[str, set[int]] = {}
    found: dict[str, _Sight] = {}
    for one in told:
        word, _, number = one.subject.partition(":")
        if word in _CLUSTER:
            found[one.subject] = partial(_may, _CLUSTER[word])
        elif word in _WORDS:
            found[one.subject] = _nobody
            if number.isdecimal():
                numbers.setdefault(word, set()).add(int(number))
    for word, some in numbers.items():
        found |= {f"{word}:{number}": sight for number, sight in _WORDS[word](some).items()}
    return found


def _nobody(_person: User) -> tuple[bool, bool]:
    return False, False


def _may(action: str, person: User) -> tuple[bool, bool]:
    return can(person, action, None), True


def _in_projects(model: Any, numbers: set[int]) -> Mapping[int, _Sight]:
    rows = model.objects.filter(pk__in=numbers).order_by()
    fields = ("pk", "project_id", "project__team_id", "owner_id")
    projects: dict[int, Project] = {}
    found = {}
    for number, project, team, owner in rows.values_list(*fields):
        of = projects.setdefault(project, Project(pk=project, team_id=team))
        found[number] = partial(_of_project, of, owner)
    return found


def _of_project(project: Project, owner: int, person: User) -> tuple[bool, bool]:
    is_read = person.pk == owner or can(person, "read_log", project)
    return may_see_jobs_of(person, project), is_read


def _budgets(numbers: set[int]) -> Mapping[int, _Sight]:
    rows = Budget.objects.filter(pk__in=numbers).order_by()
    fields = ("pk", "account__team_id", "account__project__team_id")
    return {
        number: partial(_of_budget, own or of_project)
        for number, own, of_project in rows.values_list(*fields)
    }


def _of_budget(team: int | None, person: User) -> tuple[bool, bool]:
    is_theirs = team is not None and can(person, "view_costs", Team(pk=team))
    return is_theirs or can(person, "keep_books", None), True


def _requests(numbers: set[int]) -> Mapping[int, _Sight]:
    rows = QuotaRequest.objects.filter(pk__in=numbers).order_by()
    fields = ("pk", "team_id", "asked_by_id", "assigned_to_id")
    return {number: partial(_of_request, *who) for number, *who in rows.values_list(*fields)}


def _of_request(
    team: int, asked_by: int, assigned_to: int | None, person: User
) -> tuple[bool, bool]:
    is_theirs = person.pk in (asked_by, assigned_to) or sees_all(person)
    if not is_theirs:
        of = Team(pk=team)
        is_theirs = can(person, "approve_requests", of)
        lent = (("approve_requests", of), ("decide_requests", None), ("decide_spending", None))
        is_theirs = is_theirs or any(acting_for(person, *one) for one in lent)
    return is_theirs, True


_WORDS: Mapping[str, Callable[[set[int]], Mapping[int, _Sight]]] = {
    "job": partial(_in_projects, Job),
    "set": partial(_in_projects, JobSet),
    "schedule": partial(_in_projects, JobSchedule),
    "budget": _budgets,
    "request": _requests,
}
_CLUSTER = {"node": "operate", "invariants": "operate", "month": "keep_books"}
