"""Which page tests ask PostgreSQL, too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from accounts.models import GroupRule, Role, Team, User
from accounts.services.identities.rules import add_group_rule
from tests.identity_provider import IdentityProvider, believe, running

# Every route is opened there as root by `test_matrix`; rows in an order, and by words, that a
# reader chose are the database's own business. What a page makes of its rows is the same on both.
ON_BOTH = (
    *("test_matrix", "test_sorts", "test_search", "test_filters", "test_long_lists", "test_jobs"),
    *(
        "test_queue",
        "test_timeline",
        "test_finance",
        "test_audit",
        "test_databases",
        "test_warnings",
    ),
)


def pytest_itemcollected(item: pytest.Item) -> None:
    """All others run once, on SQLite; but what is of PostgreSQL alone would run nowhere then."""
    if item.path.stem not in ON_BOTH and not item.get_closest_marker("postgres"):
        item.add_marker(pytest.mark.once)


@pytest.fixture(scope="session")
def identity_process() -> Iterator[IdentityProvider]:
    with running() as found:
        yield found


@pytest.fixture
def provider(identity_process: IdentityProvider, settings: Any) -> IdentityProvider:
    """Whom the portal believes; new people need a group with a rule."""
    believe(settings, identity_process.issuer, NEW_PEOPLE="groups")
    return identity_process


@pytest.fixture
def rule(root: User, team: Team) -> GroupRule:
    """Who is in `/ml/vision` elsewhere is in alice's team."""
    return add_group_rule(actor=root, group="/ml/vision", team=team, role=Role.MEMBER)
