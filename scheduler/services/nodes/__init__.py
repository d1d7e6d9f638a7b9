"""Nodes: their register (enrolment, drain, resume), what they have, and what is wrong with them."""

from scheduler.services.nodes.credentials import authenticate_node
from scheduler.services.nodes.quarantine import resume_node
from scheduler.services.nodes.register import (
    create_pool,
    drain_node,
    enrol_node,
    require_operator,
    retire_node,
)
from scheduler.services.nodes.tokens import enrol_line, issue_node_token, revoke_node_token

__all__ = [
    "authenticate_node",
    "create_pool",
    "drain_node",
    "enrol_line",
    "enrol_node",
    "issue_node_token",
    "require_operator",
    "resume_node",
    "retire_node",
    "revoke_node_token",
]
