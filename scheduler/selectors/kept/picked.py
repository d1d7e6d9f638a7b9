"""Of readings by the hundred thousand those of a few moments, found without reading the others."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import models
from django.db.models import BigIntegerField, DateTimeField, Expression, QuerySet

from scheduler.models import Device, Node

_DEVICE, _MOMENT = "device_", "moment_"


class _Column(Expression):
    """A column of what the rows are picked for."""

    def __init__(self, named: str, field: models.Field[Any, Any]) -> None:
        super().__init__(output_field=field)
        self.named = named

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        return self.named, []


class Picked(Expression):
    """The keys of, for each device and each moment, the newest of the rows that is not newer.

    For `pk__in`; nodes stand for devices where rows are `by` them. Equals going through all rows of
    the devices and keeping those, but for each takes one step down the index that begins with the
    device and ends with the time. `rows` needs a lower bound, so that no step leads into what is
    not wanted.
    """

    def __init__(
        self,
        rows: QuerySet[Any],
        devices: QuerySet[Device] | QuerySet[Node],
        moments: Sequence[datetime],
        *,
        at: str = "at",
        by: str = "device_id",
    ) -> None:
        super().__init__(output_field=BigIntegerField())
        device = _Column(f"{_DEVICE}.id", BigIntegerField())
        moment = _Column(f"{_MOMENT}.value", DateTimeField())
        wanted = rows.filter(**{by: device, f"{at}__lte": moment})
        self.newest = wanted.order_by(f"-{at}").values("pk")[:1]
        self.devices = devices.order_by().values("id")
        self.moments = moments

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        """The moments as a JSON list, as the database writes times."""
        adapt = connection.ops.adapt_datetimefield_value
        text = json.dumps([adapt(moment) for moment in self.moments])
        return self._asked(connection, f"json_each(%s) AS {_MOMENT}", text)

    def as_postgresql(self, compiler: Any, connection: Any) -> tuple[str, list[Any]]:
        """The moments as an array."""
        listed = f"unnest(%s::timestamptz[]) AS {_MOMENT}(value)"
        return self._asked(connection, listed, list(self.moments))

    def _asked(self, connection: Any, moments: str, given: Any) -> tuple[str, list[Any]]:
        newest, of_newest = self._statement(self.newest, connection)
        devices, of_devices = self._statement(self.devices, connection)
        sql = f"(SELECT ({newest}) FROM ({devices}) AS {_DEVICE}, {moments})"  # noqa: S608 - our own statements
        return sql, [*of_newest, *of_devices, given]

    @staticmethod
    def _statement(query: QuerySet[Any, Any], connection: Any) -> tuple[str, list[Any]]:
        sql, params = query.query.get_compiler(connection=connection).as_sql()
        return sql, list(params)


def moments_between(since: datetime, until: datetime, most: int) -> list[datetime]:
    """So many at even distances, the last one `until`."""
    step = max((until - since) / most, timedelta(microseconds=1))
    return [until - back * step for back in reversed(range(most))]
