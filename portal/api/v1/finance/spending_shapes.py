"""Shapes of assets, costs and their recovery."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from portal.api.parts import Part

_AMOUNT: dict[str, Any] = {"max_digits": 38, "decimal_places": 15}
_MONEY: dict[str, Any] = {"max_digits": 19, "decimal_places": 6}


class _Decided(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    pool = serializers.CharField(source="pool.name")
    decision = serializers.CharField()
    proposed_by = serializers.CharField(
        source="proposed_by.username", default=None, allow_null=True
    )
    decided_by = serializers.CharField(source="decided_by.username", default=None, allow_null=True)


class AssetShape(_Decided):
    """Written off in a straight line by the day; `cost` and `residual` in the books' currency.

    `retire_on` is proposed; `retired_on` is what two people agreed on.
    """

    name = serializers.CharField()
    cost = serializers.DecimalField(**_AMOUNT)
    residual = serializers.DecimalField(**_AMOUNT)
    currency = serializers.CharField()
    paid = serializers.DecimalField(**_AMOUNT)
    paid_currency = serializers.CharField()
    fx_rate = serializers.DecimalField(**_AMOUNT)
    fx_source = serializers.CharField()
    since = serializers.DateField()
    months = serializers.IntegerField()
    retire_on = serializers.DateField(allow_null=True)
    retire_proposed_by = serializers.CharField(
        source="retire_proposed_by.username", default=None, allow_null=True
    )
    retired_on = serializers.DateField(allow_null=True)
    retired_reason = serializers.CharField()


class Assets(Part):
    """The newest first."""

    items = AssetShape(many=True)


class AssetBody(serializers.Serializer[Any]):
    """A purchase. In another currency than the books': the rate of that day and its source."""

    pool = serializers.CharField(max_length=63)
    name = serializers.CharField(max_length=128)
    paid = serializers.DecimalField(**_MONEY)
    paid_currency = serializers.CharField(max_length=3, required=False)
    fx_rate = serializers.DecimalField(**_MONEY, required=False)
    fx_source = serializers.CharField(max_length=128, required=False)
    residual = serializers.DecimalField(**_MONEY, required=False)
    since = serializers.DateField()
    months = serializers.IntegerField()


class RetireBody(serializers.Serializer[Any]):
    """The first day out of service, and why."""

    on = serializers.DateField()
    reason = serializers.CharField(max_length=255)


class CostShape(_Decided):
    """A cost of a pool in a month; booked once it is approved."""

    month = serializers.CharField()
    kind = serializers.CharField()
    amount = serializers.DecimalField(**_AMOUNT)
    currency = serializers.CharField()
    note = serializers.CharField()


class PoolCosts(Part):
    """The newest first."""

    items = CostShape(many=True)


class CostBody(serializers.Serializer[Any]):
    """Energy, staff or another cost; negative to take back."""

    pool = serializers.CharField(max_length=63)
    month = serializers.CharField(max_length=7)
    kind = serializers.CharField(max_length=8)
    amount = serializers.DecimalField(**_MONEY)
    note = serializers.CharField(max_length=255)


class RecoveryShape(serializers.Serializer[Any]):
    """A pool's month: cost, what lines charged, and the difference."""

    pool = serializers.CharField()
    mode = serializers.CharField()
    cost = serializers.DecimalField(**_AMOUNT)
    charged = serializers.DecimalField(**_AMOUNT)
    variance = serializers.DecimalField(**_AMOUNT)
    percent = serializers.DecimalField(max_digits=38, decimal_places=2, allow_null=True)
    run_seconds = serializers.IntegerField()
    effective_rate = serializers.DecimalField(max_digits=38, decimal_places=6, allow_null=True)


class RecoveryRows(Part):
    """By pool."""

    items = RecoveryShape(many=True)


class ChargingBody(serializers.Serializer[Any]):
    """`showback` or `chargeback`."""

    charging = serializers.CharField(max_length=10)


class ChargingShape(serializers.Serializer[Any]):
    """How a month charges."""

    period = serializers.CharField(source="name")
    charging = serializers.CharField()
