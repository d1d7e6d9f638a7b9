"""Personas and the small world they live in.

`alice` owns the jobs, `bob` is in her team, `carol` is a stranger from another team; `lead`,
`finance` and `operator` have that role in alice's team; `root` is the administrator.
"""

from __future__ import annotations

import gc
import os

import pytest
from django.db import connection
from hypothesis import settings

from accounts.models import Project, Role, Team, User
from accounts.services import create_project, create_team
from tests import factories

pytest_plugins = ["tests.servers", "tests.omissions", "tests.flushing", "tests.longest_first"]
pytest_plugins += ["tests.receiving", "tests.begun_again"]
if os.environ.get("TRAINYARD_TEST_NOW"):
    pytest_plugins.append("tests.later")

# The same examples every time, and no clock: a machine that is busy, or a commit that changed
# nothing near, must not decide. `make test-long` looks for new ones; what it finds becomes a test.
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("new", deadline=None, max_examples=1_000)
settings.load_profile("new" if os.environ.get("TRAINYARD_TESTS_NEW_EXAMPLES") else "same")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is of PostgreSQL alone is left out elsewhere, where somebody names its file, too."""
    if connection.vendor != "postgresql":
        away = pytest.mark.skip(reason="of PostgreSQL alone: SQLite has one writer, or has no such")
        for item in items:
            if item.get_closest_marker("postgres"):
                item.add_marker(away)


def pytest_collection_finish() -> None:
    """What is there by now stays: looking through it again and again is a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)


@pytest.fixture
def root(db) -> User:
    return factories.person("root", is_superuser=True)


@pytest.fixture
def team(root) -> Team:
    """alice's team."""
    return create_team(actor=root, name="Vision")


@pytest.fixture
def other_team(root) -> Team:
    """carol's team."""
    return create_team(actor=root, name="Speech")


@pytest.fixture
def project(root, team) -> Project:
    """vision/digits."""
    return create_project(actor=root, team=team, name="Digits")


@pytest.fixture
def other_project(root, other_team) -> Project:
    """speech/asr."""
    return create_project(actor=root, team=other_team, name="ASR")


@pytest.fixture
def alice(root, team) -> User:
    return factories.member("alice", team, by=root)


@pytest.fixture
def bob(root, team) -> User:
    return factories.member("bob", team, by=root)


@pytest.fixture
def carol(root, other_team) -> User:
    return factories.member("carol", other_team, by=root)


@pytest.fixture
def lead(root, team) -> User:
    return factories.member("lead", team, Role.LEAD, by=root)


@pytest.fixture
def finance(root, team) -> User:
    return factories.member("finance", team, Role.FINANCE, by=root)


@pytest.fixture
def operator(root, other_team) -> User:
    """An operator whose own team is not alice's."""
    return factories.member("operator", other_team, Role.OPERATOR, by=root)
