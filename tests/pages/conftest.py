"""Which page tests ask PostgreSQL, too."""

from __future__ import annotations

import pytest

# Every route is opened there as root by `test_matrix`; rows in an order, and by words, that a
# reader chose are the database's own business. What a page makes of its rows is the same on both.
ON_BOTH = (
    *("test_matrix", "test_sorts", "test_search", "test_filters", "test_long_lists", "test_jobs"),
    *("test_queue", "test_timeline", "test_finance", "test_audit", "test_databases"),
)


def pytest_itemcollected(item: pytest.Item) -> None:
    """All others run once, on SQLite; but what is of PostgreSQL alone would run nowhere then."""
    if item.path.stem not in ON_BOTH and not item.get_closest_marker("postgres"):
        item.add_marker(pytest.mark.once)
