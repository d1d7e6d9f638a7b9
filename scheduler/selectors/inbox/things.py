"""What news are about, read for many people at once, and who of them may see it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from django.db.models import BigIntegerField, QuerySet, Value

from accounts.models import User
from accounts.permissions import can
from accounts.statements import Null
from scheduler.models import RequestDecision
from scheduler.selectors.inbox.rules import DECIDERS, OF_CLUSTER, WORDS, Facts

# Whether a person may see a thing, and whether they may read what is said of it.
Sight = Callable[[User], tuple[bool, bool]]
_NUMBER = BigIntegerField()
_NOTHING = Null(_NUMBER)
# What says whose a statement is is a text: it has a statement of its own.
_APART = "statement"
_TOGETHER = tuple(name for name in WORDS if name != _APART)
_PLACES = {name: place for place, name in enumerate(_TOGETHER)}
# Who decided on a request, among the rows of things.
_DECIDED = -1
_MOST_COLUMNS = max(len(WORDS[name].columns) for name in _TOGETHER)


def is_asked_about(subject: str) -> bool:
    """Whether everybody may not see it anyway."""
    name = subject.partition(":")[0]
    return name in OF_CLUSTER or name in WORDS


def things_of(subjects: Collection[str], people: Collection[int]) -> dict[str, Sight]:
    """What these people may see of each of these subjects; of words that nobody asks about,
    nothing. One statement for jobs, arrays, schedules, budgets, requests and proposals to cancel
    many jobs together, and one for statements where they are among them."""
    numbers: dict[str, set[int]] = {}
    found: dict[str, Sight] = {}
    for subject in filter(is_asked_about, subjects):
        name, _, number = subject.partition(":")
        if name in OF_CLUSTER:
            found[subject] = partial(_may, OF_CLUSTER[name])
            continue
        found[subject] = _nobody
        if number.isdecimal():
            numbers.setdefault(name, set()).add(int(number))
    together = {name: some for name, some in numbers.items() if name in _PLACES}
    for (name, one), rows in _together(together, people).items():
        found[f"{name}:{one}"] = partial(_sight, name, rows)
    for one, facts in _apart(numbers.get(_APART, ())):
        found[f"{_APART}:{one}"] = partial(_sight, _APART, [facts])
    return found


def _nobody(_person: User) -> tuple[bool, bool]:
    return False, False


def _may(action: str, person: User) -> tuple[bool, bool]:
    return can(person, action, None), True


def _sight(name: str, rows: Sequence[Facts], person: User) -> tuple[bool, bool]:
    word = WORDS[name]
    return word.is_seen(person, rows), word.is_read(person, rows)


def _together(
    numbers: Mapping[str, set[int]], people: Collection[int]
) -> dict[tuple[str, int], list[Facts]]:
    """By word and number; a proposal has a row for each owner and project among its jobs."""
    parts: list[Any] = []
    for name, some in numbers.items():
        rows = WORDS[name].model._default_manager.filter(pk__in=some)
        parts.append(_rows(rows, _PLACES[name], *WORDS[name].columns))
    if asked := numbers.get("request"):
        theirs = RequestDecision.objects.filter(request__in=asked, decided_by__in=people)
        parts.append(_rows(theirs, _DECIDED, "request_id", "decided_by_id"))
    if not parts:
        return {}
    read = list(parts[0].union(*parts[1:]) if parts[1:] else parts[0])
    deciders: dict[int, set[int]] = {}
    for number, person, *_, place in read:
        if place == _DECIDED:
            deciders.setdefault(number, set()).add(person)
    found: dict[tuple[str, int], list[Facts]] = {}
    for number, *values, place in read:
        if place != _DECIDED:
            name = _TOGETHER[place]
            facts = dict(zip(WORDS[name].columns[1:], values, strict=False))
            facts[DECIDERS] = deciders.get(number, ()) if name == "request" else ()
            found.setdefault((name, number), []).append(facts)
    return found


def _rows(rows: QuerySet[Any], place: int, *columns: str) -> QuerySet[Any, Any]:
    """Numbers and the place of the word: statements that are united have as many columns."""
    lacking = {f"lacking_{n}": _NOTHING for n in range(len(columns), _MOST_COLUMNS)}
    more = {**lacking, "place_": Value(place, _NUMBER)}
    return rows.order_by().annotate(**more).values_list(*columns, *more).distinct()


def _apart(numbers: Collection[int]) -> list[tuple[int, Facts]]:
    word = WORDS[_APART]
    if not numbers:
        return []
    rows = word.model._default_manager.filter(**{f"{word.number}__in": numbers}).order_by()
    return [(row[word.number], row) for row in rows.values(*word.columns)]
