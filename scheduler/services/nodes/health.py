"""Devices and nodes that something is wrong with: out of service by evidence, back by a check."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from django.db.models import Exists, OuterRef, Q

from scheduler.models import Allocation, Attempt, Device, Node, Placement
from scheduler.services import transitions
from scheduler.services.attempts import locked_live_attempts
from scheduler.services.rows.locking import lock_devices_of
from scheduler.services.stopping import request_stop
from scheduler.states import (
    TROUBLE_RULES,
    DeviceHealth,
    EndReason,
    NodeState,
    Trouble,
    is_enough,
    trouble_of,
)
from scheduler.wire.messages import DeviceCheck, TroubleReport

MAX_TROUBLES = 512
# A device whose trouble has gone is tried out after this; one that failed is tried again later.
COOL_DOWN = timedelta(seconds=60)
NEXT_CHECK = timedelta(minutes=15)
# Beyond the first a node's times are worth nothing; the second keeps it from going to and fro.
CLOCK_OFF_S, CLOCK_FINE_S = 60.0, 30.0
# Nodes know nothing of slots: what is wrong with a card is wrong with them.
_TOLD_OF = Q(slot__isnull=True)
# Found out or decided here, so the node's own word does not end them.
_JUDGED_HERE = (
    Trouble.CLOCK_SKEW,
    Trouble.WEAK_ISOLATION,
    Trouble.COPIED,
    Trouble.DOES_NOT_STOP,
    Trouble.BY_HAND,
)
_Told = tuple[Trouble, TroubleReport]
# Of devices that jobs may get.
OFFERED = (DeviceHealth.HEALTHY, DeviceHealth.SUSPECT)


def take_troubles(node: Node, troubles: Sequence[TroubleReport], *, now: datetime) -> None:
    """All that is wrong with the node and its devices, as it says; the rest is well.

    1. A device with a trouble goes out of service, and who runs on a broken one is stopped. Once
       for each trouble: told again, it does not undo that an operator returned the device.
    2. A device whose trouble is over is to be tried out.
    3. The node itself goes out of service, or returns.
    """
    told: dict[str, list[_Told]] = {}
    for report in troubles[:MAX_TROUBLES]:
        told.setdefault(report.uuid, []).append((trouble_of(report.kind), report))
    for device in node.devices.filter(_TOLD_OF).select_related("node").order_by("index"):
        found = told.get(device.uuid, [])
        fresh = [one for one in found if not _is_answered(device, one)]
        if fresh:
            _take_out(device, *_worst(fresh), now)
        elif not found and device.trouble not in ("", Trouble.CHECK_FAILED) and not device.check_at:
            wait = COOL_DOWN if device.trouble == Trouble.HOT else timedelta(0)
            Device.objects.filter(pk=device.pk).update(check_at=now + wait)
            Node.objects.filter(pk=node.pk).update(has_checks=True)
        _note_answered(device, found)
    _judge_node(node, _worst(told[""]) if "" in told else None, now)


def _worst(told: Sequence[_Told]) -> _Told:
    """The first of those that weigh most."""
    return max(told, key=lambda one: _rank(one[0]))


def _rank(kind: Trouble) -> tuple[bool, bool]:
    rule = TROUBLE_RULES[kind]
    return rule.breaks_programs, rule.is_sticky


def _is_answered(device: Device, told: _Told) -> bool:
    kind, report = told
    return bool((device.answered or {}).get(kind) == report.since)


def _note_answered(device: Device, found: Sequence[_Told]) -> None:
    """Forget what is over; nothing new of a device that is out by hand, where it changed nothing.

    That still counts once the device is back: its operator may not have known.
    """
    known = found if device.trouble else [one for one in found if _is_answered(device, one)]
    answered = {str(kind): report.since for kind, report in known} or None
    if answered != device.answered:
        Device.objects.filter(pk=device.pk).update(answered=answered)


def _take_out(device: Device, kind: Trouble, report: TroubleReport, now: datetime) -> None:
    rule = TROUBLE_RULES[kind]
    reason = f"{rule.words} ({report.detail})" if report.detail else rule.words
    if device.health in OFFERED:
        transitions.move_device(
            device,
            DeviceHealth.QUARANTINED,
            now=now,
            kind="device_quarantined",
            reason=reason,
            trouble=kind,
            check_at=None,
        )
    elif device.trouble and _rank(kind) > _rank(trouble_of(device.trouble)):
        _keep_out(device, kind, reason, now)
    if rule.breaks_programs:
        _stop_program(device, reason, now)


def _keep_out(device: Device, kind: Trouble, reason: str, now: datetime) -> None:
    """Of one that is out for less already: a check that it waits for would not tell of this."""
    mine = Device.objects.filter(Q(pk=device.pk) | Q(parent=device))
    mine.update(health_reason=reason[:255])
    device.trouble, device.check_at = kind, None
    device.save(update_fields=["trouble", "check_at"])
    words = f"GPU {device.index}: {reason}"
    transitions.record_node_event(device.node, "device_quarantined", now=now, detail=words)
    transitions.tell_of_node(device.node_id)
    note_checks(device.node)


def _stop_program(device: Device, trouble: str, now: datetime) -> None:
    """Who runs on a broken device cannot go on, but may hang there for ever."""
    here = Q(device=device) | Q(device__parent=device)
    held = Allocation.objects.filter(here, released_at__isnull=True)
    ranks = Placement.objects.filter(pk__in=held.values("placement")).select_related("node")
    mine = Attempt.objects.filter(pk__in=ranks.values("attempt"))
    for attempt in locked_live_attempts(mine):
        request_stop(
            attempt=attempt,
            reason=EndReason.DEVICE_FAILED,
            now=now,
            because_of=list(ranks.filter(attempt=attempt)),
            said={"fault": f"GPU {device.index}: {trouble}"},
        )


def _judge_node(node: Node, found: _Told | None, now: datetime) -> None:
    told = found and {"kind": str(found[0]), "detail": found[1].detail[:255]}
    # Agents tell what changes: it counts also once the node is not out of service any more.
    Node.objects.filter(pk=node.pk).update(own_trouble=told)
    node.own_trouble = told
    if found is not None:
        kind, report = found
        quarantine_node(node, kind, report.detail, now)
    elif node.trouble and node.trouble not in _JUDGED_HERE:
        _return_node(node, now)


def judge_isolation(node: Node, *, now: datetime) -> None:
    """A node that keeps jobs apart less than its pool wants takes none until it does."""
    wanted = node.pool.isolation
    if not is_enough(node.isolation, wanted):
        detail = f"{node.isolation or 'its agent does not say'}; the pool wants {wanted}"
        quarantine_node(node, Trouble.WEAK_ISOLATION, detail, now)
        _say_anew(node, Trouble.WEAK_ISOLATION, detail)
    elif node.trouble == Trouble.WEAK_ISOLATION:
        _return_node(node, now)


def judge_clock(node: Node, skew_s: float, *, now: datetime) -> None:
    """A node whose clock is far off goes out of service until it is right."""
    if abs(skew_s) > CLOCK_OFF_S:
        quarantine_node(node, Trouble.CLOCK_SKEW, f"{skew_s:+.0f} s off", now)
    elif node.trouble == Trouble.CLOCK_SKEW and abs(skew_s) < CLOCK_FINE_S:
        _return_node(node, now)


def quarantine_node(node: Node, kind: Trouble, detail: str, now: datetime) -> None:
    """Take a node that takes work out of service, for a trouble that the evidence shows."""
    if node.state == NodeState.READY:
        transitions.move_node(
            node,
            NodeState.QUARANTINED,
            now=now,
            kind="node_quarantined",
            reason=_reason(kind, detail),
            trouble=kind,
        )


def _reason(kind: Trouble, detail: str) -> str:
    return f"{TROUBLE_RULES[kind].words} ({detail})"


def _say_anew(node: Node, kind: Trouble, detail: str) -> None:
    """What is so now, of a node that is out of service for that already."""
    reason = _reason(kind, detail)
    if node.trouble == kind and node.state_reason != reason:
        out = Node.objects.filter(pk=node.pk, state=NodeState.QUARANTINED, trouble=kind)
        out.update(state_reason=reason)


def heed_own_trouble(node: Node, *, now: datetime) -> None:
    """Call once a node takes work again: what it says of itself takes it out of service anew.

    `node` as it is now; it may have said so while it was out for something else.
    """
    if node.own_trouble:
        quarantine_node(node, trouble_of(node.own_trouble["kind"]), node.own_trouble["detail"], now)


def _return_node(node: Node, now: datetime) -> None:
    lock_devices_of([node.pk])
    # As it was read: an operator may have taken the node out by hand meanwhile.
    if not Node.objects.filter(pk=node.pk, trouble=node.trouble).update(trouble=""):
        return
    node.trouble = ""
    if node.state == NodeState.QUARANTINED:
        transitions.move_node(node, NodeState.READY, now=now, kind="node_returned")
        heed_own_trouble(node, now=now)


def due_checks(node: Node, *, now: datetime, alive: Collection[int] = ()) -> tuple[str, ...]:
    """Devices that the node should try out now: nobody holds them, nor is there a program on them
    of an attempt that the node says is `alive` (fences), given up or not."""
    here = Q(device=OuterRef("pk")) | Q(device__parent=OuterRef("pk"))
    used = Q(released_at__isnull=True) | Q(placement__attempt__in=alive, placement__node=node)
    held = Allocation.objects.filter(here & used)
    waiting = Device.objects.filter(~Exists(held), node=node, is_present=True, check_at__lte=now)
    return tuple(waiting.order_by("index").values_list("uuid", flat=True))


def take_checks(node: Node, checks: Sequence[DeviceCheck], *, now: datetime) -> None:
    """A device that passed returns; one that failed stays out and is tried again later."""
    by_uuid: Mapping[str, DeviceCheck] = {check.uuid: check for check in checks[:MAX_TROUBLES]}
    asked = node.devices.select_related("node").filter(uuid__in=by_uuid, check_at__lte=now)
    for device in asked:
        check = by_uuid[device.uuid]
        if check.passed:
            transitions.move_device(
                device,
                DeviceHealth.HEALTHY,
                now=now,
                kind="device_returned",
                trouble="",
                check_at=None,
            )
        else:
            transitions.move_device(
                device,
                DeviceHealth.QUARANTINED,
                now=now,
                kind="device_check_failed",
                reason=f"{TROUBLE_RULES[Trouble.CHECK_FAILED].words} ({check.detail})",
                trouble=Trouble.CHECK_FAILED,
                check_at=now + NEXT_CHECK,
            )
    note_checks(node)


def note_checks(node: Node) -> None:
    """Write down whether some device of the node waits for a check."""
    has_checks = node.devices.filter(check_at__isnull=False, is_present=True).exists()
    Node.objects.filter(pk=node.pk).update(has_checks=has_checks)
