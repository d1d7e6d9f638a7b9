"""Who is on which card, so that tenants never share one unless all of them opted in."""

from __future__ import annotations

import numpy as np

from scheduler.engine.snapshot import NONE, Flags, Floats, Ints, Request, Snapshot, flags, ints

_EMPTY, _SEVERAL = -3, -2


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
        whole = np.flatnonzero(devices.holder != NONE)
        for rows, holder in ((whole, devices.holder[whole]), (slices.device, slices.holder)):
            self._enter(rows, held.tenant[holder], held.shares_cards[holder])
        several = np.bincount(self.card, minlength=count) > 1
        self._is_cut: Flags = flags(devices.is_shareable | several[self.card])
        self.on_node: Flags = flags(
            np.bincount(devices.node[self._is_cut], minlength=len(snapshot.nodes.id))
        )

    def allow(self, request: Request, rows: slice = slice(None)) -> Flags:
        """Which of the devices lie on cards that the request's tenant may come to now."""
        card = self.card[rows]
        tenant = self._tenant[card]
        is_alone = (tenant == _EMPTY) | (tenant == request.tenant)
        return flags(is_alone | (request.shares_cards & (self._closed[card] == 0)))

    def charge(self, device_rows: Ints, request: Request) -> None:
        """The request's tenant comes to these devices' cards."""
        if self.matter:
            size = len(device_rows)
            self._enter(
                device_rows,
                ints(np.full(size, request.tenant)),
                flags(np.full(size, request.shares_cards)),
            )

    def last_holders(self, holder: Ints, until_s: Floats) -> Ints:
        """By device the holder of its card that ends last, -1 if nobody is on the card."""
        held = np.flatnonzero(holder != NONE)
        soonest_first = held[np.argsort(until_s[holder[held]], kind="stable")]
        by_card = np.full(len(self._tenant), NONE, dtype=np.int64)
        by_card[self.card[soonest_first]] = holder[soonest_first]
        return ints(by_card[self.card])

    def _enter(self, device_rows: Ints, tenant: Ints, shares: Flags) -> None:
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
