"""What becomes of a request for quota: its states and moves, what it may ask for, how it ends."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class RequestState(StrEnum):
    """Where a request is; what was decided and by whom are rows beside it."""

    DRAFT = "draft"
    SUBMITTED = "submitted"
    LEAD_REVIEW = "lead_review"
    ADMIN_REVIEW = "admin_review"
    FINANCE_REVIEW = "finance_review"
    NEEDS_INFO = "needs_info"
    APPROVED = "approved"
    PARTLY_APPROVED = "partly_approved"
    DENIED = "denied"
    WITHDRAWN = "withdrawn"
    EXPIRED = "expired"


class RequestKind(StrEnum):
    """What is asked for: GPUs on top of a limit, a first way to a GPU model, hours on top of the
    longest time limit, GPU-hours or money on top of a budget, GPUs booked from one hour to another.
    """

    GUARANTEED = "guaranteed"
    BORROW = "borrow"
    MAXIMUM = "maximum"
    ACCESS = "access"
    WALLTIME = "walltime"
    BUDGET = "budget"
    MONEY = "money"
    RESERVATION = "reservation"


# What limits how many GPUs somebody holds: only this is in the way of others, and can be replayed.
GPU_KINDS = frozenset(
    {RequestKind.GUARANTEED, RequestKind.BORROW, RequestKind.MAXIMUM, RequestKind.ACCESS}
)


# What the past can be played again with.
REPLAYED_KINDS = GPU_KINDS | {RequestKind.RESERVATION}


class ReviewStep(StrEnum):
    """Who has to agree; a request takes its steps in this order."""

    LEAD = "lead"
    ADMIN = "admin"
    FINANCE = "finance"


class Outcome(StrEnum):
    """What a decider can say. LESS: less or for a shorter time."""

    APPROVE = "approve"
    LESS = "less"
    DENY = "deny"
    ASK = "ask"


class DenyReason(StrEnum):
    """Why not; one of these goes with every denial."""

    NO_CAPACITY = "no_capacity"
    NO_BUDGET = "no_budget"
    NOT_JUSTIFIED = "not_justified"
    UNUSED_BEFORE = "unused_before"
    OTHER_WAY = "other_way"
    OTHER = "other"


DENY_WORDS: Mapping[DenyReason, str] = {
    DenyReason.NO_CAPACITY: "There is no capacity for it",
    DenyReason.NO_BUDGET: "There is no money for it",
    DenyReason.NOT_JUSTIFIED: "The justification does not carry it",
    DenyReason.UNUSED_BEFORE: "What was granted before is not used",
    DenyReason.OTHER_WAY: "It can be had in another way",
    DenyReason.OTHER: "Another reason, see the comment",
}

REVIEW_STATES: Mapping[RequestState, ReviewStep] = {
    RequestState.LEAD_REVIEW: ReviewStep.LEAD,
    RequestState.ADMIN_REVIEW: ReviewStep.ADMIN,
    RequestState.FINANCE_REVIEW: ReviewStep.FINANCE,
}
STATE_OF_STEP: Mapping[ReviewStep, RequestState] = {
    step: state for state, step in REVIEW_STATES.items()
}

_ENDS = frozenset(
    {
        RequestState.APPROVED,
        RequestState.PARTLY_APPROVED,
        RequestState.DENIED,
        RequestState.WITHDRAWN,
        RequestState.EXPIRED,
    }
)
_REVIEWS = frozenset(REVIEW_STATES)
_FROM_REVIEW = _ENDS | _REVIEWS | {RequestState.NEEDS_INFO, RequestState.SUBMITTED}

# A revision goes through SUBMITTED again; a step may hand on to the next one.
REQUEST_MOVES: Mapping[RequestState, frozenset[RequestState]] = {
    RequestState.DRAFT: frozenset(
        {RequestState.SUBMITTED, RequestState.WITHDRAWN, RequestState.EXPIRED}
    ),
    # Approved at once: only by a rule that says so.
    RequestState.SUBMITTED: _REVIEWS | {RequestState.APPROVED},
    **dict.fromkeys(_REVIEWS, _FROM_REVIEW),
    RequestState.NEEDS_INFO: _REVIEWS
    | {RequestState.SUBMITTED, RequestState.WITHDRAWN, RequestState.EXPIRED},
    **dict.fromkeys(_ENDS, frozenset[RequestState]()),
}
FINAL_REQUEST_STATES = _ENDS
OPEN_REQUEST_STATES = frozenset(RequestState) - _ENDS

REQUEST_WORDS: Mapping[RequestState, str] = {
    RequestState.DRAFT: "Draft",
    RequestState.SUBMITTED: "Submitted",
    RequestState.LEAD_REVIEW: "Waits for a lead",
    RequestState.ADMIN_REVIEW: "Waits for an administrator",
    RequestState.FINANCE_REVIEW: "Waits for finance",
    RequestState.NEEDS_INFO: "Waits for an answer",
    RequestState.APPROVED: "Approved",
    RequestState.PARTLY_APPROVED: "Approved in part",
    RequestState.DENIED: "Denied",
    RequestState.WITHDRAWN: "Withdrawn",
    RequestState.EXPIRED: "Expired",
}
KIND_WORDS: Mapping[RequestKind, str] = {
    RequestKind.GUARANTEED: "Guaranteed GPUs",
    RequestKind.BORROW: "GPUs to borrow",
    RequestKind.MAXIMUM: "A higher maximum of GPUs",
    RequestKind.ACCESS: "Access to a GPU model",
    RequestKind.WALLTIME: "Hours more of time limit",
    RequestKind.BUDGET: "GPU-hours of budget",
    RequestKind.MONEY: "Money of budget",
    RequestKind.RESERVATION: "A booking of GPUs",
}


def amount_words(kind: str, amount: int) -> str:
    """How many are asked for: `+8` on top of what there is; a booking of `8` adds to nothing."""
    return f"{amount:,}" if kind == RequestKind.RESERVATION else f"+{amount:,}"
