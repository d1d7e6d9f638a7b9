"""What waits for somebody else's word: requests for quota, cancels of many jobs; and the mails."""

from scheduler.models.requesting.cancels import BulkCancel
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
    "BulkCancel",
    "GrantNotice",
    "OutboundMail",
    "QuotaRequest",
    "RequestDecision",
    "RequestEvent",
    "RequestPolicy",
    "RequestVersion",
    "WhatIf",
]
