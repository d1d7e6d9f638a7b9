"""Who asked for what, in which words, and who decided. What was submitted is never edited."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from django.conf import settings
from django.db import models

from scheduler.models.calendar import Booking
from scheduler.models.cluster import Pool
from scheduler.models.exact import ExactAmount
from scheduler.models.sharing import Budget, Grant
from scheduler.states.requests import KIND_WORDS, Outcome, RequestKind, RequestState

_PERSON = settings.AUTH_USER_MODEL


_EVENT_WORDS = {
    "drafted": "Drafted",
    "asked": "Asked",
    "submitted": "Submitted",
    "routed": "On its way to the next person",
    "assigned": "Assigned",
    "revised": "Revised",
    "question": "Asked back",
    "answered": "Answered",
    "agreed": "Agreed to",
    "granted": "Granted",
    "denied": "Denied",
    "withdrawn": "Withdrawn",
    "comment": "Comment",
    "reminded": "A reminder was sent",
    "escalated": "Handed on",
    "expired": "Expired",
    "returned": "Its time is over",
    "revoked": "Revoked",
}


def _words(kind: type[StrEnum]) -> list[str]:
    return [str(word) for word in kind]


class RequestPolicy(models.Model):
    """Who has to agree and how soon; the newest row of a kind holds, else the newest of any kind.

    `money_limit`: what costs more a month goes to finance too. `always_admin`: a lead alone never
    decides. `sla_hours` are for one step. `auto_up_to`: so much of this one kind is agreed to at
    once if a lead alone could. `is_end`: from here on the kind has no rule of its own.
    Never edited.
    """

    kind = models.CharField(max_length=16, blank=True)
    money_limit = ExactAmount(null=True, blank=True)
    always_admin = models.BooleanField(default=False)
    sla_hours = models.PositiveIntegerField(default=48)
    most_days = models.PositiveIntegerField(default=365)
    auto_up_to = models.PositiveIntegerField(null=True, blank=True)
    is_end = models.BooleanField(default=False, db_default=False)
    created_at = models.DateTimeField()
    created_by = models.ForeignKey(_PERSON, on_delete=models.SET_NULL, null=True, related_name="+")

    class Meta:
        ordering = ["-id"]

    @property
    def kind_words(self) -> str:
        """The kind, for people."""
        return KIND_WORDS[RequestKind(self.kind)] if self.kind else "Any kind"

    @property
    def scope_words(self) -> str:
        """What it is for."""
        if not self.kind:
            return "for any kind"
        words = KIND_WORDS[RequestKind(self.kind)]
        return f"for {words if words[:2].isupper() else words[0].lower() + words[1:]}"


class QuotaRequest(models.Model):
    """One request of a team or a project. State moves by service.

    `version` counts every change and is the precondition of each; `revision` is the text in force.
    `route` are the steps still to be taken, the one under way first; `policy` is what it came from.
    `assigned_to` was asked by name to take it, which gives no right and takes none from others.
    `step_at` is when that step began, `due_at` when its time is over, `touched_at` when a person
    last did anything. `granted` is empty for GPU-hours and money, which are added to `budget`; what
    is not used of them is taken back at `returns_at`, which is empty once that was done. `booking`
    is what a request for one became.
    """

    team = models.ForeignKey("accounts.Team", on_delete=models.CASCADE, related_name="+")
    project = models.ForeignKey(
        "accounts.Project", on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    kind = models.CharField(max_length=16)
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, null=True, blank=True)
    gpu_model = models.CharField(max_length=96, blank=True)
    state = models.CharField(max_length=16, default=RequestState.DRAFT)
    version = models.PositiveIntegerField(default=1)
    revision = models.PositiveIntegerField(default=1)
    route = models.JSONField(default=list, blank=True)
    policy = models.ForeignKey(RequestPolicy, on_delete=models.PROTECT, null=True, blank=True)
    asked_by = models.ForeignKey(_PERSON, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    touched_at = models.DateTimeField()
    step_at = models.DateTimeField(null=True, blank=True)
    due_at = models.DateTimeField(null=True, blank=True)
    assigned_to = models.ForeignKey(
        _PERSON, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    reminded_at = models.DateTimeField(null=True, blank=True)
    escalated_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    renews = models.ForeignKey("self", on_delete=models.SET_NULL, null=True, blank=True)
    granted = models.OneToOneField(
        Grant, on_delete=models.SET_NULL, null=True, blank=True, related_name="request"
    )
    budget = models.ForeignKey(Budget, on_delete=models.SET_NULL, null=True, blank=True)
    returns_at = models.DateTimeField(null=True, blank=True)
    booking = models.OneToOneField(
        Booking, on_delete=models.SET_NULL, null=True, blank=True, related_name="request"
    )

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["state", "due_at"], name="request_by_state")]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(state__in=_words(RequestState)), name="request_state_known"
            ),
            models.CheckConstraint(
                condition=models.Q(kind__in=_words(RequestKind)), name="request_kind_known"
            ),
        ]

    def __str__(self) -> str:
        return f"REQ-{self.pk}"

    @property
    def shown_state(self) -> str:
        """The state as people read it."""
        return self.state.replace("_", " ")

    @property
    def kind_words(self) -> str:
        """What it asks for, in words."""
        return KIND_WORDS[RequestKind(self.kind)]

    @property
    def owner_path(self) -> str:
        """`team/project`, or the team."""
        return self.project.path if self.project is not None else self.team.slug


class RequestVersion(models.Model):
    """What was asked for, in its words: GPUs, hours, GPU-hours or whole units of the currency,
    from one moment until another.

    A revision is a further row; none is changed once it is submitted.
    """

    request = models.ForeignKey(QuotaRequest, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    amount = models.PositiveIntegerField()
    valid_from = models.DateTimeField()
    valid_until = models.DateTimeField()
    justification = models.TextField(max_length=4096)
    written_by = models.ForeignKey(_PERSON, on_delete=models.PROTECT, related_name="+")
    written_at = models.DateTimeField()

    class Meta:
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["request", "number"], name="request_revision_once"),
            models.CheckConstraint(
                condition=models.Q(valid_from__lt=models.F("valid_until"), amount__gt=0),
                name="request_asks_for_something",
            ),
        ]


class RequestDecision(models.Model):
    """What one person decided on one version; the database keeps a second one out.

    `decided_by` is empty for what a rule agreed to by itself. `policy` is the rule that sent the
    request here, and `policy_version` which one of its kind that was: 0 where nobody had laid
    anything down, None where it was not noted.
    """

    request = models.ForeignKey(QuotaRequest, on_delete=models.CASCADE, related_name="decisions")
    version = models.PositiveIntegerField()
    revision = models.PositiveIntegerField()
    step = models.CharField(max_length=16)
    outcome = models.CharField(max_length=16)
    amount = models.PositiveIntegerField(null=True, blank=True)
    valid_until = models.DateTimeField(null=True, blank=True)
    reason_code = models.CharField(max_length=16, blank=True)
    comment = models.TextField(max_length=4096, blank=True)
    monthly_cost = ExactAmount(null=True, blank=True)
    currency = models.CharField(max_length=3, blank=True)
    decided_by = models.ForeignKey(
        _PERSON, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    on_behalf_of = models.ForeignKey(
        _PERSON, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    whatif = models.ForeignKey(
        "scheduler.WhatIf", on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    policy = models.ForeignKey(
        RequestPolicy, on_delete=models.PROTECT, null=True, blank=True, related_name="decisions"
    )
    policy_version = models.PositiveIntegerField(null=True, blank=True)
    at = models.DateTimeField()

    @property
    def rule_words(self) -> str:
        """Which rule sent the request to whoever decided."""
        if self.policy_version is None:
            return "rule not recorded"
        if self.policy is None:
            return "usual rules"
        return f"rule {self.policy_id}, version {self.policy_version} {self.policy.scope_words}"

    def says(
        self,
        outcome: str,
        amount: int | None,
        valid_until: datetime | None,
        reason_code: str,
        comment: str,
    ) -> bool:
        """Whether it is just this; an amount or end that was left as it is may be any."""
        if (self.outcome, self.comment) != (outcome, comment):
            return False
        if outcome == Outcome.DENY:
            return self.reason_code == reason_code
        cut = ((amount, self.amount), (valid_until, self.valid_until))
        return outcome != Outcome.LESS or all(sent in (None, kept) for sent, kept in cut)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["request", "version"], name="request_decided_once"),
            models.CheckConstraint(
                condition=models.Q(outcome__in=_words(Outcome)), name="request_outcome_known"
            ),
        ]


class RequestEvent(models.Model):
    """One thing that happened to a request, comments included; append-only."""

    request = models.ForeignKey(QuotaRequest, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField()
    actor = models.ForeignKey(_PERSON, on_delete=models.SET_NULL, null=True, related_name="+")
    on_behalf_of = models.ForeignKey(
        _PERSON, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    kind = models.CharField(max_length=32)
    from_state = models.CharField(max_length=16, blank=True)
    to_state = models.CharField(max_length=16, blank=True)
    text = models.TextField(blank=True, max_length=4096)

    class Meta:
        ordering = ["request_id", "id"]

    @property
    def words(self) -> str:
        """What happened, as people read it; a question that was asked back says so."""
        return _EVENT_WORDS.get(self.kind, self.kind)
