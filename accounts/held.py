"""What a person holds: the groups they are in, what these may, and for whom they act.

Read once per user object, so that a request sees one consistent picture and the next one sees
every change. `accounts/permissions.py` says what follows from it.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from django.contrib.auth.models import AnonymousUser
from django.utils import timezone

from accounts.models import Delegation, OrganisationRole, Role, User
from accounts.models.rows import rows_in
from accounts.policy import COLUMNS, ORGANISATION, TEAM
from accounts.statements import read_together
from accounts.trees import (
    GROUP,
    PROJECT,
    TEAM_RIGHT,
    below,
    of_one,
    read_rights,
    rights_of_all,
    rights_of_groups,
)

# Whoever may act for somebody, ever, is in this group, so that nobody else pays a query for it.
DEPUTIES = "deputies"
_LEADS = re.compile(rf"{TEAM}[0-9]+:{Role.LEAD}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Grants:
    """What one person has: (object id, action) pairs of own teams, columns that count everywhere,
    teams below those that the person leads, and for whom the person acts now."""

    projects: frozenset[tuple[int, str]]
    teams: frozenset[tuple[int, str]]
    everywhere: frozenset[str]
    below: frozenset[int]
    acts_for: tuple[Delegation, ...]


def grants_of(user: User) -> Grants:
    """What the user holds, read at the first question."""
    cached: Grants | None = getattr(user, "_trainyard_grants", None)
    if cached is None:
        shown = user.preview_groups
        rights = rights_of_groups(shown) if shown is not None else _rights(user)
        cached = _made_of(user, rights)
    return cached


def picture_of(user: User | AnonymousUser, *beside: Hashable) -> Hashable | None:
    """All that decides what the user sees, to be a key with what is `beside` it: who has the same
    one sees the same. None for who acts for others, because that begins and ends with the hour, and
    for nobody."""
    if isinstance(user, AnonymousUser):
        return None
    grants = grants_of(user)
    if grants.acts_for:
        return None
    flags = (user.is_active, user.is_superuser, user.kind, user.reads_logs)
    return (user.pk, *flags, user.preview_groups, user.bound_project, grants, *beside)


def read_grants_of(people: Sequence[User]) -> None:
    """Read what several people hold, in one statement, and in another for whom they act, if any of
    them ever does; nothing of whom it is known already."""
    fresh = [one for one in people if not hasattr(one, "_trainyard_grants")]
    if not fresh:
        return
    rights = list(rights_of_all(User.objects.filter(pk__in=[one.pk for one in fresh]).values("pk")))
    own = {one.pk: of_one(rights, one.pk) for one in fresh}
    deputies = [one for one in fresh if any(word == DEPUTIES for _, _, word, _ in own[one.pk])]
    held = _acts_for(deputies) if deputies else {}
    for one in fresh:
        _made_of(one, own[one.pk], held.get(one.pk, ()))


def _made_of(
    user: User,
    rights: Iterable[tuple[str, int, str, int]],
    acts_for: tuple[Delegation, ...] | None = None,
) -> Grants:
    """From the rows of `rights_of`, and for whom the user acts, if that was read; kept with the
    user."""
    groups, projects, teams, parents = set[str](), set[tuple[int, str]](), set(), []
    for what, number, word, parent in rights:
        if what == GROUP:
            groups.add(word)
        elif what == PROJECT:
            projects.add((number, word))
        elif what == TEAM_RIGHT:
            teams.add((number, word))
        else:
            parents.append((number, parent))
    if acts_for is None:
        acts_for = _acts_for([user]).get(user.pk, ()) if DEPUTIES in groups else ()
    led = {int(name.split(":")[1]) for name in groups if _LEADS.fullmatch(name)}
    found = Grants(
        projects=frozenset(projects),
        teams=frozenset(teams),
        everywhere=_everywhere(groups),
        below=frozenset(below(led, parents)) if led else frozenset(),
        acts_for=acts_for,
    )
    user._trainyard_grants = found  # type: ignore[attr-defined]
    return found


def _rights(user: User) -> Iterable[tuple[str, int, str, int]]:
    """What came with the row, once; else what the database says now."""
    # Not by its dictionary: the user of a request is a stand-in for a lazy one.
    if not hasattr(user, "rights_read"):
        return read_rights(user.pk)
    read = rows_in(user.rights_read)
    del user.rights_read
    return read


def _acts_for(users: Sequence[User]) -> dict[int, tuple[Delegation, ...]]:
    """By deputy, delegations that hold or will, and what their givers may: one statement.

    Their time is looked at whenever somebody asks.
    """
    rows = Delegation.objects.filter(
        deputy__in=users,
        ended_early_at__isnull=True,
        ends_at__gt=timezone.now(),
        giver__is_active=True,
    )
    held, rights = read_together(
        rows.select_related("giver"), rights_of_all(rows.order_by().values("giver"))
    )
    givers: dict[int, User] = {}
    for each in held:
        each.giver = givers.setdefault(each.giver_id, each.giver)
    for giver in givers.values():
        # What somebody was lent is not lent on: whom the giver acts for is not looked up.
        own = [row for row in of_one(rights, giver.pk) if row[2] != DEPUTIES]
        _made_of(giver, own)
    found: dict[int, list[Delegation]] = {}
    for each in held:
        found.setdefault(each.deputy_id, []).append(each)
    return {number: tuple(some) for number, some in found.items()}


def _everywhere(groups: set[str]) -> frozenset[str]:
    """The columns that count for the whole cluster; operators of a team run all of it."""
    found = set()
    for name in groups:
        if name.startswith(ORGANISATION):
            found.add(name)
        elif name.startswith(TEAM) and name.endswith(f":{Role.OPERATOR}"):
            found.add(ORGANISATION + OrganisationRole.OPERATOR)
    return frozenset(found & set(COLUMNS))


def forget_grants(user: User) -> None:
    """Read the user's rights anew; for code that changes them and goes on with the same object."""
    for name in ("rights_read", "_trainyard_grants"):
        if hasattr(user, name):
            delattr(user, name)
