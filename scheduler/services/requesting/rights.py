"""Who may ask, see and decide, and from which version. Nobody decides on their own request.

Every change names the version it was made from; whoever comes second is shown who was first.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet

from accounts.models import Delegation, DelegationScope, Project, Team, User
from accounts.permissions import acting_for, can, people_who_can, projects_visible_to
from scheduler.models import QuotaRequest, RequestDecision
from scheduler.services.errors import Conflict, Forbidden, NotFound
from scheduler.services.rows.locking import lock_starts
from scheduler.services.sharing.tree import account_of, locked, on_the_way
from scheduler.states import Outcome, ReviewStep, moment_words

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
    """Those who work for the project; for a whole team, who works for any of it or leads it."""
    if isinstance(owner, Project):
        return can(user, "submit_job", owner) and not owner.is_archived
    works = projects_visible_to(user, "submit_job").filter(team=owner)
    return can(user, "manage_team", owner) or works.exists()


def may_take(user: User, step: ReviewStep, team: Team) -> bool:
    """Whether the user has the right that this step asks for, whoever asked."""
    return can(user, _ACTION[step], team if step is ReviewStep.LEAD else None)


def require_part(actor: User, request: QuotaRequest) -> User | None:
    """Who asked, who may take any of the steps, and operators; others only look. In whose place the
    actor has it, None in the actor's own right. Raises Forbidden.
    """
    if _has_own_part(actor, request):
        return None
    givers = (one for step in ReviewStep for one in acts_in_place_of(actor, step, request.team))
    if (giver := next(givers, None)) is None:
        raise Forbidden("You may look at this, and change nothing.")
    return giver


def asks(actor: User, request: QuotaRequest) -> bool:
    """Whether this person asked, and still might. Who has left the team since has their own words
    to read and to take back, and none of the rights of an asker."""
    return actor.pk == request.asked_by_id and may_ask(actor, owner_of(request))


def has_part(actor: User, request: QuotaRequest) -> bool:
    """Whether this person may say something about it and simulate it."""
    return _has_own_part(actor, request) or any(
        acts_in_place_of(actor, step, request.team) for step in ReviewStep
    )


def _has_own_part(actor: User, request: QuotaRequest) -> bool:
    return (
        can(actor, "operate", None)
        or any(may_take(actor, step, request.team) for step in ReviewStep)
        or asks(actor, request)
    )


def people_for(step: ReviewStep, team: Team) -> QuerySet[User]:
    """Everybody with the right that this step asks for."""
    return people_who_can(_ACTION[step], team if step is ReviewStep.LEAD else None)


def deciders(step: ReviewStep, team: Team) -> set[int]:
    """Their ids."""
    return set(people_for(step, team).values_list("pk", flat=True))


def deputies(people: Any, step: ReviewStep, team: Team, *, now: datetime) -> QuerySet[Delegation]:
    """Who may act for these people in taking this step now, as `acting_for` says of each deputy: a
    delegation for one team is for that team's own step, and not for those below it."""
    where = Q(team=None) | Q(team=team) if step is ReviewStep.LEAD else Q(team=None)
    return Delegation.objects.filter(
        where,
        giver__in=people,
        deputy__is_active=True,
        scope=DelegationScope.APPROVE_REQUESTS,
        starts_at__lte=now,
        ends_at__gt=now,
        ended_early_at__isnull=True,
    )


def deputies_of(people: set[int], step: ReviewStep, team: Team, *, now: datetime) -> set[int]:
    """Their ids."""
    return set(deputies(people, step, team, now=now).values_list("deputy_id", flat=True))


def askers(request: QuotaRequest) -> set[int]:
    """Ids of those who wrote any version of it: none of them may decide."""
    return {request.asked_by_id, *(one.written_by_id for one in request.versions.all())}


def consents(request: QuotaRequest) -> list[RequestDecision]:
    """To the version in force, the first step's first."""
    return [
        one
        for one in request.decisions.all()
        if one.revision == request.revision and one.outcome in (Outcome.APPROVE, Outcome.LESS)
    ]


def have_said_yes(request: QuotaRequest) -> set[int]:
    """Ids of those who agreed to the version in force at an earlier step."""
    people = (pk for one in consents(request) for pk in (one.decided_by_id, one.on_behalf_of_id))
    return {pk for pk in people if pk is not None}


