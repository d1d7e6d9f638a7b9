"""Templates for tests."""

from __future__ import annotations

from typing import Any

from accounts.models import Team, User
from scheduler.services.composing.templates import create_template

SPEC: dict[str, Any] = {
    "name": "ddp",
    "script": "#!/bin/sh\npython train.py\n",
    "gpus_per_node": 2,
    "time_limit": "2h",
    "tier": "normal",
    "env": {"NCCL_DEBUG": "WARN"},
}
RULES = {
    "script": "locked",
    "tier": "locked",
    "gpus_per_node": "1..4",
    "time_limit": "..12h",
    "retries": "0, 2",
}


def make_template(lead: User, team: Team, **more: Any) -> str:
    """The slug of a template with locked and bounded fields."""
    told = {"name": "DDP", "document": SPEC, "rules": RULES, **more}
    return create_template(actor=lead, team=team, **told).template.slug
