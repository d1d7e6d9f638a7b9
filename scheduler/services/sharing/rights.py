"""Who may set rules."""

from __future__ import annotations

from accounts.models import User
from accounts.permissions import can
from scheduler.services.errors import Forbidden


def require_operator(actor: User) -> None:
    """Operators and administrators; raises Forbidden for everybody else."""
    if not can(actor, "operate", None):
        raise Forbidden("Only operators and administrators set limits, budgets and policies.")
