"""What waits for whom: open requests, with what is on the table and what it would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from accounts.models import User
from accounts.models.rows import as_rows, moment_in, rows_in
from accounts.permissions import can, teams_visible_to
from scheduler.models import Quota, QuotaRequest, RequestDecision, RequestVersion, WhatIf
from scheduler.selectors.ordered.columns import REQUEST_COLUMNS
from scheduler.selectors.ordered.ordering import Column, in_order
from scheduler.selectors.requesting.lists import lent_reviews, visible_requests, with_versions
from scheduler.states import GPU_KINDS, OPEN_REQUEST_STATES, REVIEW_STATES, Outcome, RequestState

# Up to so many GPUs an ask is small.
SMALL_GPUS = 4


@dataclass(frozen=True, slots=True)
class InboxRow:
    """A request that waits; `urgency`: late, soon or empty; `is_mine`: the viewer may decide.

    `amount` and `until` are what is on the table: as asked, or what an earlier step made of it.
    `use`: the quota it adds to, None for none; `slower`: how many teams would wait longer for just
    this, as last simulated, None for never.
    """

    request: QuotaRequest
    asked: RequestVersion
    amount: int
    until: datetime
    urgency: str
    is_mine: bool
    use: Quota | None = None
    slower: int | None = None

    @property
    def is_small(self) -> bool:
        """Whether it may be agreed to with others, without a look at each."""
        return is_small(self.request, self.amount)


def is_small(request: QuotaRequest, amount: int) -> bool:
    """Few GPUs, and nobody else has to agree after this step."""
    few = request.kind in GPU_KINDS and amount <= SMALL_GPUS
    return few and len(request.route) == 1 and request.state in REVIEW_STATES


def waiting_for(viewer: User) -> QuerySet[QuotaRequest]:
    """Open requests whose step the viewer may take; nobody takes a step for what they asked for."""
    steps = lent_reviews(viewer)
    if can(viewer, "decide_requests", None):
        # They may take a lead's step, too, but it waits for a lead until its time is over.
        steps |= Q(state=RequestState.ADMIN_REVIEW)
    else:
        teams = teams_visible_to(viewer, "approve_requests").values("pk")
        steps |= Q(state=RequestState.LEAD_REVIEW, team__in=teams)
    if can(viewer, "decide_spending", None):
        steps |= Q(state=RequestState.FINANCE_REVIEW)
    agreed = _consents().filter(decided_by=viewer)
    wrote = RequestVersion.objects.filter(request=OuterRef("pk"), written_by=viewer)
    return QuotaRequest.objects.filter(steps).exclude(Exists(agreed)).exclude(Exists(wrote))


def _consents() -> QuerySet[RequestDecision]:
    """To the version in force of the request around it."""
    return RequestDecision.objects.filter(
        request=OuterRef("pk"),
        revision=OuterRef("revision"),
        outcome__in=(Outcome.APPROVE, Outcome.LESS),
    )


def inbox_of(
    viewer: User,
    column: Column = REQUEST_COLUMNS["due"],
    *,
    mine_only: bool,
    now: datetime,
    is_assigned: bool = False,
    falls: bool = False,
) -> Sequence[InboxRow]:
    """What waits by a column, the most urgent first: for the viewer, or all the viewer may see.

    `is_assigned`: of these only what was handed to the viewer by name.
    """
    waiting = waiting_for(viewer)
    rows = visible_requests(viewer).filter(state__in=OPEN_REQUEST_STATES)
    rows = rows.exclude(state=RequestState.DRAFT)
    if mine_only:
        rows = rows.filter(pk__in=waiting.order_by().values("pk"))
    else:
        rows = rows.annotate(is_mine=Exists(waiting.filter(pk=OuterRef("pk"))))
    if is_assigned:
        rows = rows.filter(assigned_to=viewer)
    last = _consents().order_by("-id")[:1]
    rows = rows.annotate(offer=as_rows(last, "amount", "valid_until"))
    found = with_versions(in_order(rows, column, falls=falls))
    uses, slower = _uses(found), _slower(found)
    waits = []
    for request, asked in found:
        amount, until = _on_the_table(request, asked)
        waits.append(
            InboxRow(
                request,
                asked,
                amount,
                until,
                _urgency(request, now),
                mine_only or getattr(request, "is_mine", False),
                uses.get(_scope_of(request)),
                slower.get((request.pk, request.revision, amount, until)),
            )
        )
    return waits


def _on_the_table(request: Any, asked: RequestVersion) -> tuple[int, datetime]:
    for amount, until in rows_in(request.offer):
        if amount is not None and until is not None:
            return amount, moment_in(until)
    return asked.amount, asked.valid_until


_Scope = tuple[str, int | None, str]


def _scope_of(request: QuotaRequest) -> _Scope:
    owner = f"team:{request.team_id}"
    if request.project_id is not None:
        owner = f"project:{request.project_id}"
    return owner, request.pool_id, request.gpu_model


def _uses(rows: Sequence[tuple[QuotaRequest, RequestVersion]]) -> dict[_Scope, Quota]:
    """The quotas of just these accounts, pools and models; one query."""
    keys = {_scope_of(request)[0] for request, _ in rows}
    quotas = Quota.objects.filter(account__key__in=keys).select_related("account")
    return {(one.account.key, one.pool_id, one.gpu_model): one for one in quotas}


_Simulated = tuple[int, int, int, datetime]


def _slower(rows: Sequence[tuple[QuotaRequest, RequestVersion]]) -> dict[_Simulated, int]:
    """By request, revision, amount and end how many teams the last simulation lets wait longer;
    one query."""
    done = WhatIf.objects.filter(request__in=[one.pk for one, _ in rows], progress="done")
    asked = ("request_id", "revision", "amount", "valid_until")
    return {
        (request, revision, amount, until): teams_slower(answer)
        for request, revision, amount, until, answer in done.order_by("id").values_list(
            *asked, "answer"
        )
    }


def teams_slower(answer: Mapping[str, Any]) -> int:
    """How many teams a simulation lets wait longer, if all that is asked for is granted."""
    return sum(
        bool(team["is_news"]) and team["p90_s"][-1] > team["p90_s"][0] for team in answer["teams"]
    )


def _urgency(request: QuotaRequest, now: datetime) -> str:
    if request.due_at is None or request.step_at is None:
        return ""
    if now >= request.due_at:
        return "late"
    return "soon" if now >= request.step_at + (request.due_at - request.step_at) / 2 else ""
