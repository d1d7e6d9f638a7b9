"""Data sets: how large they are, and which node holds how much of them."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.utils import timezone

from accounts.models import User
from accounts.services.audit import record
from scheduler import events
from scheduler.models import Dataset, DatasetCopy, Node
from scheduler.services.errors import Invalid
from scheduler.services.nodes import require_operator
from scheduler.spec import units, values

MOST_MIB = 2**40


@transaction.atomic
def set_dataset(*, actor: User, name: str, size: str) -> Dataset:
    """Tell of a data set, or that its size has changed. Raises Forbidden, Invalid."""
    require_operator(actor)
    try:
        values.dataset_names((name,))
    except ValueError as error:
        raise Invalid(f"name {error}.", field="name") from None
    size_mib = _mib(size, "size")
    if not size_mib:
        words = "Give its size, such as 150GiB: nodes are compared by what they lack of it."
        raise Invalid(words, field="size")
    before = Dataset.objects.filter(name=name).values("size_mib").first()
    dataset, _ = Dataset.objects.update_or_create(name=name, defaults={"size_mib": size_mib})
    record(actor, "dataset.set", dataset, before=before, after={"size_mib": size_mib})
    events.wake_scheduler_on_commit()
    return dataset


@transaction.atomic
def set_copy(
    *,
    actor: User,
    dataset: Dataset,
    node: Node,
    held: str | None = None,
    now: datetime | None = None,
) -> None:
    """Say how much of it the node holds: without a size all of it, with 0 nothing.

    Raises Forbidden, Invalid.
    """
    require_operator(actor)
    held_mib = None if held is None else _mib(held, "held")
    copies = DatasetCopy.objects.filter(dataset=dataset, node=node)
    before = copies.values("held_mib").first()
    if held_mib == 0:
        copies.delete()
    else:
        DatasetCopy.objects.update_or_create(
            dataset=dataset,
            node=node,
            defaults={"held_mib": held_mib, "told_at": now or timezone.now()},
        )
    told = {"node": node.name, "held_mib": "all" if held_mib is None else held_mib}
    record(actor, "dataset.copy", dataset, before=before, after=told)
    events.wake_scheduler_on_commit()


@transaction.atomic
def remove_dataset(*, actor: User, dataset: Dataset) -> None:
    """Forget it and its copies; jobs that name it go wherever they fit. Raises Forbidden."""
    require_operator(actor)
    record(actor, "dataset.remove", dataset, before={"size_mib": dataset.size_mib})
    dataset.delete()


def _mib(size: str, field: str) -> int:
    try:
        found = units.parse_size_mib(size)
    except ValueError as error:
        raise Invalid(f"{size[:40]!r} {error}.", field=field) from None
    if not 0 <= found <= MOST_MIB:
        raise Invalid("Give a size from 0 up to an exbibyte.", field=field)
    return found
