"""Asking: a draft, a request, another version of it, a word about it, taking it back."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from accounts.models import Project, Team, User
from scheduler.models import Pool, QuotaRequest, RequestEvent, RequestVersion
from scheduler.selectors.requesting.rules import routing_of
from scheduler.services.errors import Conflict, Forbidden, Invalid, NotFound
from scheduler.services.requesting.checks import LONGEST_WORDS, Ask, check_ask, check_open
from scheduler.services.requesting.rights import asks, locked_request, may_ask, require_part
from scheduler.services.requesting.routing import begin_review, enter_step
from scheduler.services.requesting.timeline import note, tell_deciders
from scheduler.services.transitions import move_request
from scheduler.states import (
    FINAL_REQUEST_STATES,
    RequestKind,
    RequestState,
    ReviewStep,
)


@transaction.atomic
def ask_for_quota(
    *,
    actor: User,
    owner: Team | Project,
    kind: str,
    amount: int,
    valid_from: datetime,
    valid_until: datetime,
    justification: str,
    pool: Pool | None = None,
    gpu_model: str = "",
    is_draft: bool = False,
    renews: QuotaRequest | None = None,
    now: datetime | None = None,
) -> QuotaRequest:
    """A new request, on its way unless it is a draft. Raises Invalid, NotFound, Conflict."""
    now = now or timezone.now()
    if not may_ask(actor, owner):
        raise NotFound("There is no such team or project for you to ask for.")
    if kind not in set(RequestKind):
        raise Invalid(f"Choose one of {', '.join(RequestKind)}.", field="kind")
    times, words = (valid_from, valid_until), justification.strip()
    ask = Ask(owner, RequestKind(kind), pool, gpu_model.strip(), amount, *times, words)
    check_ask(actor, ask, most_days=routing_of(kind).most_days, now=now)
    # Twice at once would be two, neither of which sees the other.
    User.objects.select_for_update(no_key=True).get(pk=actor.pk)
    check_open(actor, ask, now=now)
    team = owner.team if isinstance(owner, Project) else owner
    request = QuotaRequest.objects.create(
        team=team,
        project=owner if isinstance(owner, Project) else None,
        kind=ask.kind,
        pool=pool,
        gpu_model=ask.gpu_model,
        asked_by=actor,
        created_at=now,
        touched_at=now,
        renews=renews,
    )
    _write(request, 1, ask, actor, now)
    note(request, "drafted" if is_draft else "asked", actor=actor, now=now)
    if not is_draft:
        _submit(request, actor, now)
    return request


@transaction.atomic
def submit_request(
    *, actor: User, request_id: int, version: int, now: datetime | None = None
) -> QuotaRequest:
    """Send a draft on its way; from then on its text is never edited. Raises Conflict."""
    now = now or timezone.now()
    request = _mine_to_go_on(actor, request_id, version)
    if request.state != RequestState.DRAFT:
        raise Conflict("This was submitted before.", code="not_a_draft")
    asked = request.versions.get(number=request.revision)
    check_ask(actor, _ask_of(request, asked), most_days=routing_of(request.kind).most_days, now=now)
    _submit(request, actor, now)
    return request


@transaction.atomic
def revise_request(
    *,
    actor: User,
    request_id: int,
    version: int,
    amount: int,
    valid_from: datetime,
    valid_until: datetime,
    justification: str,
    now: datetime | None = None,
) -> QuotaRequest:
    """Another version of an open request; it is routed anew and earlier consent is void.

    A draft is simply rewritten. Raises Conflict, Invalid.
    """
    now = now or timezone.now()
    request = _mine_to_go_on(actor, request_id, version)
    _require_open(request)
    before = request.versions.get(number=request.revision)
    ask = replace(
        _ask_of(request, before),
        amount=amount,
        valid_from=valid_from,
        valid_until=valid_until,
        justification=justification.strip(),
    )
    if ask == _ask_of(request, before):
        raise Invalid("This says the same as before; change something.", field="amount")
    check_ask(actor, ask, most_days=routing_of(request.kind).most_days, now=now)
    if request.state == RequestState.DRAFT:
        before.delete()
        # They are of what it said before, and the number of the revision stays.
        request.whatifs.all().delete()
        _write(request, request.revision, ask, actor, now)
        _moved(move_request(request, RequestState.DRAFT, version=version, touched_at=now))
        return request
    number = request.revision + 1
    _write(request, number, ask, actor, now)
    came_from = request.state
    _moved(
        move_request(
            request, RequestState.SUBMITTED, version=version, revision=number, touched_at=now
        )
    )
    note(request, "revised", actor=actor, now=now, came_from=came_from, text=f"version {number}")
    _moved(begin_review(request, now=now))
    return request


@transaction.atomic
def withdraw_request(
    *, actor: User, request_id: int, version: int, now: datetime | None = None
) -> QuotaRequest:
    """Take an open request back. Raises Conflict."""
    now = now or timezone.now()
    request = _mine(actor, request_id, version)
    _require_open(request)
    came_from = request.state
    _moved(
        move_request(
            request, RequestState.WITHDRAWN, version=version, touched_at=now, ended_at=now, route=[]
        )
    )
    note(request, "withdrawn", actor=actor, now=now, came_from=came_from)
    return request


@transaction.atomic
def answer_request(
    *, actor: User, request_id: int, version: int, text: str, now: datetime | None = None
) -> QuotaRequest:
    """The asker's answer to a question: the step that asked goes on, its time begins anew."""
    now = now or timezone.now()
    request = _mine_to_go_on(actor, request_id, version)
    if request.state != RequestState.NEEDS_INFO:
        raise Conflict("Nobody has asked back; write a comment instead.", code="no_question")
    note(request, "answered", actor=actor, now=now, text=_words(text))
    steps = [ReviewStep(step) for step in request.route]
    hours, whose = routing_of(request.kind).sla_hours, request.assigned_to
    _moved(enter_step(request, steps, hours, now=now, touched_at=now, assigned_to=whose))
    return request


