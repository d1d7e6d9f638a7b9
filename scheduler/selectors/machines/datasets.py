"""Data sets, and how much of each the nodes hold."""

from __future__ import annotations

from collections.abc import Sequence

from accounts.errors import NotFound
from accounts.models import User
from scheduler.models import Dataset
from scheduler.selectors.cluster import visible_nodes


def visible_datasets(viewer: User) -> Sequence[Dataset]:
    """All, by name, with their copies; everybody who is signed in may see them. Two queries."""
    return list(Dataset.objects.prefetch_related("copies__node"))


def found_on_nodes(viewer: User) -> dict[str, list[tuple[str, int]]]:
    """By data set, the nodes whose agents found it and how much there, in MiB. One query."""
    told = visible_nodes(viewer).filter(data__isnull=False).order_by("name")
    found: dict[str, list[tuple[str, int]]] = {}
    for node, data in told.values_list("name", "data"):
        for name, held_mib in data["sets"] if data else ():
            found.setdefault(name, []).append((node, held_mib))
    return found


def get_visible_dataset(viewer: User, name: str) -> Dataset:
    """Raises NotFound."""
    found = Dataset.objects.filter(name=name).first()
    if found is None:
        raise NotFound()
    return found


def dataset_names() -> list[str]:
    """Of all data sets that jobs may name."""
    return list(Dataset.objects.values_list("name", flat=True))
