"""Parts of cards: which device models are some, and which of them a job may get."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from scheduler.engine.snapshot import NONE, WHOLE_MILLI, Ints, Snapshot, Waiting, ints
from scheduler.loop.loading.columns import ModelRows
from scheduler.spec.values import is_mig_profile


@dataclass(frozen=True, slots=True)
class Part:
    """Devices of one model that are parts: of which model the card is, and how much of it."""

    card: str
    milli: int


@dataclass(slots=True)
class Parts:
    """The models of present devices: parts by name, and whole cards."""

    of: dict[str, Part] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)

    def add(self, model: str, card: str | None, milli: int) -> None:
        """A device of this model is there; `card` is None for a whole one."""
        if card is None:
            self.whole.add(model)
        else:
            self.of[model] = Part(card, milli)

    def name_whole(self, models: ModelRows) -> None:
        """A name for what is not there where every card is in parts; call it before counting."""
        if self.of and not self.whole:
            models.of("a whole card")

    def named(self, name: str) -> list[str]:
        """The models that a name stands for: all MIG instances of a profile, else just itself."""
        if not is_mig_profile(name):
            return [name]
        return sorted(model for model in self.of if model.endswith(f" MIG {name}")) or [name]

    def fitting(self, milli: int, cards: Sequence[str]) -> list[str]:
        """Models with at least so much, in the order of preference of cards, then the smallest.

        `cards`: models of cards or of parts, each will do; none takes any. Never empty: where
        nothing fits, the name says what does not exist.
        """
        found = [
            (rank, part.milli, name)
            for name, part in self.of.items()
            if part.milli >= milli and (rank := _rank(cards, name, part.card)) is not None
        ]
        fit = [name for _, _, name in sorted(found)]
        return fit or [f"{milli / 1000:g} of {' or '.join(cards) or 'any card'}"]


def _rank(cards: Sequence[str], *names: str) -> int | None:
    if not cards:
        return 0
    return next((place for place, card in enumerate(cards) if card in names), None)


def with_whole_cards(snapshot: Snapshot, parts: Parts) -> Snapshot:
    """Who takes any model of whole GPUs gets no part of one: one set more, if parts are there.

    And the engine is told how much of a card each model is.
    """
    if not parts.of:
        return snapshot
    whole = tuple(row for row, name in enumerate(snapshot.models) if name not in parts.of)
    row = len(snapshot.models) + len(snapshot.model_sets)
    waiting = snapshot.waiting
    takes_any = (waiting.model == NONE) & (waiting.gpus_per_node > 0)
    return replace(
        snapshot,
        model_sets=(*snapshot.model_sets, whole),
        model_milli=ints([_milli(parts, name) for name in snapshot.models]),
        waiting=replace(waiting, model=ints(np.where(takes_any, row, waiting.model))),
        bookings=replace(snapshot.bookings, model=_instead(snapshot.bookings.model, row)),
        headroom=replace(snapshot.headroom, model=_instead(snapshot.headroom.model, row)),
    )


def models_now(snapshot: Snapshot, jobs: Waiting, parts: Parts) -> Ints:
    """By live job what it could get again: who holds a part just such a one, others whole cards.

    `snapshot` as of `with_whole_cards`; the column is as it was without parts.
    """
    if not parts.of:
        return jobs.model
    whole = len(snapshot.models) + len(snapshot.model_sets) - 1
    devices, held = snapshot.devices, snapshot.held
    is_part = np.array([name in parts.of for name in snapshot.models])
    rows = np.flatnonzero((devices.holder != NONE) & is_part[devices.model])
    has = dict(
        zip(held.job[devices.holder[rows]].tolist(), devices.model[rows].tolist(), strict=True)
    )
    found = [
        has.get(job, whole if model == NONE and gpus else model)
        for job, model, gpus in zip(
            jobs.id.tolist(), jobs.model.tolist(), jobs.gpus_per_node.tolist(), strict=True
        )
    ]
    return ints(found)


def _milli(parts: Parts, model: str) -> int:
    return parts.of[model].milli if model in parts.of else WHOLE_MILLI


def _instead(models: Ints, row: int) -> Ints:
    """The column with `row` where any model will do."""
    return ints(np.where(models == NONE, row, models))