def can_be_shared_out(people: Sequence[set[int]]) -> bool:
    """Whether each step can have a person of its own (Hall's condition, tried by hand)."""
    if not people:
        return True
    return any(
        can_be_shared_out([rest - {one} for rest in people[1:]]) for one in sorted(people[0])[:4]
    )


def require_decider(actor: User, request: QuotaRequest) -> tuple[ReviewStep, User | None]:
    """The step under way and in whose place the actor takes it; None: in the actor's own right.

    Raises Forbidden with the reason. Neither the actor nor who is acted for may have asked, or have
    agreed at an earlier step.
    """
    step = ReviewStep(request.route[0])
    wrote, earlier = askers(request), have_said_yes(request)
    is_own = may_take(actor, step, request.team)
    givers = () if is_own else acts_in_place_of(actor, step, request.team)
    if not is_own and not givers:
        raise Forbidden(f"This waits for {WHO[step]}.")
    if actor.pk in wrote:
        raise Forbidden("You asked for this; another person has to decide.")
    if actor.pk in earlier:
        raise Forbidden("You agreed to it at an earlier step; another person has to take this one.")
    free = [giver for giver in givers if giver.pk not in wrote | earlier]
    if not is_own and not free:
        raise Forbidden("You act for somebody who asked for this, or agreed to it at another step.")
    taken = wrote | earlier | {actor.pk} | {giver.pk for giver in free[:1]}
    later = [deciders(ReviewStep(one), request.team) - taken for one in request.route[1:]]
    if not can_be_shared_out(later):
        until = f", until {moment_words(request.due_at)}" if request.due_at else ""
        late = (
            " If no lead has decided by then, it comes to you." if step is ReviewStep.LEAD else ""
        )
        raise Forbidden(
            f"Another person decides first, {WHO[step]}{until}: only you can take the step after "
            f"that.{late}"
        )
    return step, None if is_own else free[0]


def may_decide(person: User, request: QuotaRequest) -> bool:
    """Whether this person may take the step under way."""
    try:
        require_decider(person, request)
    except Forbidden:
        return False
    return True


def refuse_archived(request: QuotaRequest) -> None:
    """Raises Conflict where the project has been archived since: nothing can run in it."""
    if request.project is not None and request.project.is_archived:
        raise Conflict(
            f"{request.owner_path} has been archived since this was asked. Deny it, or bring the "
            "project back first.",
            code="archived",
        )


def acts_in_place_of(actor: User, step: ReviewStep, team: Team) -> tuple[User, ...]:
    """Those for whom the actor may take this step now."""
    return acting_for(actor, _ACTION[step], team if step is ReviewStep.LEAD else None)


def locked_request(request_id: int, version: int) -> QuotaRequest:
    """The row, locked, if it still is at this version. Raises NotFound, Conflict."""
    request = locked_row(request_id)
    if request.version != version:
        raise stale(request)
    return request


def locked_row(request_id: int) -> QuotaRequest:
    """The row, locked, at whatever version. Raises NotFound."""
    request = (
        QuotaRequest.objects.select_for_update(of=("self",))
        .select_related("team", "project__team", "pool", "asked_by")
        .filter(pk=request_id)
        .first()
    )
    if request is None:
        raise NotFound("There is no such request for you.")
    return request


def lock_accounts_of(request: QuotaRequest) -> None:
    """Whoever gives away what a team has does so alone; in the order of starts."""
    lock_starts()
    account_of(owner_of(request))
    locked(on_the_way([(request.project_id or 0, request.team_id)]))


def stale(request: QuotaRequest) -> Conflict:
    """409 with the current version, and the last decision if that is what came between."""
    facts: dict[str, object] = {"version": request.version, "state": request.state}
    last = request.decisions.select_related("decided_by").last()
    words = "It has changed since you looked; load it again."
    if last is not None:
        who = last.decided_by
        name = who.get_full_name() or who.get_username() if who else "A rule"
        facts |= {"outcome": last.outcome, "decided_by": who.get_username() if who else ""}
        words = (
            f"{name} was faster and said “{last.outcome}” at {moment_words(last.at)}. "
            "Nothing of yours was stored."
        )
    return Conflict(words, code="stale_version", facts=facts)
