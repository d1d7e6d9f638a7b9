"""Tokens for the nodes of this machine, by what the database knows and not by what a folder holds.

A back-up that was put back knows a node whose folder is gone; a folder may be of another database.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from accounts.models import User
from portal.embedded.places import Places
from portal.management.seeding import ensure_pool
from scheduler.agent.config import ConfigProblem, NodeIdentity, read_identity
from scheduler.conf import load_conf
from scheduler.models import Node
from scheduler.selectors.cluster import is_retired, visible_nodes
from scheduler.services.errors import Conflict
from scheduler.services.nodes import authenticate_node, issue_node_token, retire_node
from scheduler.states import NodeState


def is_known(name: str) -> bool:
    """Whether the node's folder holds a token that opens something here."""
    found = _identity(name)
    tokens = (found.node_token, found.former_token) if found else ()
    return any(token and authenticate_node(token) for token in tokens)


def token_for(name: str, pool: str, *, actor: User) -> str:
    """An enrolment token for a node that is not known; a row of an earlier one makes room.

    Raises Conflict, saying what to do, where its jobs or its folder may be another's.
    """
    earlier = visible_nodes(actor).filter(name=name).first()
    identity = _identity(name)
    if earlier is None and identity is not None and not is_retired(identity.node_id, name):
        raise Conflict(
            f"{_folder(name)} is of another database, whose jobs have the same numbers. Stop what "
            "runs there, move the folder away and start again."
        )
    if earlier is not None and earlier.state != NodeState.LOST:
        _make_room(earlier, actor)
    _, secret = issue_node_token(actor=actor, pool=ensure_pool(actor, pool))
    return secret


def _make_room(node: Node, actor: User) -> None:
    remedy = "see that nothing of it runs here, retire it on its page and start again."
    lease = timedelta(seconds=load_conf().node_lease_s)
    if settings.DATABASE_URL and node.last_seen_at and timezone.now() - node.last_seen_at < lease:
        raise Conflict(
            "A node of this name calls; another installation may share this database. If none "
            f"does, start again in {lease.total_seconds():.0f} s."
        )
    if node.counts_from is not None:
        raise Conflict(f"After a restore nobody knows what its folder's jobs do: {remedy}")
    try:
        retire_node(actor=actor, node=node)
    except Conflict:
        raise Conflict(
            f"{_folder(node.name)} has lost its token, and jobs are on the node. Wait until they "
            f"have ended; then {remedy}"
        ) from None


def _folder(name: str) -> Path:
    return Places(Path(settings.STATE_DIR), Path(settings.RUN_DIR)).node(name)


def _identity(name: str) -> NodeIdentity | None:
    try:
        return read_identity(_folder(name))
    except ConfigProblem:
        return None
