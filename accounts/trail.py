"""Reads of the audit, for a viewer: who may see which events, searched and paged by key.

Auditors and administrators see all of it; operators what concerns the cluster; leads what concerns
their teams. Nobody else sees any of it, and only the first see addresses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db.models import Q, QuerySet

from accounts.errors import Forbidden, Invalid
from accounts.models import AuditEvent, AuditHead, AuditSeal, User
from accounts.permissions import can, teams_visible_to

_CHUNK = 2_000
# Beyond so many it does not matter how many wait for a seal.
MOST_COUNTED = 10_000
_TEXT_IN = ("subject_label", "reason", "before", "after", "action", "request_id")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to look for; empty parts ask for nothing. Times are `since` <= at < `until`.

    `action` is a whole one (`team.rename`) or a noun (`team`), `actions` are whole ones of which
    any will do; `object` is `kind`, `kind:id` or part of a name.
    """

    actor: str = ""
    action: str = ""
    object: str = ""
    text: str = ""
    since: datetime | None = None
    until: datetime | None = None
    actions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Key:
    """An event's place: pages go on behind it."""

    at: datetime
    id: int

    @classmethod
    def parse(cls, text: str) -> Key:
        """From `str(key)`; raises Invalid."""
        at, _, pk = text.rpartition("_")
        try:
            moment = datetime.fromisoformat(at)
            if moment.tzinfo is None or not 0 <= int(pk) < 2**63:
                raise ValueError
            # At the edges of the calendar a moment may have no place in UTC.
            return cls(moment.astimezone(UTC), int(pk))
        except (ValueError, OverflowError):
            raise Invalid(
                "This is no place in the list; start at its top.", field="after"
            ) from None

    def __str__(self) -> str:
        return f"{self.at.isoformat()}_{self.id}"


@dataclass(frozen=True, slots=True)
class SealState:
    """How far the chain reaches; `waiting` events, MOST_COUNTED at most, wait since `since`."""

    seals: int
    head: str
    sealed_at: datetime | None
    until_id: int
    waiting: int
    since: datetime | None


def may_read(viewer: User) -> bool:
    """Whether there is anything in the audit for this viewer."""
    return _scope(viewer) is not None


def sees_addresses(viewer: User) -> bool:
    """Whether the viewer may see from which address a change came."""
    return can(viewer, "read_audit", None)


def events_for(viewer: User, wanted: Wanted) -> QuerySet[AuditEvent]:
    """The events the viewer may see and asks for, newest first; raises Forbidden."""
    scope = _scope(viewer)
    if scope is None:
        raise Forbidden("The audit is for auditors, administrators, operators and leads of teams.")
    return AuditEvent.objects.filter(scope & _matching(wanted)).order_by("-at", "-id")


def page_of_events(
    viewer: User,
    wanted: Wanted,
    *,
    after: Key | None = None,
    size: int = 50,
    oldest_first: bool = False,
) -> tuple[list[AuditEvent], Key | None]:
    """One page behind `after` and the key of the next one; one statement, however long the list."""
    events, side = events_for(viewer, wanted), "lt"
    if oldest_first:
        events, side = events.order_by("at", "id"), "gt"
    if after is not None:
        later = Q(**{f"at__{side}": after.at})
        behind = later | Q(**{"at": after.at, f"pk__{side}": after.id})
        events = events.filter(behind, **{f"at__{side}e": after.at})
    found = list(events[: size + 1])
    more = len(found) > size
    found = found[:size]
    return found, Key(found[-1].at, found[-1].pk) if more else None


def each_event(viewer: User, wanted: Wanted, *, oldest_first: bool = False) -> Iterator[AuditEvent]:
    """All of them, for an export, page by page: memory does not grow with their number."""
    after: Key | None = None
    while True:
        page, after = page_of_events(
            viewer, wanted, after=after, size=_CHUNK, oldest_first=oldest_first
        )
        yield from page
        if after is None:
            return


def seal_state() -> SealState:
    """How far the chain reaches; two statements."""
    head = AuditHead.objects.filter(pk=1).first()
    until_id = head.until_id if head else 0
    waiting = AuditEvent.objects.filter(pk__gt=until_id).order_by("pk")
    oldest = waiting.values_list("at", flat=True).first()
    last = AuditSeal.objects.filter(number=head.number).only("sealed_at").first() if head else None
    return SealState(
        seals=head.number if head else 0,
        head=head.hash if head and head.number else "",
        sealed_at=last.sealed_at if last else None,
        until_id=until_id,
        waiting=waiting[:MOST_COUNTED].count() if oldest else 0,
        since=oldest,
    )


def unsealed_events() -> int:
    """How many events no seal covers yet."""
    return seal_state().waiting


def _scope(viewer: User) -> Q | None:
    """What the viewer may see; None for nothing at all."""
    if can(viewer, "read_audit", None):
        return Q()
    teams = list(teams_visible_to(viewer, "manage_team").values_list("pk", flat=True))
    scope = Q(pk__in=())
    if can(viewer, "operate", None):
        scope = Q(area="cluster")
    elif not teams:
        return None
    return scope | Q(team__in=teams) if teams else scope


def _matching(wanted: Wanted) -> Q:
    found = Q()
    if wanted.actor:
        found &= Q(actor_name=wanted.actor) | Q(on_behalf_of_name=wanted.actor)
    if wanted.action:
        found &= (
            Q(action=wanted.action)
            if "." in wanted.action
            else Q(action__startswith=f"{wanted.action}.")
        )
    if wanted.actions:
        found &= Q(action__in=wanted.actions)
    if wanted.object:
        kind, colon, pk = wanted.object.partition(":")
        found &= (
            Q(subject_kind=kind, subject_id=pk)
            if colon
            else Q(subject_kind=wanted.object) | Q(subject_label__icontains=wanted.object)
        )
    if wanted.text:
        anywhere = Q()
        for field in _TEXT_IN:
            anywhere |= Q(**{f"{field}__icontains": wanted.text})
        found &= anywhere
    if wanted.since:
        found &= Q(at__gte=wanted.since)
    if wanted.until:
        found &= Q(at__lt=wanted.until)
    return found
