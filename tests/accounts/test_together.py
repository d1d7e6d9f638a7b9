"""Reads asked together give what each gives when it is asked alone, in one statement."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.models import Rate, Team, User
from accounts.services import create_team, set_cost_centre
from accounts.statements import AskedOnce, asked_together, read_together
from accounts.statements.together import AT_ONCE

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def _people(since):
    """Flags, moments, texts, nothing, and an order of its own."""
    found = User.objects.filter(date_joined__gte=since).order_by("-username")
    return found.values_list("pk", "username", "is_active", "date_joined", "last_login")


def _teams():
    return Team.objects.select_related("parent", "cost_centre").order_by("-name")


def _last_two():
    return Team.objects.order_by("-pk").values_list("slug")[:2]


def _nobody(name):
    return User.objects.filter(username=name).values_list("pk")


def _prices():
    return Rate.objects.values_list("price_per_gpu_hour")


PEOPLE, TEAMS, LAST_TWO = AskedOnce(_people), AskedOnce(_teams), AskedOnce(_last_two)
NOBODY, PRICES = AskedOnce(_nobody), AskedOnce(_prices)
LONG_AGO = NOON - timedelta(days=9_000)


def test_rows_and_objects_are_those_of_each_alone(root, alice, carol, team, other_team):
    create_team(actor=root, name='Below % "it" {}', parent=team)
    set_cost_centre(actor=root, team=team, code="CC-1")
    people, last = list(_people(LONG_AGO)), list(_last_two())
    asked = [(PEOPLE, (LONG_AGO,)), (TEAMS, ()), (LAST_TWO, ()), (NOBODY, ("x'; --",))]
    with CaptureQueriesContext(connection) as seen, asked_together(asked):
        assert PEOPLE.read(LONG_AGO) == people
        assert [type(one) for one in PEOPLE.read(LONG_AGO)[0]] == [type(o) for o in people[0]]
        found = TEAMS.read()
        told = [(one.pk, one.name, one.parent, one.cost_centre, one.created_at) for one in found]
        assert LAST_TWO.read() == last
        assert NOBODY.read("x'; --") == []
    assert len(seen) == 1
    alone = [(o.pk, o.name, o.parent, o.cost_centre, o.created_at) for o in _teams()]
    assert told == alone
    # Other values, and whoever asks afterwards, ask for themselves.
    with CaptureQueriesContext(connection) as seen:
        with asked_together(asked):
            assert PEOPLE.read(NOON + timedelta(days=90_000)) == []
            assert NOBODY.read(alice.username) == [(alice.pk,)]
        assert PEOPLE.read(LONG_AGO) == people
    assert len(seen) == 4


def test_queries_made_on_the_spot_and_those_that_are_about_nothing(root, alice, team):
    nothing, people = Team.objects.filter(pk__in=[]), User.objects.order_by("-username")
    with CaptureQueriesContext(connection) as seen:
        found = read_together(nothing, _teams(), people.filter(pk__in=[alice.pk, root.pk]))
        assert [[str(one) for one in rows] for rows in found] == [
            [],
            [str(team)],
            [str(root), str(alice)],
        ]
    assert len(seen) == 1
    assert read_together(nothing) == [[]]
    assert read_together() == []


def test_nothing_asked_is_no_statement_and_an_exception_leaves_nothing(team):
    with CaptureQueriesContext(connection) as seen:
        with asked_together([]):
            pass
        with pytest.raises(ZeroDivisionError), asked_together([(TEAMS, ())]):
            raise ZeroDivisionError
        TEAMS.read()
    assert len(seen) == 2


def test_a_type_that_would_lose_something_on_the_way_is_refused(root):
    what = pytest.raises(TypeError, match="price_per_gpu_hour cannot be asked together")
    with what, asked_together([(PRICES, ())]):
        pass


def test_more_than_a_database_puts_together_are_asked_in_parts(team):
    asked = [(NOBODY, (f"n{number}",)) for number in range(2 * AT_ONCE)]
    with CaptureQueriesContext(connection) as seen, asked_together([*asked, (TEAMS, ())]):
        assert NOBODY.read("n1") == [] and [str(one) for one in TEAMS.read()] == [str(team)]
    assert len(seen) == 3
