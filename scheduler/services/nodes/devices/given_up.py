"""Devices on which a program still runs though its attempt was given up without its node's word.

Two people may have been wrong about a node's power, and a machine that slept wakes with all that
ran there. Whoever got such a device next would meet that program on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from scheduler.models import Allocation, Device, Node, Placement
from scheduler.services import transitions
from scheduler.services.gathering import Step, afterwards
from scheduler.services.nodes.health import COOL_DOWN, OFFERED
from scheduler.services.rows.locking import lock_devices_of
from scheduler.states import TROUBLE_RULES, DeviceHealth, Trouble


def keep_out(ranks: Sequence[Placement], *, now: datetime) -> None:
    """Take what these ranks were given out of service: their nodes say that they run.

    Told again it changes nothing, unless an operator has returned a device meanwhile: its node
    knows better. A check returns it, which waits until the node tells of the program no more.
    """
    if not _offered_of(ranks):
        return
    lock_devices_of([one.node_id for one in ranks])
    for device, rank in _offered_of(ranks).items():
        words = f"job #{rank.attempt.job_id} was given up and still runs there"
        transitions.move_device(
            device,
            DeviceHealth.QUARANTINED,
            now=now,
            kind="device_quarantined",
            reason=f"{TROUBLE_RULES[Trouble.NOT_RELEASED].words} ({words})",
            trouble=Trouble.NOT_RELEASED,
            # Not at once: the answer to an earlier question may be under way.
            check_at=now + COOL_DOWN,
        )
        afterwards(Step.CALL_NODES, _note_checks, [device.node_id])


def _note_checks(nodes: Sequence[int]) -> None:
    Node.objects.filter(pk__in=nodes).update(has_checks=True)


def _offered_of(ranks: Sequence[Placement]) -> dict[Device, Placement]:
    """Their devices that jobs may get; for a slot its card, of which alone nodes know."""
    by_key = {one.pk: one for one in ranks}
    given = Allocation.objects.filter(placement__in=by_key).order_by("device")
    found = {}
    for one in given.select_related("device__node", "device__parent__node"):
        device = one.device if one.device.slot is None else one.device.parent
        if device is not None and device.health in OFFERED:
            found[device] = by_key[one.placement_id]
    return found
