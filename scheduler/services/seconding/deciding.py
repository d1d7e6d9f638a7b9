"""The second person agrees and it happens, or refuses; the first one may take it back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from accounts.models import User
from accounts.services.audit import record
from scheduler.models import BulkCancel
from scheduler.selectors.requesting.parties import ended_for, may_end, parties_named
from scheduler.services.errors import Conflict, Forbidden, Invalid, NotFound
from scheduler.services.inbox.telling import News, tell
from scheduler.services.seconding.ending import end_named
from scheduler.services.seconding.rights import require_person
from scheduler.states import NoticeKind
from scheduler.states.seconding import CancelOutcome

MOST_SAID = 1000
_TRIES = 3
_DONE_WORDS = {
    CancelOutcome.AGREED: "Somebody has agreed to it already",
    CancelOutcome.REFUSED: "It was refused",
    CancelOutcome.WITHDRAWN: "It was withdrawn",
    CancelOutcome.LAPSED: "Nobody agreed to it within a day, so it has lapsed",
}


def agree_to_cancel(
    *, actor: User, proposal: BulkCancel, now: datetime | None = None
) -> BulkCancel:
    """End the named jobs that have not ended, in one transaction with both names on record.

    Agreeing twice is a no-op. Raises Forbidden for the proposer, for accounts of programs and for
    who might not end every one of these jobs, Conflict for what is decided or has lapsed. Where a
    job is started meanwhile, it is tried again a few times, then Conflict `try_again` and nothing
    has happened.
    """
    for is_last in (False,) * (_TRIES - 1) + (True,):
        try:
            return _agree(actor, proposal, now or timezone.now())
        except Conflict as refused:
            if is_last or refused.code != "try_again":
                raise
    raise AssertionError("the last try returns or raises")


@transaction.atomic
def _agree(actor: User, proposal: BulkCancel, now: datetime) -> BulkCancel:
    found = _locked(proposal)
    if found.outcome == CancelOutcome.AGREED and found.decided_by_id == actor.pk:
        return found
    _require_waiting(found, now)
    giver = _require_second(actor, found)
    done = end_named(found, second=actor, now=now)
    ended = done.waiting + done.stopped
    _close(found, CancelOutcome.AGREED, actor, now, ended=ended)
    after = {
        "ended": ended,
        "stopped": done.stopped,
        "noted_stops": done.noted,
        "left_out": found.left_out,
        "proposed_by": found.proposed_by.username,
        "agreed_by": actor.username,
    }
    _record(actor, "agree", found, after, giver, found.reason, now)
    more = f"; {found.left_out} had ended before" if found.left_out else ""
    _tell_proposer(found, f"{actor.get_full_name()} agreed", f"Ended: {ended}{more}.", now)
    return found


@transaction.atomic
def refuse_to_cancel(
    *, actor: User, proposal: BulkCancel, reason: str, now: datetime | None = None
) -> BulkCancel:
    """Let nothing happen, and say why. Raises as `agree_to_cancel`, Invalid without a reason."""
    now = now or timezone.now()
    found = _locked(proposal)
    if found.outcome == CancelOutcome.REFUSED and found.decided_by_id == actor.pk:
        return found
    _require_waiting(found, now)
    giver = _require_second(actor, found)
    reason = " ".join(reason.split())
    if not reason or len(reason) > MOST_SAID:
        raise Invalid(f"Say why not, in at most {MOST_SAID} characters.", field="reason")
    _close(found, CancelOutcome.REFUSED, actor, now, said=reason)
    after = {"proposed_by": found.proposed_by.username, "refused_by": actor.username}
    _record(actor, "refuse", found, after, giver, reason, now)
    _tell_proposer(found, f"{actor.get_full_name()} refused", reason, now)
    return found


@transaction.atomic
def withdraw_cancel(
    *, actor: User, proposal: BulkCancel, now: datetime | None = None
) -> BulkCancel:
    """Take back what one has proposed oneself; withdrawing twice is a no-op. Raises Conflict."""
    now = now or timezone.now()
    found = _locked(proposal)
    if found.proposed_by_id != actor.pk:
        raise Forbidden("Only who proposed it takes it back; refuse it instead.")
    if found.outcome == CancelOutcome.WITHDRAWN:
        return found
    _require_waiting(found, now)
    _close(found, CancelOutcome.WITHDRAWN, actor, now)
    record(actor, "bulk_cancel.withdraw", found, after={"jobs": found.named}, now=now)
    return found


def _locked(proposal: BulkCancel) -> BulkCancel:
    rows = BulkCancel.objects.select_for_update(of=("self",))
    found = rows.select_related("proposed_by", "person").filter(pk=proposal.pk).first()
    if found is None:
        raise NotFound("There is no such proposal for you.")
    return found


def _require_waiting(found: BulkCancel, now: datetime) -> None:
    outcome = found.outcome_at(now)
    if outcome is not CancelOutcome.WAITING:
        words = "cancel them anew" if outcome is not CancelOutcome.AGREED else "the jobs have ended"
        raise Conflict(
            f"{_DONE_WORDS[outcome]}; {words}.",
            code="decided",
            facts={"bulk_cancel": found.pk, "outcome": str(outcome)},
        )


def _record(
    actor: User,
    verb: str,
    found: BulkCancel,
    after: Mapping[str, object],
    giver: User | None,
    reason: str,
    now: datetime,
) -> None:
    what = f"bulk_cancel.{verb}"
    record(actor, what, found, after=after, on_behalf_of=giver, reason=reason, now=now)


def _require_second(actor: User, found: BulkCancel) -> User | None:
    """In whose place the actor is the second; raises Forbidden."""
    require_person(actor)
    if found.proposed_by_id == actor.pk:
        raise Forbidden("You proposed it; another person has to agree.")
    parties = parties_named([found])[found.pk]
    if not may_end(actor, parties, besides=found.proposed_by_id):
        raise Forbidden("Only who might end every one of these jobs may agree or refuse.")
    return ended_for(actor, parties, besides=found.proposed_by_id)


def _close(
    found: BulkCancel,
    outcome: CancelOutcome,
    actor: User,
    now: datetime,
    *,
    said: str = "",
    ended: int | None = None,
) -> None:
    found.outcome, found.decided_by, found.decided_at = outcome, actor, now
    found.said, found.ended = said, ended
    found.save(update_fields=["outcome", "decided_by", "decided_at", "said", "ended"])


def _tell_proposer(found: BulkCancel, words: str, text: str, now: datetime) -> None:
    news = News(
        person_id=found.proposed_by_id,
        kind=NoticeKind.REQUEST_DECIDED,
        subject=f"bulk_cancel:{found.pk}",
        title=f"{words}: cancel {found.what}",
        text=text,
        path=f"/approvals/cancels/{found.pk}/",
        key=f"bulk_cancel:{found.pk}:answer",
    )
    tell([news], now=now)
