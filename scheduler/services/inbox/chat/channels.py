"""Setting up channels of chats: a person's own, and a team's by who manages it.

Nobody reads an address again: it is sealed, and pages, answers and the audit say its host.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import models, transaction
from django.utils import timezone

from accounts.models import Team, User
from accounts.permissions import can, managed_for
from accounts.services.audit import record
from scheduler.models import Dialect, WaitingNews, Webhook
from scheduler.services.errors import Conflict, Forbidden, Invalid
from scheduler.services.inbox.chat.addresses import (
    address_of,
    problem_of_chat,
    sealed_address,
    shown_part,
)
from scheduler.services.inbox.taking_up import since_now
from scheduler.services.secrets.cipher import Unsealable
from scheduler.states import TEAM_KINDS, NoticeKind

MOST_OWN, MOST_OF_A_TEAM = 5, 10
_MOST_NAME = 60
CHATS = (Dialect.SLACK, Dialect.TEAMS)


@transaction.atomic
def add_channel(
    *,
    actor: User,
    url: str,
    dialect: str,
    name: str = "",
    kinds: Sequence[str] = (),
    team: Team | None = None,
    now: datetime | None = None,
) -> Webhook:
    """The actor's own channel, or the team's. Raises Forbidden, Invalid, Conflict.

    No kinds: all that the actor is told, or all that everybody in the team may read. What is told
    from now on is sent; nothing of before.
    """
    check_may(actor, team)
    now = now or timezone.now()
    url, clean = url.strip(), _clean_name(name)
    if dialect not in CHATS:
        raise Invalid(f"Choose from {', '.join(CHATS)}.", field="dialect")
    if problem := problem_of_chat(url):
        raise Invalid(problem, field="url")
    _check_kinds(kinds, team)
    _check_others(actor, team, url)
    row = Webhook.objects.create(
        url=shown_part(url),
        dialect=dialect,
        name=clean,
        person=None if team else actor,
        team=team,
        kinds=sorted(set(kinds)),
        sealed=b"",
        since=since_now(now),
        created_by=actor,
        created_at=now,
    )
    row.sealed = sealed_address(url, row)
    row.save(update_fields=["sealed"])
    after = {"host": row.host, "kinds": row.kinds, "name": clean}
    _note(actor, "add", row, after=after, now=now)
    return row


@transaction.atomic
def change_channel(
    *,
    actor: User,
    channel: Webhook,
    name: str | None = None,
    kinds: Sequence[str] | None = None,
    is_paused: bool | None = None,
    now: datetime | None = None,
) -> Webhook:
    """Another name, other news from now on, a pause or its end; None leaves it as it is.

    What is told during a pause is not sent later; its end ends the rest that the address asked for
    as well. Raises Forbidden, Invalid.
    """
    check_may(actor, channel.team)
    now = now or timezone.now()
    row = Webhook.objects.select_for_update().get(pk=channel.pk)
    before: dict[str, object] = {}
    if name is not None and _clean_name(name) != row.name:
        before["name"], row.name = row.name, _clean_name(name)
    if kinds is not None and sorted(set(kinds)) != row.kinds:
        _check_kinds(kinds, channel.team)
        before["kinds"], row.kinds = row.kinds, sorted(set(kinds))
        row.since = since_now(now)
    if is_paused is not None and is_paused != (row.paused_at is not None):
        before["is_paused"], row.paused_at = not is_paused, now if is_paused else None
        if not is_paused:
            row.since, row.rests_until = since_now(now), None
            # A long pause is no reason to give them up.
            row.deliveries.filter(sent_at=None, given_up_at=None).update(not_before=now)
    if before:
        row.save(update_fields=["name", "kinds", "since", "paused_at", "rests_until"])
        is_now = {"name": row.name, "kinds": row.kinds, "is_paused": row.paused_at is not None}
        after = {field: is_now[field] for field in before}
        _note(actor, "change", row, before=before, after=after, now=now)
    return row


@transaction.atomic
def remove_channel(*, actor: User, channel: Webhook, now: datetime | None = None) -> None:
    """Forget it, its address and what waits for it. Raises Forbidden."""
    check_may(actor, channel.team)
    _note(actor, "remove", channel, before={"host": channel.host, "name": channel.name}, now=now)
    WaitingNews.objects.filter(webhook=channel.pk).delete()
    Webhook.objects.filter(pk=channel.pk).delete()


def check_may(actor: User, team: Team | None) -> None:
    """Raises Forbidden. One's own are found by nobody else."""
    if team is not None and not can(actor, "manage_team", team):
        raise Forbidden("Only a lead of the team sets up its channels.")


def _check_others(actor: User, team: Team | None, url: str) -> None:
    """Raises Conflict. One at a time for each owner, so that their number and addresses are looked
    at in turn."""
    owners: type[models.Model] = Team if team else User
    owner = owners._default_manager.filter(pk=team.pk if team else actor.pk)
    owner.select_for_update(no_key=True).get()
    mine = Webhook.objects.filter(team=team) if team else Webhook.objects.filter(person=actor)
    most, others = MOST_OF_A_TEAM if team else MOST_OWN, list(mine)
    if len(others) >= most:
        raise Conflict(f"There are {most} channels already; remove one first.")
    if any(_is_at(one, url) for one in others):
        raise Conflict("This address is told already.", field="url")


def _note(actor: User, verb: str, row: Webhook, **more: object) -> None:
    behalf = managed_for(actor, row.team) if row.team else None
    record(actor, f"channel.{verb}", row, on_behalf_of=behalf, **more)  # type: ignore[arg-type]


def _clean_name(name: str) -> str:
    clean = " ".join(name.split())
    if len(clean) > _MOST_NAME or not clean.isprintable():
        raise Invalid(f"Write at most {_MOST_NAME} printable characters.", field="name")
    return clean


def _check_kinds(kinds: Sequence[str], team: Team | None) -> None:
    offered = TEAM_KINDS if team else frozenset(NoticeKind)
    unknown = sorted(set(kinds) - offered)
    if unknown and unknown[0] in set(NoticeKind):
        raise Invalid(
            f"Not everybody in the team may read news of kind {unknown[0]!r}; a team's channel "
            f"takes {', '.join(sorted(offered))}.",
            field="kinds",
        )
    if unknown:
        raise Invalid(f"There is no news of kind {unknown[0]!r}.", field="kinds")


def _is_at(channel: Webhook, url: str) -> bool:
    try:
        return address_of(channel) == url
    except Unsealable:
        return False
