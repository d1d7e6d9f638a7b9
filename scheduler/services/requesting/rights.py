"""Who may ask, see and decide. Nobody decides on what they asked for themselves."""

from __future__ import annotations

from collections.abc import Sequence

from accounts.models import Project, Team, User
from accounts.permissions import can, people_who_can
from scheduler.models import QuotaRequest
from scheduler.services.errors import Forbidden
from scheduler.states import ReviewStep

_ACTION = {
    ReviewStep.LEAD: "approve_requests",
    ReviewStep.ADMIN: "decide_requests",
    ReviewStep.FINANCE: "decide_spending",
}
WHO = {
    ReviewStep.LEAD: "a lead of the team",
    ReviewStep.ADMIN: "an administrator",
    ReviewStep.FINANCE: "somebody who keeps the books",
}


def owner_of(request: QuotaRequest) -> Team | Project:
    """The project it is for, else the team."""
    return request.project or request.team


def may_ask(user: User, owner: Team | Project) -> bool:
    """Those who work for the project; for a whole team, its members."""
    if isinstance(owner, Project):
        return can(user, "submit_job", owner) and not owner.is_archived
    return can(user, "view", owner)


def may_take(user: User, step: ReviewStep, team: Team) -> bool:
    """Whether the user has the right that this step asks for, whoever asked."""
    return can(user, _ACTION[step], team if step is ReviewStep.LEAD else None)


def deciders(step: ReviewStep, team: Team) -> set[int]:
    """Ids of everybody with the right that this step asks for."""
    about = team if step is ReviewStep.LEAD else None
    return set(people_who_can(_ACTION[step], about).values_list("pk", flat=True))


def askers(request: QuotaRequest) -> set[int]:
    """Ids of those who wrote any version of it: none of them may decide."""
    writers = request.versions.values_list("written_by_id", flat=True)
    return {request.asked_by_id, *writers}


def have_said_yes(request: QuotaRequest) -> set[int]:
    """Ids of those who agreed to the version in force at an earlier step."""
    rows = request.decisions.filter(
        revision=request.revision, outcome__in=("approve", "less")
    ).values_list("decided_by_id", "on_behalf_of_id")
    return {pk for row in rows for pk in row if pk is not None}


def can_be_shared_out(people: Sequence[set[int]]) -> bool:
    """Whether each step can have a person of its own (Hall's condition, tried by hand)."""
    if not people:
        return True
    return any(
        can_be_shared_out([rest - {one} for rest in people[1:]]) for one in sorted(people[0])[:4]
    )


def require_decider(actor: User, request: QuotaRequest) -> ReviewStep:
    """The step under way, if it is the actor's to take; raises Forbidden with the reason."""
    step = ReviewStep(request.route[0])
    if not may_take(actor, step, request.team):
        raise Forbidden(f"This waits for {WHO[step]}.")
    if actor.pk in askers(request):
        raise Forbidden("You asked for this; another person has to decide.")
    earlier = have_said_yes(request)
    if actor.pk in earlier:
        raise Forbidden("You agreed to it at an earlier step; another person has to take this one.")
    taken = askers(request) | earlier | {actor.pk}
    later = [deciders(ReviewStep(one), request.team) - taken for one in request.route[1:]]
    if not can_be_shared_out(later):
        following = WHO[ReviewStep(request.route[1])]
        raise Forbidden(
            f"Nobody else could take the step after this one. Leave this step to somebody who is "
            f"not {following}; at the end of its time it comes to you by itself."
        )
    return step
