"""What a request would cost and bring, before it is sent; nothing is stored."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from accounts.errors import DomainError, Forbidden, NotFound
from accounts.models import Team, User
from portal.forms.requests import AskForm
from scheduler.selectors.cluster import get_visible_pool, visible_nodes
from scheduler.selectors.requesting.rules import routing_of
from scheduler.selectors.sharing import get_visible_owner
from scheduler.services.bookings.requested import Fit, fit_of
from scheduler.services.requesting.amounts import Cost, cost_of_asking
from scheduler.services.requesting.checks import Ask, check_ask
from scheduler.services.requesting.foreseeing.replaying import Question
from scheduler.services.requesting.foreseeing.whatif import estimate
from scheduler.states import GPU_KINDS, RequestKind


@dataclass(frozen=True, slots=True)
class Foreseen:
    """`waits` are p90 without and with it, in seconds; `fit` and `nodes` are of a booking."""

    cost: Cost
    waits: tuple[float, float] | None = None
    fit: Fit | None = None
    nodes: tuple[str, ...] = ()


def foreseen(viewer: User, form: AskForm, now: datetime) -> Foreseen | None:
    """None for what would be refused; the form says why."""
    wish = wish_of(viewer, form, now)
    ask = Ask(**{**wish, "kind": RequestKind(wish["kind"])})
    try:
        check_ask(viewer, ask, most_days=routing_of(ask.kind).most_days, now=now)
        return _foreseen(viewer, ask, now)
    except (NotFound, Forbidden):
        raise
    except DomainError as refused:
        form.add_error(refused.field if refused.field in form.fields else None, refused.detail)
        return None


def _foreseen(viewer: User, ask: Ask, now: datetime) -> Foreseen:
    cost = cost_of_asking(
        ask.kind,
        ask.amount,
        ask.pool,
        ask.gpu_model,
        valid_from=ask.valid_from,
        valid_until=ask.valid_until,
        now=now,
        team=ask.owner.pk if isinstance(ask.owner, Team) else ask.owner.team_id,
    )
    if ask.kind in GPU_KINDS:
        question = Question(ask.owner, ask.kind, ask.pool, ask.gpu_model, (ask.amount,))
        return Foreseen(cost, waits=estimate(question, now=now))
    if ask.kind is not RequestKind.RESERVATION or ask.pool is None:
        return Foreseen(cost)
    fit = fit_of(
        actor=viewer,
        owner=ask.owner,
        pool=ask.pool,
        gpu_model=ask.gpu_model,
        gpus=ask.amount,
        from_at=ask.valid_from,
        until_at=ask.valid_until,
        now=now,
    )
    names = [node.name for node in visible_nodes(viewer) if node.pk in fit.node_ids]
    return Foreseen(cost, fit=fit, nodes=tuple(names))


def wish_of(viewer: User, form: AskForm, now: datetime) -> dict[str, Any]:
    """As the services take it."""
    sent = form.cleaned_data
    pool = get_visible_pool(viewer, sent["pool"]) if sent["pool"] else None
    return {
        "owner": get_visible_owner(viewer, sent["owner"]),
        "kind": sent["kind"],
        "pool": pool,
        "gpu_model": sent["gpu_model"],
        **form.wish(now),
    }
