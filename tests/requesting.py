"""Requests for quota, for tests: asked and decided through the services."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from accounts.models import User
from scheduler.models import QuotaRequest
from scheduler.services.requesting.asking import ask_for_quota
from scheduler.services.requesting.deciding import decide_request
from tests.scenes import at

DAY_S = 86_400
WORDS = "The long-context phase begins on Monday."


def ask(actor: User, owner: Any, *, now: Any = None, **fields: Any) -> QuotaRequest:
    """Two guaranteed GPUs for 30 days from now, unless `fields` say otherwise."""
    now = now or at(0)
    wish = {
        "kind": "guaranteed",
        "amount": 2,
        "valid_from": now,
        "valid_until": now + timedelta(days=30),
        "justification": WORDS,
        **fields,
    }
    return ask_for_quota(actor=actor, owner=owner, now=now, **wish)


def decide(
    actor: User, request: QuotaRequest, outcome: str = "approve", *, now: Any = None, **fields: Any
) -> QuotaRequest:
    """What this person says to the version that `request` has in hand."""
    said = {"version": request.version, **fields}
    return decide_request(
        actor=actor, request_id=request.pk, outcome=outcome, now=now or at(60), **said
    )
