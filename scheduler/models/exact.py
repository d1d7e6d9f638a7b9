"""Amounts as columns. SQLite keeps what looks like a number as a float, so there it is a text."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

from scheduler.ledger.exact import plain

if TYPE_CHECKING:
    _Field = models.Field[Any, Any]
else:
    _Field = models.Field


class ExactAmount(_Field):
    """A decimal of up to 38 digits, 15 of them behind the point, never rounded.

    `numeric(38, 15)` on PostgreSQL, text elsewhere: there it is not to be summed or compared by the
    database.
    """

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        """The column's type."""
        return "numeric(38, 15)" if connection.vendor == "postgresql" else "text"

    def from_db_value(self, value: Any, *_: Any) -> Decimal | None:
        """As read; both databases give it without a float."""
        return None if value is None else Decimal(value)

    def to_python(self, value: Any) -> Decimal | None:
        """As assigned."""
        return None if value is None else Decimal(value)

    def get_prep_value(self, value: Any) -> str | None:
        """As written; raises decimal.Inexact for what does not fit."""
        return None if value is None else plain(Decimal(value))
