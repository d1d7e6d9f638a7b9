"""What stands beside the rows of a group and is no part of what they are grouped by."""

from __future__ import annotations

from typing import Any

from django.db.models import Field, Subquery, Value
from django.db.models.expressions import BaseExpression
from django.db.models.functions import Cast


class Ungrouped(BaseExpression):
    """Beside an expression that is the same in all rows of a group: Django would group by it as
    well, and SQLite sort all rows for that, where an index has them in order."""

    def get_group_by_cols(self) -> list[Any]:
        """None of its own."""
        return []


class Null(Ungrouped, Cast):
    """NULL of a type, for a part of a union that has nothing to say there."""

    def __init__(self, output_field: Field[Any, Any]) -> None:
        super().__init__(Value(None), output_field)


class LookedUp(Ungrouped, Subquery):
    """One value that another table has of what is grouped by; looked up once for each group."""
