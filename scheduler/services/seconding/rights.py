"""Who is a person, and whom a proposal is told to."""

from __future__ import annotations

from accounts.models import User, UserKind
from accounts.permissions import people_who_can
from scheduler.selectors.requesting.parties import Parties, may_end
from scheduler.services.errors import Forbidden


def require_person(actor: User) -> None:
    """Raises Forbidden for accounts of programs: behind two of them there may be one person."""
    if actor.is_service:
        raise Forbidden("Two people end so many jobs of others; an account of programs is none.")


def who_may_second(parties: Parties, proposer: User) -> set[int]:
    """Ids of the people to ask: operators, who leads all the teams, and the one owner.

    Who may act in their place may agree as well and is not asked.
    """
    found = set(people_who_can("operate", None).values_list("pk", flat=True))
    teams = {project.team for _, project in parties}
    leads = [
        set(people_who_can("manage_team", team).values_list("pk", flat=True)) for team in teams
    ]
    found |= set.intersection(*leads) if leads else set()
    owners = {owner for owner, _ in parties}
    if len(owners) == 1:
        [owner] = User.objects.filter(pk__in=owners)
        found |= owners if may_end(owner, parties) else set()
    people = User.objects.filter(pk__in=found, kind=UserKind.PERSON, is_active=True)
    return set(people.exclude(pk=proposer.pk).values_list("pk", flat=True))
