"""What nodes say they have, checked before it is believed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from scheduler.models import Device, Node
from scheduler.services.errors import Invalid
from scheduler.services.timeline.segments import follow_node
from scheduler.spec.values import WHOLE_MILLI
from scheduler.states import NodeState
from scheduler.wire.messages import DeviceFacts, HostFacts

# Cards, and seven instances on each of sixteen.
MAX_DEVICES = 128
_MAX_MIB = 2**40
_MAX_UUID = 96
# What a node's word changes of a device that is known: `_facts`.
_WRITTEN = (
    *("node", "index", "model", "memory_mib", "link_group", "is_simulated", "is_present"),
    *("parent", "milli", "isolation", "in_service", "health"),
)


def store_host(node: Node, host: HostFacts) -> None:
    """Sizes and address of the machine; raises Invalid."""
    if not (0 < host.cpus <= 4096 and 0 < host.memory_mib < _MAX_MIB and host.scratch_mib >= 0):
        raise Invalid("The node reports impossible sizes of CPU, memory or disk.", field="host")
    node.isolation = host.isolation[:16]
    Node.objects.filter(pk=node.pk).update(
        cpus=host.cpus,
        memory_mib=host.memory_mib,
        scratch_mib=min(host.scratch_mib, _MAX_MIB),
        address=host.address[:255],
        kernel=host.kernel[:128],
        driver=host.driver[:64],
        isolation=node.isolation,
    )


def store_devices(node: Node, devices: Sequence[DeviceFacts], *, now: datetime) -> None:
    """Bring the node's device rows up to date; devices it no longer has are marked absent."""
    uuids = [device.uuid for device in devices]
    if len(uuids) > MAX_DEVICES:
        raise Invalid(f"A node may have at most {MAX_DEVICES} devices.", field="devices")
    if len(set(uuids)) != len(uuids):
        raise Invalid("Two devices have the same UUID.", field="devices")
    for device in devices:
        sound = device.uuid and device.model and 0 < device.memory_mib < _MAX_MIB
        sound = sound and len(device.uuid) <= _MAX_UUID
        sound = sound and 1 <= device.milli <= WHOLE_MILLI and device.uuid != device.parent
        if not sound or not 0 <= device.index < 1024:
            raise Invalid(
                f"Device {device.uuid[:_MAX_UUID] or device.index} is not plausible.",
                field="devices",
            )
    foreign = (
        Device.objects.filter(uuid__in=uuids)
        .exclude(node=node)
        .exclude(node__state=NodeState.RETIRED)
        .select_related("node")
    )
    for row in foreign:
        raise Invalid(
            f"Device {row.uuid} belongs to node {row.node.name}. Retire that node first if the "
            "card has moved.",
            field="devices",
            code="device_belongs_elsewhere",
        )
    instances = [device for device in devices if device.parent]
    cards = _store(node, [one for one in devices if not one.parent])
    lost = next((one for one in instances if one.parent not in cards), None)
    if lost is not None:
        raise Invalid(f"The card of MIG instance {lost.uuid} is missing.", field="devices")
    _settle_parts(node, cards, instances)
    node.devices.exclude(uuid__in=uuids).exclude(parent__uuid__in=cards).update(is_present=False)
    follow_node(node.pk, now=now, cause="inventory")


def _store(
    node: Node, told: Sequence[DeviceFacts], cards: Mapping[str, Device] | None = None
) -> dict[str, Device]:
    """The rows of these cards, or of these parts of `cards`, by UUID.

    Equals `update_or_create` one by one, in three statements.
    """
    stored = Device.objects.filter(uuid__in=[one.uuid for one in told])
    rows = {row.uuid: row for row in stored.select_for_update(no_key=True).order_by("pk")}
    known = list(rows.values())
    for one in told:
        row = rows.setdefault(one.uuid, Device(uuid=one.uuid))
        for name, value in _facts(node, one, (cards or {}).get(one.parent)).items():
            setattr(row, name, value)
    if known:
        Device.objects.bulk_update(known, _WRITTEN)
    Device.objects.bulk_create([row for row in rows.values() if row.pk is None])
    return rows


def _facts(node: Node, told: DeviceFacts, card: Device | None) -> dict[str, Any]:
    facts = {
        "node": node,
        "index": told.index,
        "model": told.model[:96],
        "memory_mib": told.memory_mib,
        "link_group": told.link_group[:63],
        "is_simulated": told.simulated,
        "is_present": True,
        "parent": card,
        "milli": told.milli if card else WHOLE_MILLI,
        "isolation": "mig" if card else "",
    }
    return facts | ({"in_service": True, "health": card.health} if card else {})


def _settle_parts(
    node: Node, cards: Mapping[str, Device], instances: Sequence[DeviceFacts]
) -> None:
    """MIG instances as the node tells them, slots as they were cut; a card in parts is none itself.

    Instances that are no more go before new ones come: together they may be more than the card.
    """
    told = [one.uuid for one in instances]
    parts = Device.objects.filter(parent__in=cards.values())
    in_mig = {one.parent for one in instances}
    gone = parts.filter(slot__isnull=True).exclude(uuid__in=told)
    gone |= parts.filter(slot__isnull=False, parent__uuid__in=in_mig)
    gone.update(is_present=False, in_service=False)
    _store(node, instances, cards)
    parts.filter(in_service=True).update(is_present=True)
    cut = set(parts.filter(in_service=True).values_list("parent_id", flat=True))
    every = Device.objects.filter(node=node, parent__isnull=True, uuid__in=cards)
    every.filter(pk__in=cut).update(in_service=False)
    every.exclude(pk__in=cut).update(in_service=True)
