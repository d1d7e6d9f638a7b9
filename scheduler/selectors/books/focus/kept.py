"""What a close keeps of the machines of its month, so that files of it stay as they are."""

from __future__ import annotations

from django.db.models import Max, Min

from scheduler.models import Device, Node, Period, PeriodClose


def memory_of_models(period: Period) -> dict[str, int]:
    """GiB of each model of GPU, to the nearest whole one: as an earlier close of this month kept
    it, else as its devices have it now. A model whose devices differ is left out."""
    found = {
        model: _gib(least)
        for model, least, most in Device.objects.order_by()
        .values_list("model")
        .annotate(Min("memory_mib"), Max("memory_mib"))
        if _gib(least) == _gib(most) > 0
    }
    for kept in PeriodClose.objects.filter(period=period, gpu_memory_gib__isnull=False):
        found |= kept.gpu_memory_gib or {}
    return found


def racks_of_nodes(period: Period) -> dict[str, str]:
    """By node, empty where it stands in none: as an earlier close of this month kept it, else as it
    is now."""
    found = {str(node): rack for node, rack in Node.objects.order_by().values_list("pk", "rack")}
    for kept in PeriodClose.objects.filter(period=period, racks__isnull=False):
        found |= kept.racks or {}
    return found


def _gib(mib: int) -> int:
    return (mib + 512) // 1024
