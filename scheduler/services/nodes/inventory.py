"""What nodes say they have, checked before it is believed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from scheduler.models import Device, Node
from scheduler.services.errors import Invalid
from scheduler.services.timeline.segments import follow_node
from scheduler.states import NodeState
from scheduler.wire.messages import DeviceFacts, HostFacts

MAX_DEVICES = 64
_MAX_MIB = 2**40


def store_host(node: Node, host: HostFacts) -> None:
    """Sizes and address of the machine; raises Invalid."""
    if not (0 < host.cpus <= 4096 and 0 < host.memory_mib < _MAX_MIB and host.scratch_mib >= 0):
        raise Invalid("The node reports impossible sizes of CPU, memory or disk.", field="host")
    Node.objects.filter(pk=node.pk).update(
        cpus=host.cpus,
        memory_mib=host.memory_mib,
        scratch_mib=min(host.scratch_mib, _MAX_MIB),
        address=host.address[:255],
        kernel=host.kernel[:128],
        driver=host.driver[:64],
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
        if not sound or not 0 <= device.index < 1024:
            raise Invalid(
                f"Device {device.uuid or device.index} is not plausible.", field="devices"
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
    for device in devices:
        Device.objects.update_or_create(
            uuid=device.uuid,
            defaults={
                "node": node,
                "index": device.index,
                "model": device.model[:96],
                "memory_mib": device.memory_mib,
                "link_group": device.link_group[:63],
                "is_simulated": device.simulated,
                "is_present": True,
            },
        )
    node.devices.exclude(uuid__in=uuids).update(is_present=False)
    follow_node(node.pk, now=now, cause="inventory")
