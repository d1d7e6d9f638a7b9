"""Enrolment tokens: made for one pool and one machine, revoked while nobody has used them."""

from __future__ import annotations

import secrets
import shlex
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from accounts.models import User
from accounts.secrets import hash_secret
from accounts.services.audit import Subject, record
from scheduler.conf import load_conf
from scheduler.models import NodeToken, Pool
from scheduler.services.errors import Conflict, Invalid
from scheduler.services.nodes.register import require_operator

MAX_TOKEN_MINUTES = 24 * 60


@transaction.atomic
def issue_node_token(
    *, actor: User, pool: Pool, minutes: int = 15, now: datetime | None = None
) -> tuple[NodeToken, str]:
    """A single-use enrolment token; the secret is returned once and never again."""
    require_operator(actor)
    if not 1 <= minutes <= MAX_TOKEN_MINUTES:
        raise Invalid(f"Choose 1 to {MAX_TOKEN_MINUTES} minutes.", field="minutes")
    now = now or timezone.now()
    secret = f"tyn_{secrets.token_urlsafe(32)}"
    token = NodeToken.objects.create(
        pool=pool,
        token_hash=hash_secret(secret),
        created_by=actor,
        expires_at=now + timedelta(minutes=minutes),
    )
    record(
        actor, "node.issue_token", _about(token), after={"expires_at": token.expires_at}, now=now
    )
    return token, secret


def enrol_line(secret: str) -> str:
    """What to type on the new machine, by the operator's book, before its unit is enabled.

    The token goes by the environment: `ps` shows arguments.
    """
    server = shlex.quote(load_conf().public_url)
    agent = "python3 /opt/trainyard-agent.pyz"
    return f"TRAINYARD_ENROL_TOKEN={secret} {agent} enrol --server {server}"


@transaction.atomic
def revoke_node_token(*, actor: User, token: NodeToken, now: datetime | None = None) -> NodeToken:
    """End a token before its time. Raises Conflict where it was used or has ended meanwhile.

    It ends by the same guarded update that spends it: of a node that enrols and an operator who
    revokes, one wins and the other is told.
    """
    require_operator(actor)
    now = now or timezone.now()
    ended = NodeToken.objects.filter(pk=token.pk, used_at__isnull=True, expires_at__gt=now).update(
        expires_at=now
    )
    before = {"expires_at": token.expires_at}
    token.refresh_from_db()
    if not ended and token.used_at is not None:
        raise Conflict(
            "A node has used this token already. Retire that node if it should not be there.",
            code="enrol_token_used",
        )
    if not ended:
        raise Conflict("This token has ended already; nobody can use it.", code="enrol_token_ended")
    after = {"expires_at": token.expires_at}
    record(actor, "node.revoke_token", _about(token), before=before, after=after, now=now)
    return token


def _about(token: NodeToken) -> Subject:
    return Subject("nodetoken", str(token.pk), f"enrolment into {token.pool.name}")
