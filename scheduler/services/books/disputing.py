"""Statements after they were issued: sent to those who lead, disputed, answered, settled.

None of it moves money: what a dispute is right about is put right by an adjustment or a correction,
which two people agree on as always.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from accounts.models import Team, User
from accounts.permissions import can, on_behalf_of, people_who_can
from accounts.services.audit import Subject, record
from scheduler.conf import load_conf
from scheduler.models import OutboundMail, Period, Statement, StatementEvent
from scheduler.models.money.disputes import StatementStep
from scheduler.services.books.posting import require_bookkeeper
from scheduler.services.errors import Conflict, Forbidden, Invalid
from scheduler.services.inbox.telling import News, tell
from scheduler.states import NoticeKind

_MOST = 1000


@transaction.atomic
def send_statement(*, actor: User, number: int, now: datetime | None = None) -> int:
    """Mail it to those who lead its team, as often as asked; returns to how many."""
    require_bookkeeper(actor)
    statement = _locked(number)
    team = _team(statement)
    leads = people_who_can("manage_team", team).filter(is_superuser=False) if team else ()
    people = [person for person in leads if person.email]
    if not people:
        raise Conflict("Nobody with a mail address leads this account; hand it over on paper.")
    event = _written(actor, statement, StatementStep.SENT, f"to {len(people)}", now)
    month = statement.close.period.name
    link = f"{load_conf().public_url}/finance/statements/{number}/"
    OutboundMail.objects.bulk_create(
        OutboundMail(
            key=f"statement:{event.pk}:{person.pk}",
            person=person,
            subject=f"statement {number}, {month}",
            text=f"Statement {number} of {team} for {month} is there:\n\n{link}\n\n"
            "What is not right in it you can dispute on its page.\n",
            created_at=event.at,
            not_before=event.at,
        )
        for person in people
    )
    return len(people)


@transaction.atomic
def dispute_statement(
    *, actor: User, number: int, text: str, now: datetime | None = None
) -> StatementEvent:
    """Say what is not right; for those who lead the team. Who keeps the books is told.

    Raises Forbidden, Invalid, Conflict.
    """
    statement = _locked(number)
    team = _team(statement)
    if team is None or not can(actor, "manage_team", team):
        raise Forbidden("Only those who lead the team dispute its statements.")
    if standing_of(statement) in (StatementStep.DISPUTED, StatementStep.SETTLED):
        raise Conflict(f"It is {standing_of(statement)} already.")
    event = _written(actor, statement, StatementStep.DISPUTED, _said(text), now)
    keepers = people_who_can("keep_books", None).exclude(pk=actor.pk)
    title = f"Statement {number} of {team} is disputed: answer it"
    _tell(keepers, NoticeKind.REQUEST_WAITING, title, event)
    return event


@transaction.atomic
def answer_dispute(
    *, actor: User, number: int, text: str, now: datetime | None = None
) -> StatementEvent:
    """Say what came of a dispute; by those who keep the books, not by who disputed it, who is
    told."""
    require_bookkeeper(actor)
    statement = _locked(number)
    last = _last(statement)
    if last is None or last.step != StatementStep.DISPUTED:
        raise Conflict("It is not disputed.")
    if last.by_id == actor.pk:
        raise Forbidden("You disputed it; another person has to answer.")
    event = _written(actor, statement, StatementStep.ANSWERED, _said(text), now)
    if last.by is not None:
        title = f"What you disputed of statement {number} was answered"
        _tell([last.by], NoticeKind.REQUEST_DECIDED, title, event)
    return event


@transaction.atomic
def settle_statement(*, actor: User, number: int, now: datetime | None = None) -> StatementEvent:
    """Note that it is paid or set off. Raises Conflict while it is disputed or replaced."""
    require_bookkeeper(actor)
    statement = _locked(number)
    if standing_of(statement) in (StatementStep.DISPUTED, StatementStep.SETTLED):
        raise Conflict(f"It is {standing_of(statement)}.")
    if statement.close.version != statement.close.period.version:
        raise Conflict("A later statement replaces it; settle that one.")
    return _written(actor, statement, StatementStep.SETTLED, "", now)


def standing_of(statement: Statement) -> str:
    """The last step that is more than a mail; empty: issued, and nothing since."""
    last = _last(statement)
    return last.step if last else ""


def _last(statement: Statement) -> StatementEvent | None:
    steps = StatementEvent.objects.filter(statement=statement).exclude(step=StatementStep.SENT)
    return steps.order_by("pk").last()


def _locked(number: int) -> Statement:
    """The statement under its month's lock: a lock on its own row would ask for the right to change
    it, which the programs may lack."""
    statement = Statement.objects.select_related("close__period").get(number=number)
    Period.objects.select_for_update().get(pk=statement.close.period_id)
    return statement


def _tell(people: Iterable[User], kind: NoticeKind, title: str, event: StatementEvent) -> None:
    number = event.statement.number
    tell(
        [
            News(
                person_id=person.pk,
                kind=kind,
                subject=f"statement:{number}",
                title=title,
                text=event.text,
                path=f"/finance/statements/{number}/",
                key=f"statement:{number}:{event.pk}",
            )
            for person in people
        ],
        now=event.at,
    )


def _team(statement: Statement) -> Team | None:
    key = statement.account.removeprefix("team:")
    return Team.objects.filter(pk=int(key)).first() if key.isdecimal() else None


def _said(text: str) -> str:
    if not text.strip() or len(text.strip()) > _MOST:
        raise Invalid(f"Say it in 1 to {_MOST} characters.", field="text")
    return text.strip()


def _written(
    actor: User, statement: Statement, step: StatementStep, text: str, now: datetime | None
) -> StatementEvent:
    event = StatementEvent.objects.create(
        statement=statement, step=step, at=now or timezone.now(), by=actor, text=text
    )
    about = Subject("statement", str(statement.number), f"statement {statement.number}")
    after, team = {"account": statement.account}, _team(statement)
    giver = None
    if team is not None and step == StatementStep.DISPUTED:
        giver = on_behalf_of(actor, "manage_team", team)
    record(actor, f"statement.{step}", about, after=after, on_behalf_of=giver, reason=text)
    return event
