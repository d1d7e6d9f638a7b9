"""How a budget is kept: the words it may be given, and the periods that may renew themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from scheduler.models import AlertAction, CommitsAt, Enforcement, Renewal, Threshold
from scheduler.services.errors import Invalid

LONGEST_GRACE_S = 24 * 3600
MONTHS = {Renewal.MONTHLY: 1, Renewal.QUARTERLY: 3}
# The last day that every month has.
LAST_DAY = 28


def months_later(moment: datetime, months: int) -> datetime:
    """The same day and time so many calendar months later; for days up to `LAST_DAY`, in UTC."""
    moment = moment.astimezone(UTC)
    years, month = divmod(moment.month - 1 + months, 12)
    return moment.replace(year=moment.year + years, month=month + 1)


@dataclass(frozen=True, slots=True)
class BudgetRules:
    """How a budget is kept: its words as in `Budget`, `grace_s` seconds, per cent carried over.

    Only one that reserves can commit at the submit.

    `renewal`: empty, or `monthly`, `quarterly` for a period of just so many months.
    """

    enforcement: str = Enforcement.RESERVE
    grace_s: int = 600
    carry_percent: int = 0
    renewal: str = Renewal.NONE
    commits_at: str = CommitsAt.START
    action: str = AlertAction.NOTIFY
    action_at: str = Threshold.ALL


def usual_commit(enforcement: str) -> str:
    """When a budget commits where nobody chose: people hear at the submit that there is too little,
    if it reserves at all."""
    return CommitsAt.SUBMIT if enforcement == Enforcement.RESERVE else CommitsAt.START


def check_rules(rules: BudgetRules, period: Mapping[str, datetime]) -> None:
    """Raises Invalid for what does not go together, or not with this period."""
    for field, word, known in (
        ("enforcement", rules.enforcement, Enforcement.values),
        ("action", rules.action, AlertAction.values),
        ("action_at", rules.action_at, Threshold.values),
        ("renewal", rules.renewal, Renewal.values),
        ("commits_at", rules.commits_at, CommitsAt.values),
    ):
        if word not in known:
            raise Invalid(f"Choose one of {', '.join(filter(None, known))}.", field=field)
    if rules.commits_at == CommitsAt.SUBMIT and rules.enforcement != Enforcement.RESERVE:
        raise Invalid(
            "Only a budget that reserves commits at the submit; choose reserve, or let it commit "
            "at the start.",
            field="commits_at",
        )
    if not 0 <= rules.grace_s <= LONGEST_GRACE_S:
        raise Invalid(f"Give seconds from 0 to {LONGEST_GRACE_S}.", field="grace_s")
    if not 0 <= rules.carry_percent <= 100:
        raise Invalid("Give per cent from 0 to 100.", field="carry_percent")
    if rules.renewal:
        _check_renewal(Renewal(rules.renewal), period["valid_from"], period["valid_until"])


def _check_renewal(renewal: Renewal, begin: datetime, until: datetime) -> None:
    """The period has to be what comes again: whole months, from a day that every month has."""
    begin, until = begin.astimezone(UTC), until.astimezone(UTC)
    if begin.day > LAST_DAY or until != months_later(begin, MONTHS[renewal]):
        months = "a month" if MONTHS[renewal] == 1 else f"{MONTHS[renewal]} months"
        raise Invalid(
            f"What renews itself {renewal.label} lasts just {months} (UTC), from one of the "
            f"first {LAST_DAY} days on; change its end, or let it not renew.",
            field="renewal",
        )
