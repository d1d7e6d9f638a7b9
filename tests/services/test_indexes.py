"""What is written by the second has no index that says what another one says, too."""

from __future__ import annotations

from itertools import permutations

import pytest
from django.apps import apps
from django.db import connection

pytestmark = pytest.mark.django_db
# By the reading, by the start of a job, by the minute that it runs. Not by the line of a log: there
# are queries that go by the numbers of a column's rows, of which its own index has the order.
BUSY = (
    *("attempt", "dayofreadings", "devicehour", "devicesample", "hostsample", "job"),
    *("notification", "outputfile", "placement"),
)


def whole_indexes(table: str) -> dict[str, list[str]]:
    """Columns by name, of those over all rows and by columns alone."""
    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, table)
    partial = {
        index.name
        for model in apps.get_models()
        if model._meta.db_table == table
        for index in (*model._meta.indexes, *model._meta.constraints)
        if getattr(index, "condition", None) is not None
    }
    return {
        name: one["columns"]
        for name, one in found.items()
        if (one["index"] or one["unique"]) and one["columns"] and name not in partial
        if not one["primary_key"] and None not in one["columns"]
    }


@pytest.mark.parametrize("table", BUSY)
def test_no_index_begins_with_another(table):
    found = whole_indexes(f"scheduler_{table}")
    assert found
    twice = [
        f"{name} is the beginning of {longer}"
        for (name, columns), (longer, more) in permutations(found.items(), 2)
        if more[: len(columns)] == columns
    ]
    assert not twice
