"""Rows that come along with the row of another statement, as JSON in one of its columns.

For the few rows that stand beside one thing, such as the last events of a job: a statement less,
and no join that would repeat the wide row for each of them.
"""

from __future__ import annotations

import json
from typing import Any

from django.db.models import F, QuerySet
from django.db.models.expressions import Combinable

from accounts.models.rows import AsJson


def carried(rows: QuerySet[Any], *fields: str | Combinable) -> AsJson:
    """An expression with these fields of `rows`, which may name the outer row by OuterRef."""
    named = {
        f"c{number}_": F(field) if isinstance(field, str) else field
        for number, field in enumerate(fields)
    }
    return AsJson(rows.annotate(**named).values_list(*named), columns=", ".join(named))


def document(value: Any) -> Any:
    """A JSON field among them; where the database has no such type it is a text."""
    return json.loads(value) if isinstance(value, str) else value
