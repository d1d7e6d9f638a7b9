"""Objects of rows that were read, without the ceremony around a new object.

Django makes an object of a row as if somebody had called the model: it looks at every field for a
default, tells who listens and sets one value after the other. Nearly all of that does nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, cast

from django.db.models import Expression, Model, QuerySet, Transform, Value
from django.db.models.base import ModelState
from django.db.models.expressions import Col
from django.db.models.fields.related_descriptors import ForeignKeyDeferredAttribute
from django.db.models.query_utils import DeferredAttribute
from django.db.models.signals import post_init, pre_init

# What of a field stands in its model: these keep the value in the object, as it is.
_PLAIN = (DeferredAttribute, ForeignKeyDeferredAttribute)


def made_at_once(info: Mapping[str, Any]) -> dict[str, Any]:
    """What Django knows of a query's model, and of those that are read along, with makers in the
    place of models, where they can be."""
    model, along = info["model"], info.get("related_klass_infos", ())
    found = {**info, "related_klass_infos": [made_at_once(one) for one in along]}
    return {**found, "model": _Maker(model)} if _is_plain(model) else found


def _is_plain(model: type[Model]) -> bool:
    """Whether its objects are nothing but the values of their fields."""
    own: Any = model
    usual: Any = Model
    is_usual = own.__init__ is usual.__init__ and own.from_db.__func__ is usual.from_db.__func__
    return is_usual and all(
        field.descriptor_class in _PLAIN for field in model._meta.concrete_fields
    )


def without_query(query: QuerySet[Any, Any], compiler: Any) -> tuple[QuerySet[Any, Any], Any]:
    """What makes objects of a statement's rows, without that which it was written down from, which
    takes ten times as much room."""
    bare: Any = QuerySet(query.model, using=query.db)
    bare._iterable_class = cast(Any, query)._iterable_class
    maker = copy(compiler)
    maker.query = maker.where = maker.having = maker.qualify = None
    maker.select = [(_alike(one), None, alias) for one, _, alias in compiler.select]
    return bare, maker


def _alike(column: Any) -> Any:
    """An expression whose values are read in the same way. Of those that Django or a field may look
    at for that it is the same one."""
    is_usual = getattr(type(column), "convert_value", None) is Expression.convert_value
    if isinstance(column, Col | Transform) or not is_usual:
        return column
    return Value(None, output_field=column.output_field)


class _Maker:
    """Stands where Django looks for a model to make objects of."""

    def __init__(self, model: type[Model]) -> None:
        self._model, self._meta = model, model._meta

    def from_db(self, db: str, names: Sequence[str], values: Sequence[Any]) -> Any:
        """Equals that of the model; names come in the order of its fields."""
        model: Any = self._model
        if pre_init.has_listeners(model) or post_init.has_listeners(model):
            return model.from_db(db, names, values)
        new = model.__new__(model)
        state = ModelState()
        state.adding, state.db = False, db
        its = new.__dict__
        its["_state"] = state
        its.update(zip(names, values, strict=True))
        return new
