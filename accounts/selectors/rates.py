"""Reads of rate cards: what a GPU-hour costs a team at a moment, and who may see which price."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from django.db.models import Q, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from accounts.errors import NotFound
from accounts.models import Rate, RateCard, RateDecision, RateKind, Team, User
from accounts.permissions import can, teams_visible_to
from accounts.statements import AskedOnce
from accounts.trees import ways_up

_LIST = 0
# What was decided by nobody, as a price of a first set-up, was as it was made.
DECIDED = Coalesce("decided_at", "created_at")


class RateTable:
    """General prices in memory, one query for any number of look-ups.

    A team's own card goes first, then that of the team above, then the list. Within a card the
    model's own price goes before the fallback's; of what holds then, the higher priority, the later
    begin, the later decision: `rates` come in the order in which they were decided.
    `scheduler.ledger.rating.PriceList` decides the same for the books.
    """

    def __init__(self, rates: Iterable[Rate], cards: dict[int, int] | None = None) -> None:
        self._team_of = cards or {}
        self._ways: dict[int, tuple[int, ...]] | None = None
        self._by_key: dict[tuple[int, str], list[Rate]] = {}
        for rate in sorted(rates, key=lambda rate: (rate.priority, rate.valid_from)):
            key = (self._team_of.get(rate.card_id or 0, _LIST), rate.device_model)
            self._by_key.setdefault(key, []).append(rate)
        self.teams = frozenset(team for team, _ in self._by_key if team != _LIST)

    def _owners(self, team: int | None) -> Iterable[int]:
        """Whose cards count for a team: its own, those above it, the list."""
        if not self.teams or team is None:
            return (_LIST,)
        if self._ways is None:
            self._ways = ways_up()
        return (team, *self._ways.get(team, ()), _LIST)

    def _keys(self, model: str, team: int | None) -> Iterable[tuple[int, str]]:
        return [(owner, name) for owner in self._owners(team) for name in (model, "")]

    def at(self, model: str, moment: datetime, team: int | None = None) -> Rate | None:
        """The general price of `model` for a team (its id) at `moment`; None where there is none.

        Without a team: the list's.
        """
        for key in self._keys(model, team):
            for rate in reversed(self._by_key.get(key, ())):
                if _holds(rate, moment):
                    return rate
        return None

    def dearest(
        self, model: str, start: datetime, end: datetime, team: int | None = None
    ) -> Rate | None:
        """The highest price of `model` in `[start, end)`, as known now; None if it has none yet."""
        if self.at(model, start, team) is None:
            return None
        changes = {
            moment
            for key in self._keys(model, team)
            for rate in self._by_key.get(key, ())
            for moment in (rate.valid_from, rate.valid_until)
            if moment is not None and start < moment < end
        }
        found = [rate for moment in (start, *changes) if (rate := self.at(model, moment, team))]
        return max(found, key=lambda rate: rate.price_per_gpu_hour, default=None)

    def models(self) -> set[str]:
        """Every model that has a price of its own on some card, and the fallback's empty name."""
        return {model for _, model in self._by_key}


def _holds(rate: Rate, moment: datetime) -> bool:
    return rate.valid_from <= moment and (rate.valid_until is None or moment < rate.valid_until)


def rates_over(models: Iterable[str]) -> RateTable:
    """All general prices of these models, and the fallback's, over all time, of every card; one
    query."""
    asked = {*models, ""}
    if len(asked) <= 2:
        # As nearly always; its statement is built once.
        return _table(_OF_ONE.read(max(asked)))
    return _table(_of_models(*asked))


def _of_models(*models: str) -> QuerySet[Rate]:
    """Each comes with its card."""
    return general_rates().filter(device_model__in=[*models, ""]).select_related("card")


_OF_ONE = AskedOnce(_of_models)


def _table(rates: Iterable[Rate]) -> RateTable:
    rows = list(rates)
    return RateTable(rows, {r.card.pk: r.card.team_id for r in rows if r.card and r.card.team_id})


def general_rates() -> QuerySet[Rate]:
    """What a device costs by whatever it is held for, in the order in which it was decided; the
    scheduler's own, no page may show it."""
    approved = Rate.objects.filter(kind=RateKind.GENERAL, decision=RateDecision.APPROVED)
    return approved.order_by(DECIDED, "pk")


def list_rates_at(moment: datetime) -> QuerySet[Rate]:
    """The general prices of the list, of no team's card, that hold at `moment`."""
    still = Q(valid_until=None) | Q(valid_until__gt=moment)
    return general_rates().filter(still, card__team=None, valid_from__lte=moment)


def approved_rates() -> QuerySet[Rate]:
    """Every approved price of every kind, in the order in which later ones win."""
    approved = Rate.objects.filter(decision=RateDecision.APPROVED).select_related("card")
    return approved.order_by("valid_from", DECIDED, "pk")


def proposed_rates(viewer: User) -> QuerySet[Rate]:
    """Prices that wait for a second person; for those who keep or audit the books."""
    if not can(viewer, "read_books", None):
        return Rate.objects.none()
    return (
        Rate.objects.filter(decision=RateDecision.PROPOSED)
        .exclude(card__decision=RateDecision.PROPOSED)
        .select_related("proposed_by", "card__team")
        .order_by("pk")
    )


