"""What is paid once prices end, and which ends are proposed."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.db.models import Q, QuerySet

from accounts.errors import NotFound
from accounts.models import Rate, RateCard, RateDecision, RateEnding, RateKind, Team, User
from accounts.permissions import can
from accounts.trees import ways_up

_MOST_NAMED = 10
# What the general price is for as well; shares and idle reserves need one of their own.
_HELD = frozenset({RateKind.BORROWED, RateKind.OVERHEAD, RateKind.UNREACHABLE})


def proposed_endings(viewer: User) -> QuerySet[RateEnding]:
    """Ends that wait for a second person; for those who keep or audit the books."""
    rows = RateEnding.objects.filter(decision=RateDecision.PROPOSED)
    if not can(viewer, "read_books", None):
        return rows.none()
    return rows.select_related("rate__card__team", "card__team", "proposed_by", "decided_by")


def get_ending(viewer: User, pk: int) -> RateEnding:
    """One that the viewer may decide on; decided ones are found too and refused by the service."""
    found = None
    if can(viewer, "keep_books", None):
        found = RateEnding.objects.filter(pk=pk).first()
    if found is None:
        raise NotFound("There is no such proposal.")
    return found


def paid_after(card: RateCard | None, ended: Collection[Rate], until: datetime) -> str:
    """Who pays by which card from `until` on, for what the ended rates priced, in words.

    What nothing prices then is named as such: a month with such time cannot be closed.
    """
    if not ended:
        return ""
    alive = (
        Rate.objects.filter(decision=RateDecision.APPROVED, valid_from__lte=until)
        .filter(Q(valid_until=None) | Q(valid_until__gt=until))
        .exclude(pk__in=[rate.pk for rate in ended])
        .select_related("card__team")
    )
    by_team: dict[int | None, list[Rate]] = {}
    for rate in alive:
        by_team.setdefault(rate.card.team_id if rate.card else None, []).append(rate)
    team, ways = card.team if card else None, ways_up()
    way = [team.pk, *ways.get(team.pk, ())] if team else []
    falls: dict[str, list[str]] = {}
    for model, kind in sorted({(rate.device_model, rate.kind) for rate in ended}):
        after = next(
            (
                rate
                for owner in (*way, None)
                for rate in by_team.get(owner, ())
                if rate.device_model in ("", model) and _covers(rate.kind, kind)
            ),
            None,
        )
        what = f"{model or 'any other model'} ({RateKind(kind).label})"
        falls.setdefault(_name(after), []).append(what)
    who = _who(team, ways, by_team) if team else "Everybody without a card of their own"
    return " ".join(
        f"{who} then pays by {by}: {_listed(what)}."
        if by
        else f"Nothing then prices {_listed(what)}: months with such time cannot be closed before "
        "there is another price."
        for by, what in sorted(falls.items(), reverse=True)
    )


def _covers(one: str, kind: str) -> bool:
    """Whether a price of one kind prices another: the general one only what a job holds."""
    return one == kind or (one == RateKind.GENERAL and kind in _HELD)


def _name(rate: Rate | None) -> str:
    if rate is None:
        return ""
    if rate.card is None or rate.card.team is None:
        return "the list"
    return f"the card {rate.card.name} of {rate.card.team.slug}"


def _who(
    team: Team, ways: dict[int, tuple[int, ...]], by_team: dict[int | None, list[Rate]]
) -> str:
    """The team, and those below it that have no nearer card with prices at that moment."""
    heirs = {
        pk
        for pk, above in ways.items()
        if team.pk in above
        and not any(one in by_team for one in (pk, *above[: above.index(team.pk)]))
    }
    slugs = sorted(Team.objects.filter(pk__in=heirs).values_list("slug", flat=True))
    return f"Team {team.slug}" + (f", with {_listed(slugs)} below it," if slugs else "")


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
