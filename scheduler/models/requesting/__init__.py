"""Requests for quota, what was decided on them, and the mails that tell of it."""

from scheduler.models.requesting.mails import GrantNotice, OutboundMail
from scheduler.models.requesting.requests import (
    QuotaRequest,
    RequestDecision,
    RequestEvent,
    RequestPolicy,
    RequestVersion,
)
from scheduler.models.requesting.whatifs import WhatIf

__all__ = [
    "GrantNotice",
    "OutboundMail",
    "QuotaRequest",
    "RequestDecision",
    "RequestEvent",
    "RequestPolicy",
    "RequestVersion",
    "WhatIf",
]