def proposed_and_decided(viewer: User) -> tuple[list[Rate], list[Rate]]:
    """As `proposed_rates`, and every price ever decided on by model and kind, the latest first."""
    if not can(viewer, "read_books", None):
        return [], []
    decided = Rate.objects.filter(decision__in=(RateDecision.APPROVED, RateDecision.DECLINED))
    latest = decided.order_by("device_model", "kind", "-valid_from", "-pk").values("pk")[:500]
    waiting = proposed_rates(viewer).order_by().values("pk")
    rows = list(
        Rate.objects.filter(Q(pk__in=latest) | Q(pk__in=waiting))
        .select_related("proposed_by", "decided_by", "card__team")
        .order_by("device_model", "kind", "-valid_from", "-pk")
    )
    proposed = [rate for rate in rows if rate.decision == RateDecision.PROPOSED]
    history = [rate for rate in rows if rate.decision != RateDecision.PROPOSED]
    return sorted(proposed, key=lambda rate: rate.pk), history


def get_proposed_rate(viewer: User, pk: int) -> Rate:
    """A price the viewer may decide on; decided ones are found too and refused by the service."""
    if not can(viewer, "keep_books", None):
        raise NotFound()
    found = Rate.objects.filter(pk=pk, proposed_by__isnull=False).first()
    if found is None:
        raise NotFound("There is no such proposal.")
    return found


def get_rate(viewer: User, pk: int) -> Rate:
    """An approved price the viewer may end. Raises NotFound."""
    if not can(viewer, "keep_books", None):
        raise NotFound()
    rates = Rate.objects.filter(pk=pk, decision=RateDecision.APPROVED)
    found = rates.select_related("card__team").first()
    if found is None:
        raise NotFound("There is no such price.")
    return found


def rate_cards(viewer: User) -> QuerySet[RateCard]:
    """The list and the cards of teams, the list first: all for who reads the books, else approved
    ones of the teams whose costs the viewer may see."""
    cards = RateCard.objects.select_related("team", "proposed_by").order_by("team__slug", "pk")
    if can(viewer, "read_books", None):
        return cards
    mine = Q(team=None) | Q(team__in=teams_visible_to(viewer, "view_costs"))
    return cards.filter(mine, decision=RateDecision.APPROVED)


def get_rate_card(viewer: User, pk: int) -> RateCard:
    """Raises NotFound for a missing and for a foreign card alike."""
    found = rate_cards(viewer).filter(pk=pk).first()
    if found is None:
        raise NotFound("There is no such rate card for you.")
    return found


def get_card_to_change(viewer: User, pk: int) -> RateCard:
    """A card, for those who keep the books; for others it is missing. Raises NotFound."""
    if not can(viewer, "keep_books", None):
        raise NotFound("There is no such rate card for you.")
    return get_rate_card(viewer, pk)


def get_priced_team(viewer: User, slug: str) -> Team:
    """A team whose prices the viewer may see: who reads the books, or sees its costs. Raises
    NotFound for others."""
    teams = Team.objects.all()
    if not can(viewer, "read_books", None):
        teams = teams_visible_to(viewer, "view_costs")
    found = teams.filter(slug=slug).first()
    if found is None:
        raise NotFound("There is no such team for you.")
    return found


def rates_of_cards(viewer: User, cards: Collection[RateCard]) -> dict[int, list[Rate]]:
    """The rates of cards the viewer may see, by card: all to come and in force, and for who reads
    the books drafts and proposals too. One query."""
    rates = Rate.objects.filter(card__in=cards).exclude(decision=RateDecision.DECLINED)
    if not can(viewer, "read_books", None):
        rates = rates.filter(decision=RateDecision.APPROVED)
    found: dict[int, list[Rate]] = {card.pk: [] for card in cards}
    for rate in rates.order_by("device_model", "kind", "-priority", "valid_from", "pk"):
        found[rate.card_id or 0].append(rate)
    return found


def rate_at(device_model: str, at: datetime, team: Team | None = None) -> Rate | None:
    """One price; for many use `rates_over`."""
    return rates_over([device_model]).at(device_model, at, team.pk if team else None)


def prices_in_force(*, now: datetime) -> list[Rate]:
    """The list's price of each model now, for each kind of time that has one; one query."""
    still = Q(valid_until=None) | Q(valid_until__gt=now)
    found: dict[tuple[str, str], Rate] = {}
    for rate in approved_rates().filter(still, card__team=None, valid_from__lte=now):
        key = (rate.device_model, rate.kind)
        # They come as later ones win; what goes before others wins over them all.
        if key not in found or rate.priority >= found[key].priority:
            found[key] = rate
    kinds = list(RateKind.values)
    return sorted(found.values(), key=lambda rate: (rate.device_model, kinds.index(rate.kind)))


def current_rates(*, now: datetime | None = None, team: Team | None = None) -> list[Rate]:
    """The price of each model now, on the list or for a team; the list's are no secret."""
    moment = now or timezone.now()
    table = _table(general_rates().select_related("card"))
    pk = team.pk if team else None
    found = (table.at(model, moment, pk) for model in sorted(table.models()))
    return list(dict.fromkeys(rate for rate in found if rate is not None))
