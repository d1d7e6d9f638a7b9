"""What prices and rate cards look like over REST."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from accounts.models import Rate
from portal.api.parts import Part
from portal.api.v1.finance.countings import CountingShape


class RateShape(serializers.Serializer[Any]):
    """A price; the empty model is the fallback for devices without one of their own.

    It holds until right before `valid_until`; where several hold, the higher `priority` counts.
    """

    id = serializers.IntegerField()
    device_model = serializers.CharField(allow_blank=True)
    price_per_gpu_hour = serializers.DecimalField(max_digits=18, decimal_places=6)
    currency = serializers.CharField()
    valid_from = serializers.DateTimeField()
    valid_until = serializers.DateTimeField(allow_null=True)
    priority = serializers.IntegerField()
    decision = serializers.CharField()


class MoveShape(serializers.Serializer[Any]):
    """A month's use of an account: in the books, with the price, and the difference."""

    month = serializers.CharField()
    account = serializers.CharField()
    name = serializers.CharField()
    before = serializers.CharField()
    after = serializers.CharField()
    change = serializers.CharField()


class PreviewShape(serializers.Serializer[Any]):
    """What would change, exact amounts; `trouble`: why it could not be counted."""

    at = serializers.DateTimeField()
    currency = serializers.CharField()
    trouble = serializers.CharField(allow_blank=True)
    moves = MoveShape(many=True)


class ProposedRate(RateShape):
    """A price that waits for a second person; `id` names it in the decision.

    Of one for the past, `preview`: what was last found that it moves; `counting`: that it is being
    counted, or has been within a day.
    """

    kind = serializers.CharField(allow_blank=True)
    card = serializers.IntegerField(source="card_id", allow_null=True)
    reason = serializers.CharField(allow_blank=True)
    proposed_by = serializers.CharField(source="proposed_by.username", allow_null=True)
    preview = serializers.SerializerMethodField()
    counting = serializers.SerializerMethodField()

    @extend_schema_field(PreviewShape(allow_null=True))
    def get_preview(self, rate: Rate) -> dict[str, Any] | None:
        """From the context, where the rates are read."""
        found = self.context.get("previews", {}).get(rate.pk)
        return dict(PreviewShape(found).data) if found else None

    @extend_schema_field(CountingShape(allow_null=True))
    def get_counting(self, rate: Rate) -> dict[str, Any] | None:
        """From the context, where the rates are read."""
        found = self.context.get("countings", {}).get(rate.pk)
        return dict(CountingShape(found).data) if found else None


class ProposedRates(Part):
    """What waits for a second person."""

    items = ProposedRate(many=True)


class Rates(Part):
    """The prices in force now."""

    items = RateShape(many=True)


class RateBody(serializers.Serializer[Any]):
    """A new price, from now on unless `valid_from` says otherwise.

    Where others keep the books too, it is a proposal until one of them approves it.
    """

    device_model = serializers.CharField(max_length=96, allow_blank=True)
    price_per_gpu_hour = serializers.DecimalField(max_digits=18, decimal_places=6)
    currency = serializers.CharField(max_length=3, required=False)
    valid_from = serializers.DateTimeField(required=False)
    valid_until = serializers.DateTimeField(required=False, allow_null=True)
    priority = serializers.IntegerField(required=False, min_value=-100, max_value=100)


class ProposalBody(RateBody):
    """A price for a second person to approve; for time that has passed with `restate`, and why.

    On the organisation's list, unless the id of a `card` is given.
    """

    card = serializers.IntegerField(required=False, allow_null=True)
    kind = serializers.CharField(max_length=32, required=False, default="", allow_blank=True)
    restate = serializers.BooleanField(required=False, default=False)
    reason = serializers.CharField(max_length=255, required=False, default="", allow_blank=True)


class EndBody(serializers.Serializer[Any]):
    """The moment from which on it holds no more; when it is approved unless it is given."""

    valid_until = serializers.DateTimeField(required=False)


class EndingShape(serializers.Serializer[Any]):
    """The end of one price (`rate`) or of a team's `card`, which a second person approves.

    `ends_at` null: when it is approved. `outcome`: who pays by what from then on, in words.
    """

    id = serializers.IntegerField()
    rate = serializers.IntegerField(source="rate_id", allow_null=True)
    card = serializers.IntegerField(source="card_id", allow_null=True)
    ends_at = serializers.DateTimeField(allow_null=True)
    outcome = serializers.CharField(allow_blank=True)
    decision = serializers.CharField()
    proposed_by = serializers.CharField(
        source="proposed_by.username", default=None, allow_null=True
    )
    decided_by = serializers.CharField(source="decided_by.username", default=None, allow_null=True)


class Endings(Part):
    """Ends that wait for a second person."""

    items = EndingShape(many=True)


class CardRate(RateShape):
    """A price on a card."""

    kind = serializers.CharField(allow_blank=True)


class CardShape(serializers.Serializer[Any]):
    """A rate card: the organisation's list (no team), or a team's own. `rates` only in lists."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    team = serializers.CharField(source="team.slug", allow_null=True, default=None)
    currency = serializers.CharField()
    decision = serializers.CharField()
    valid_from = serializers.DateTimeField(allow_null=True)
    valid_until = serializers.DateTimeField(allow_null=True)


class CardWithRates(CardShape):
    """A card and what is on it."""

    rates = CardRate(many=True)


class Cards(Part):
    """The list, and the cards of teams whose costs you may see; who reads the books sees all."""

    items = CardWithRates(many=True)


class CardBody(serializers.Serializer[Any]):
    """A team's own card, in `[valid_from, valid_until)`; teams below inherit it."""

    name = serializers.CharField(max_length=64)
    team = serializers.CharField(max_length=63)
    valid_from = serializers.DateTimeField(required=False, allow_null=True)
    valid_until = serializers.DateTimeField(required=False, allow_null=True)
