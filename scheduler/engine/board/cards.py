"""Who is on which card, so that tenants never share one unless all of them opted in."""

from __future__ import annotations

from copy import copy

import numpy as np

from scheduler.engine.snapshot import (
    NONE,
    Flags,
    Floats,
    Ints,
    Request,
    Snapshot,
    flags,
    floats,
    ints,
)

_EMPTY, _SEVERAL, _UNKNOWN = -3, -2, -4


class Cards:
    """By card its tenant, and how many of its holders did not opt in to others.

    `matter`: some card may have several holders and there is more than one tenant; without that
    everything here says yes.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        devices, held, slices = snapshot.devices, snapshot.held, snapshot.slices
        self._snapshot = snapshot
        self.matter = _is_shared(snapshot) and _has_tenants(snapshot)
        if not self.matter:
            return
        self.card: Ints = _number_cards(devices.card)
        count = int(self.card.max(initial=NONE)) + 1
        self._tenant: Ints = ints(np.full(count, _EMPTY))
        self._closed: Ints = ints(np.zeros(count))
        # Who is on which device: device and holder rows, tenant, whether the holder opted in.
        self._device, self._holder, self._whose, self._opted_in = (
            ints([]),
            ints([]),
            ints([]),
            flags([]),
        )
        whole = np.flatnonzero(devices.holder != NONE)
        for rows, holder in ((whole, devices.holder[whole]), (slices.device, slices.holder)):
            self._enter(rows, holder, held.tenant[holder], held.shares_cards[holder])
        several = np.bincount(self.card, minlength=count) > 1
        self._is_cut: Flags = flags(devices.is_shareable | several[self.card])
        self.on_node: Flags = flags(
            np.bincount(devices.node[self._is_cut], minlength=len(snapshot.nodes.id))
        )

    def copied(self) -> Cards:
        """The same tenants on the same cards, to be charged by itself."""
        other = copy(self)
        if self.matter:
            other._tenant, other._closed = self._tenant.copy(), self._closed.copy()
        return other

    def allow(self, request: Request, rows: slice = slice(None)) -> Flags:
        """Which of the devices lie on cards that the request's tenant may come to now."""
        card = self.card[rows]
        tenant = self._tenant[card]
        is_alone = (tenant == _EMPTY) | (tenant == request.tenant)
        return flags(is_alone | (request.shares_cards & (self._closed[card] == 0)))

    def are_cut(self, devices: Flags) -> bool:
        """Whether any of these devices is on a card that tenants do not share."""
        return self.matter and bool((self._is_cut & devices).any())

    def charge(self, device_rows: Ints, request: Request, holder: int) -> None:
        """The request's tenant comes to these devices' cards; `holder` is its row of the board."""
        if self.matter:
            size = len(device_rows)
            self._enter(
                device_rows,
                ints(np.full(size, holder)),
                ints(np.full(size, request.tenant)),
                flags(np.full(size, request.shares_cards)),
            )

    def keep(self, device_rows: Ints, holder: int) -> None:
        """The devices are somebody's alone once those on them have left; nobody knows whose."""
        if self.matter:
            stays = ~np.isin(self._device, device_rows)
            size = len(device_rows)
            self._device = ints(np.append(self._device[stays], device_rows))
            self._holder = ints(np.append(self._holder[stays], np.full(size, holder)))
            self._whose = ints(np.append(self._whose[stays], np.full(size, _UNKNOWN)))
            self._opted_in = flags(np.append(self._opted_in[stays], np.zeros(size, dtype=bool)))

    def last_in_the_way(self, request: Request, until_s: Floats) -> Ints:
        """By device the holder after whose end the request's tenant may come to the card; -1: now.

        It may once nobody else's is there, or, if it opted in, once all who are there did.
        `until_s`: by holder.
        """
        others = self._last_on_card(flags(self._whose != request.tenant), until_s)
        if request.shares_cards:
            closed = self._last_on_card(flags(~self._opted_in), until_s)
            others = np.where(_ends(others, until_s) <= _ends(closed, until_s), others, closed)
        return ints(others[self.card])

    def _last_on_card(self, chosen: Flags, until_s: Floats) -> Ints:
        """By card, of the `chosen` holders the one that ends last."""
        rows = np.flatnonzero(chosen)
        rows = rows[np.argsort(until_s[self._holder[rows]], kind="stable")]
        last = np.full(len(self._tenant), NONE, dtype=np.int64)
        last[self.card[self._device[rows]]] = self._holder[rows]
        return ints(last)

    def _enter(self, device_rows: Ints, holder: Ints, tenant: Ints, shares: Flags) -> None:
        self._device = ints(np.append(self._device, device_rows))
        self._holder = ints(np.append(self._holder, holder))
        self._whose = ints(np.append(self._whose, tenant))
        self._opted_in = flags(np.append(self._opted_in, shares))
        card = self.card[device_rows]
        order = np.argsort(card, kind="stable")
        card, tenant = card[order], tenant[order]
        np.add.at(self._closed, card, ~shares[order])
        lowest = np.full(len(self._tenant), np.iinfo(np.int64).max)
        highest = np.full(len(self._tenant), _EMPTY)
        np.minimum.at(lowest, card, tenant)
        np.maximum.at(highest, card, tenant)
        touched = np.unique(card)
        old, low, high = self._tenant[touched], lowest[touched], highest[touched]
        is_one = (low == high) & ((old == _EMPTY) | (old == low))
        self._tenant[touched] = np.where(is_one, low, _SEVERAL)


def later(one: Ints, other: Ints, until_s: Floats) -> Ints:
    """Of two holders of each device the one that ends later; -1, nobody, has ended."""
    return ints(np.where(_ends(one, until_s) >= _ends(other, until_s), one, other))


def _ends(holder: Ints, until_s: Floats) -> Floats:
    return floats(np.append(until_s, -np.inf)[holder])


def _number_cards(card: Ints) -> Ints:
    """Cards as numbers without gaps; a device without a card is one of its own."""
    own = card == NONE
    named = np.where(own, card.max(initial=NONE) + 1 + np.arange(len(card)), card)
    return ints(np.unique(named, return_inverse=True)[1])


def _is_shared(snapshot: Snapshot) -> bool:
    devices = snapshot.devices
    return bool(devices.is_shareable.any()) or bool((devices.card != NONE).any())


def _has_tenants(snapshot: Snapshot) -> bool:
    tenants = np.concatenate([snapshot.waiting.tenant, snapshot.held.tenant])
    return bool((tenants != tenants[:1]).any())
