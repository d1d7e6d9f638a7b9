"""What people were told and may still see: when it goes out later, and when they look at it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from accounts.held import read_grants_of
from accounts.models import User
from scheduler.models import Notification
from scheduler.selectors.inbox.things import is_asked_about, things_of


def still_seen(told: Sequence[Notification]) -> list[Notification]:
    """Those whose people may see now what they are about; without the text where that tells of the
    inside of a job of another that they may not read. What is gone cannot be seen.

    The statements of `things_of`, and two for rights, however many people there are.
    """
    if not any(is_asked_about(one.subject) for one in told):
        return list(told)
    people = User.objects.in_bulk({one.person_id for one in told})
    read_grants_of(list(people.values()))
    return _seen(told, people)


def seen_by(viewer: User, told: Sequence[Notification]) -> list[Notification]:
    """The same of what the viewer was told, by the rights of this request: what a token of one
    project does not see is left out, too."""
    return _seen(told, {viewer.pk: viewer})


def subjects_seen_by(viewer: User, subjects: Collection[str]) -> frozenset[str]:
    """Those of them that are about what the viewer may see now."""
    things = things_of(subjects, [viewer.pk])
    return frozenset(
        one for one in subjects if (sight := things.get(one)) is None or sight(viewer)[0]
    )


def _seen(told: Sequence[Notification], people: Mapping[int, User]) -> list[Notification]:
    things, found = things_of({one.subject for one in told}, people), []
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
