"""Devices: they are many and change rarely, so they are made anew only if some value differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from django.db.models import QuerySet

from accounts.statements import AskedOnce
from scheduler.engine.snapshot import ISOLATIONS, NONE, Devices, flags, ints
from scheduler.loop.loading.cluster.parts import Parts
from scheduler.loop.loading.columns import ModelRows, columns_of
from scheduler.loop.loading.texts import as_text, rows_of
from scheduler.models import Device
from scheduler.states import DeviceHealth

_FIELDS = (
    "pk",
    "node_id",
    "index",
    "model",
    "link_group",
    "health",
    "memory_mib",
    "parent_id",
    "milli",
    "isolation",
)
# A whole card is kept apart by being one.
_ISOLATION_ROW = {"": len(ISOLATIONS) - 1, "timeslice": 0, "mps": 1, "mig": 2}
_COLUMNS = (
    "node",
    "index",
    "id",
    "model",
    "link_group",
    "wide_group",
    "is_healthy",
    "memory_mib",
    "card",
    "isolation",
)


@dataclass(frozen=True, slots=True, eq=False)
class _Made:
    """Columns in which nobody holds anything, the models in the order met, and parts of cards."""

    devices: Devices
    models: tuple[str, ...]
    parts: Parts


@dataclass(slots=True)
class DeviceMemory:
    """What the devices were made of last, and what was made of that."""

    _from: tuple[str | None, Mapping[int, str], Mapping[int, int], str | None] | None = None
    _made: _Made | None = None
    _gone: frozenset[int] = frozenset()

    def load(
        self, node_row: Mapping[int, int], holder: Mapping[int, int]
    ) -> tuple[Devices, ModelRows, Parts]:
        """Present devices, sorted by node row and index; a card in parts counts by its parts.

        `holder`: the row of who holds it, by device id. What is gone while somebody holds it is
        there, out of order: limits count it as well. Two queries, two more while anything is.
        """
        self._gone = frozenset(pk for pk in self._gone if pk in holder)
        made = self._load(node_row)
        held = ints([holder.get(pk, NONE) for pk in made.devices.id.tolist()])
        if np.count_nonzero(held != NONE) < len(holder):
            self._gone |= holder.keys() - set(made.devices.id.tolist())
            made = self._load(node_row)
            held = ints([holder.get(pk, NONE) for pk in made.devices.id.tolist()])
        return replace(made.devices, holder=held), ModelRows(made.models), made.parts

    def _load(self, node_row: Mapping[int, int]) -> _Made:
        cards, gone = dict(PARTS.read()), None
        if self._gone:
            away = Device.objects.filter(pk__in=self._gone)
            cards |= dict(away.filter(parent__isnull=False).values_list("pk", "parent__model"))
            gone = as_text(away, _FIELDS).get()[0]
        source = DEVICES.read()[0][0], cards, dict(node_row), gone
        if self._made is None or source != self._from:
            self._from, self._made = source, _make(*source)
        return self._made


def _present() -> QuerySet[Device]:
    return Device.objects.filter(is_present=True, in_service=True)


def _parts() -> QuerySet[Device, tuple[Any, ...]]:
    parts = _present().filter(parent__isnull=False).order_by()
    return parts.values_list("pk", "parent__model")


def _devices() -> QuerySet[Device, tuple[str | None]]:
    return as_text(_present(), _FIELDS)


DEVICES, PARTS = AskedOnce(_devices), AskedOnce(_parts)


def _make(
    text: str | None, cards: Mapping[int, str], node_row: Mapping[int, int], gone: str | None
) -> _Made:
    """`cards`: the model of the card by each device that is a part of one; `gone`: devices that
    are not there any more."""
    models, parts = ModelRows(), Parts()
    here = rows_of(text)
    known = {row[0] for row in here} if gone else set()
    here += [_out_of_order(row) for row in rows_of(gone) if row[0] not in known]
    rows = [row for row in here if row[1] in node_row]
    # Models and link groups are numbered as they are met, node by node.
    rows.sort(key=lambda row: row[1:3])
    columns = columns_of(sorted(_values(rows, cards, node_row, models, parts)), _COLUMNS)
    size = len(columns["id"])
    devices = Devices.of(
        **{name: ints(columns[name]) for name in _COLUMNS if name not in ("index", "is_healthy")},
        is_healthy=flags(columns["is_healthy"]),
        holder=ints([NONE] * size),
        # A card that is shared is in parts, each a device of its own.
        is_shareable=flags([False] * size),
    )
    return _Made(devices, models.names(), parts)


def _out_of_order(row: Sequence[Any]) -> list[Any]:
    health = _FIELDS.index("health")
    return [*row[:health], "", *row[health + 1 :]]


def _values(
    rows: Sequence[Sequence[Any]],
    cards: Mapping[int, str],
    node_row: Mapping[int, int],
    models: ModelRows,
    parts: Parts,
) -> Iterator[tuple[Any, ...]]:
    """Of each device the values of `_COLUMNS`."""
    groups: dict[tuple[int, str], int] = {}
    wide: dict[tuple[int, str], int] = {}
    numbers: dict[int, int] = {}
    for pk, node, index, model, link_group, health, memory_mib, parent, milli, apart in rows:
        parts.add(model, cards.get(pk), milli)
        row = node_row[node]
        yield (
            row,
            index,
            pk,
            models.of(model),
            groups.setdefault((row, link_group), len(groups)),
            _wide_group(wide, row, link_group),
            health == DeviceHealth.HEALTHY,
            memory_mib,
            NONE if parent is None else numbers.setdefault(parent, len(numbers)),
            _ISOLATION_ROW[apart],
        )


def _wide_group(wide: dict[tuple[int, str], int], row: int, link_group: str) -> int:
    """A path such as `numa-0/pcie-2` says that its group is one of several on that NUMA node."""
    outer = link_group.partition("/")[0]
    return wide.setdefault((row, outer), len(wide)) if outer.startswith("numa-") else NONE
