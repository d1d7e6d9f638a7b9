"""All rows that hang on some rows: what points at them, and what points at that."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from django.apps import apps
from django.contrib.contenttypes.models import ContentType
from django.db import models

from accounts.models import AuditEvent, AuditSeal, DemoMark, DemoOrder

CHUNK = 500
Rows = dict[type[models.Model], set[Any]]
# Events refer without hanging on anything; the mark goes last; what was asked for stays on record.
_APART = (AuditEvent, AuditSeal, DemoMark, DemoOrder, ContentType)


def chunks(ids: Iterable[Any]) -> Iterator[list[Any]]:
    """So many at a time that a statement can name them."""
    ordered = sorted(ids, key=str)
    for at in range(0, len(ordered), CHUNK):
        yield ordered[at : at + CHUNK]


def references(targets: Collection[type[models.Model]]) -> Iterator[tuple[type[models.Model], Any]]:
    """Every foreign key of every table into one of these tables."""
    for model in apps.get_models(include_auto_created=True):
        if model in _APART or model._meta.proxy:
            continue
        for field in model._meta.concrete_fields:
            if field.is_relation and field.related_model in targets:
                yield model, field


def lets_go(field: Any) -> bool:
    """Whether a row stays, without the reference, when what it points at goes."""
    return bool(field.remote_field.on_delete is models.SET_NULL)


def closure(roots: Rows) -> Rows:
    """The roots and everything that cannot be without them."""
    found: Rows = {model: set(ids) for model, ids in roots.items()}
    fresh = roots
    while fresh:
        following: Rows = {}
        for model, field in references(fresh.keys()):
            if lets_go(field):
                continue
            for ids in chunks(fresh[field.related_model]):
                rows = model._base_manager.filter(**{f"{field.attname}__in": ids})
                new = set(rows.values_list("pk", flat=True)) - found.get(model, set())
                if new:
                    found.setdefault(model, set()).update(new)
                    following.setdefault(model, set()).update(new)
        fresh = following
    return found


def let_go(rows: Rows) -> None:
    """Whoever stays and may be without a reference into these rows loses it."""
    for model, field in references(rows.keys()):
        if lets_go(field):
            for ids in chunks(rows[field.related_model]):
                model._base_manager.filter(**{f"{field.attname}__in": ids}).update(
                    **{field.attname: None}
                )


def delete(rows: Rows) -> int:
    """Delete them all, whatever the order: constraints are looked at when the transaction ends."""
    count = 0
    for model, all_ids in rows.items():
        for ids in chunks(all_ids):
            found = model._base_manager.filter(pk__in=ids)
            count += found._raw_delete(found.db)
    return count
