"""The history of a request, and the mails that go with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from accounts.models import User
from accounts.services.audit import record
from scheduler import events
from scheduler.conf import load_conf
from scheduler.models import OutboundMail, QuotaRequest, RequestEvent, RequestVersion
from scheduler.services.inbox.hours import whose_mail_waits
from scheduler.services.inbox.mailing import wants_mail
from scheduler.services.inbox.telling import News, tell
from scheduler.services.requesting.rights import (
    askers,
    deciders,
    deputies_of,
    have_said_yes,
    may_decide,
)
from scheduler.states import (
    KIND_WORDS,
    NoticeKind,
    RequestKind,
    ReviewStep,
    amount_words,
    until_words,
)


def note(
    request: QuotaRequest,
    kind: str,
    *,
    actor: User | None,
    now: datetime,
    came_from: str = "",
    text: str = "",
    on_behalf_of: User | None = None,
    facts: Mapping[str, object] | None = None,
    was: Mapping[str, object] | None = None,
) -> RequestEvent:
    """One line of the history and one of the audit, in the caller's transaction.

    `facts` are for the audit alone: what was decided on, by which rule, with which simulation;
    `was` is what they were before.
    """
    events.publish_on_commit(f"user:{request.asked_by_id}")
    after = {"state": request.state, "version": request.version, **(facts or {})}
    record(
        actor,
        f"request.{kind}",
        request,
        before={"state": came_from} if came_from else was,
        after=after,
        on_behalf_of=on_behalf_of,
        reason=text,
        now=now,
    )
    return RequestEvent.objects.create(
        request=request,
        at=now,
        actor=actor,
        on_behalf_of=on_behalf_of,
        kind=kind,
        from_state=came_from,
        to_state=request.state,
        text=text,
    )


def title_of(request: QuotaRequest) -> str:
    """`Guaranteed GPUs for vision/digits`."""
    owner = request.project.path if request.project else request.team.slug
    return f"{KIND_WORDS[RequestKind(request.kind)]} for {owner}"


def mail(
    people: Iterable[int],
    *,
    request: QuotaRequest,
    kind: NoticeKind,
    key: str,
    subject: str,
    text: str,
    said: str = "",
    now: datetime,
) -> None:
    """Tell each of these people, unless this was told before: in the inbox, with `said` as its
    text, and by a mail that a task sends, unless they want none of this kind or of this request, or
    want it later with others.
    """
    told, about = sorted(set(people)), f"request:{request.pk}"
    mailed = wants_mail(set(told), kind, about)
    later = whose_mail_waits(mailed, kind, now)
    tell(
        [
            News(
                person_id=person,
                kind=kind,
                subject=about,
                title=subject,
                text=said,
                path=f"/requests/{request.pk}/",
                key=key,
                is_mailed=person not in later,
            )
            for person in told
        ],
        now=now,
    )
    OutboundMail.objects.bulk_create(
        [
            OutboundMail(
                key=f"{key}:{person}"[:128],
                person_id=person,
                subject=subject[:200],
                text=text,
                created_at=now,
                not_before=now,
            )
            for person in sorted(mailed - later)
        ],
        ignore_conflicts=True,
    )


def link_to(request: QuotaRequest) -> str:
    """The page of the request; opening it changes nothing."""
    return f"{load_conf().public_url}/requests/{request.pk}/"


def tell_deciders(request: QuotaRequest, what: str, words: str, *, now: datetime) -> None:
    """Mail those who may take the step under way, or whom it was assigned to."""
    if not request.route:
        return
    mail(
        _who_is_told(request, now),
        request=request,
        kind=NoticeKind.REQUEST_WAITING,
        key=f"request:{request.pk}:{request.version}:{what}",
        subject=f"{request}: {title_of(request)} {words}",
        text=(
            f"{title_of(request)} {words}: {_wish(request, now)}.\n\n"
            f"Look and decide: {link_to(request)}\n"
        ),
        now=now,
    )


def _wish(request: QuotaRequest, now: datetime) -> str:
    """`+8 until 27 Feb 2027`."""
    asked: RequestVersion = request.versions.get(number=request.revision)
    amount = amount_words(request.kind, asked.amount)
    return f"{amount} {until_words(asked.valid_until, now)}"


def _who_is_told(request: QuotaRequest, now: datetime) -> set[int]:
    """The one it was assigned to, while that person may decide; else all who may."""
    if request.assigned_to is not None and may_decide(request.assigned_to, request):
        return {request.assigned_to.pk}
    step = ReviewStep(request.route[0])
    out = askers(request) | have_said_yes(request)
    people = deciders(step, request.team) - out
    if step is ReviewStep.LEAD:
        # Administrators may take it, too; they are told when it comes to them.
        people = people - deciders(ReviewStep.ADMIN, request.team) or people
    return people | (deputies_of(people, step, request.team, now=now) - out)


def tell_assigned(
    request: QuotaRequest, person: User, by: User, *, number: int, now: datetime
) -> None:
    """Tell this one person; `number` is that of the event, so that each time is told once."""
    what = f"{title_of(request)} was assigned to you by {by.get_full_name() or by.get_username()}"
    mail(
        [person.pk],
        request=request,
        kind=NoticeKind.REQUEST_WAITING,
        key=f"request:{request.pk}:{request.version}:assigned-{number}",
        subject=f"{request}: {what}",
        text=f"{what}.\n\nLook and decide: {link_to(request)}\n",
        now=now,
    )


def tell_asker(request: QuotaRequest, words: str, text: str, *, now: datetime) -> None:
    """Mail whoever asked."""
    mail(
        [request.asked_by_id],
        request=request,
        kind=NoticeKind.REQUEST_DECIDED,
        said=text,
        key=f"request:{request.pk}:{request.version}:asker",
        subject=f"{request}: {title_of(request)} {words}",
        text=f"{title_of(request)} {words}.\n\n{text}\n\n{link_to(request)}\n",
        now=now,
    )
