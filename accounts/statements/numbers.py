"""Numbers that come as the databases say them.

Django would make each of them again, which of tens of thousands takes as long as to read them.
"""

from __future__ import annotations

from typing import Any

from django.db.models import BigIntegerField, Field, FloatField


class WholeNumber(BigIntegerField):
    """What an expression gives that both databases say as a whole number, or NULL."""

    def get_internal_type(self) -> str:
        """None that Django converts."""
        return "WholeNumber"

    def get_lookup(self, lookup_name: str) -> Any:
        """Those of any field: of whole numbers Django asks for the range of what it calls it."""
        return Field().get_lookup(lookup_name)

    def db_type(self, connection: Any) -> str | None:
        """As of the field that it is beside that."""
        return BigIntegerField().db_type(connection)

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        """As of the field that it is beside that."""
        return BigIntegerField().get_db_prep_value(value, connection, prepared)


class RealNumber(FloatField):
    """What an expression gives that both databases say as a double, or NULL.

    Means of whole numbers, and values that are not cast, are none: PostgreSQL says them exactly.
    """

    def get_internal_type(self) -> str:
        """None that Django converts."""
        return "RealNumber"

    def db_type(self, connection: Any) -> str | None:
        """As of the field that it is beside that."""
        return FloatField().db_type(connection)