@transaction.atomic
def comment_on_request(
    *, actor: User, request: QuotaRequest, text: str, now: datetime | None = None
) -> RequestEvent:
    """A word beside it, from those who have a part in it; moves nothing. Raises Forbidden."""
    now = now or timezone.now()
    giver = require_part(actor, request)
    said = note(request, "comment", actor=actor, on_behalf_of=giver, now=now, text=_words(text))
    QuotaRequest.objects.filter(pk=request.pk).update(touched_at=now)
    if actor.pk == request.asked_by_id:
        tell_deciders(request, f"comment-{said.pk}", "has a new comment", now=now)
    return said


def _submit(request: QuotaRequest, actor: User, now: datetime) -> None:
    came_from = request.state
    version = request.version
    _moved(move_request(request, RequestState.SUBMITTED, version=version, touched_at=now))
    note(request, "submitted", actor=actor, now=now, came_from=came_from)
    _moved(begin_review(request, now=now))


def _write(
    request: QuotaRequest, number: int, ask: Ask, actor: User, now: datetime
) -> RequestVersion:
    return RequestVersion.objects.create(
        request=request,
        number=number,
        amount=ask.amount,
        valid_from=ask.valid_from,
        valid_until=ask.valid_until,
        justification=ask.justification,
        written_by=actor,
        written_at=now,
    )


def _ask_of(request: QuotaRequest, asked: RequestVersion) -> Ask:
    return Ask(
        request.project or request.team,
        RequestKind(request.kind),
        request.pool,
        request.gpu_model,
        asked.amount,
        asked.valid_from,
        asked.valid_until,
        asked.justification,
    )


def _mine(actor: User, request_id: int, version: int) -> QuotaRequest:
    request = locked_request(request_id, version)
    if request.asked_by_id != actor.pk:
        raise Forbidden("Only the person who asked may do this.")
    return request


def _mine_to_go_on(actor: User, request_id: int, version: int) -> QuotaRequest:
    """The same while the actor might still ask for it; a rule may grant it at once."""
    request = _mine(actor, request_id, version)
    if not asks(actor, request):
        raise Forbidden(
            f"You can ask for {request.owner_path} no more. Withdraw this, or let somebody there "
            "ask."
        )
    return request


def _require_open(request: QuotaRequest) -> None:
    if request.state in FINAL_REQUEST_STATES:
        raise Conflict(f"{request} is {request.state.replace('_', ' ')} already.", code="is_over")


def _words(text: str) -> str:
    words = text.strip()
    if not 1 <= len(words) <= LONGEST_WORDS:
        raise Invalid(f"Write 1 to {LONGEST_WORDS} characters.", field="text")
    return words


def _moved(has_moved: bool) -> None:
    if not has_moved:
        raise Conflict("Somebody else was faster. Look at it again.", code="stale_version")
