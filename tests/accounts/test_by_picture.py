"""What pages ask for is written down once for each picture of rights, and answers as ever."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db.models import Exists, F, FloatField, OuterRef, QuerySet, Subquery, Value
from django.db.models.functions import Cast, Coalesce, TruncDay
from django.utils import timezone

from accounts.held import picture_of
from accounts.models import AuditEvent, Project, User
from accounts.permissions import projects_visible_to
from accounts.services import add_member, delegate
from accounts.statements import AskedOnceFor, CountsOnce
from tests.factories import person

pytestmark = pytest.mark.django_db


@pytest.fixture
def outsider(db) -> User:
    return person("outsider")


def counted(counts: CountsOnce[User], viewer: User) -> Mapping[str, Any]:
    along = counts.along(viewer, picture_of(viewer))
    found: Mapping[str, Any] = User.objects.order_by().values(**along)[0]
    return found


def test_a_number_is_that_of_the_query_and_written_down_once(alice, project, other_project):
    built: list[User] = []

    def queries(viewer: User) -> Mapping[str, QuerySet[Any]]:
        built.append(viewer)
        return {
            "seen": projects_visible_to(viewer),
            "all": Project.objects.order_by()[:1],
            "none": Project.objects.none(),
        }

    counts = CountsOnce(queries)
    for _ in range(2):
        again = User.objects.get(pk=alice.pk)
        assert counted(counts, again) == {"seen": 1, "all": 1, "none": 0}
    assert len(built) == 1


def test_what_somebody_is_given_counts_at_the_next_request(alice, root, other_team, other_project):
    counts = CountsOnce(lambda viewer: {"seen": projects_visible_to(viewer)})
    before = counted(counts, alice)["seen"]
    add_member(actor=root, team=other_team, user=alice)
    again = User.objects.get(pk=alice.pk)
    assert counted(counts, again)["seen"] == before + 1


def test_rights_that_differ_have_pictures_that_differ(alice, bob, root, project):
    bound = User.objects.get(pk=alice.pk)
    bound.bound_project = project.pk
    outside = User.objects.get(pk=alice.pk)
    outside.reads_logs = False
    shown = User.objects.get(pk=alice.pk)
    shown.preview_groups = frozenset()
    pictures = {picture_of(one) for one in (alice, bob, root, bound, outside, shown)}
    assert len(pictures) == 6
    assert picture_of(alice, "jobs") not in pictures
    assert picture_of(User.objects.get(pk=alice.pk)) in pictures


def test_who_acts_for_others_has_no_picture_because_it_ends_with_the_hour(lead, bob, team):
    assert picture_of(bob) is not None
    now = timezone.now()
    delegate(
        actor=lead,
        deputy=bob,
        scope="approve_requests",
        team=team,
        starts_at=now,
        ends_at=now + timedelta(hours=1),
    )
    assert picture_of(User.objects.get(pk=bob.pk)) is None


def seen(viewer: User, pk: int) -> QuerySet[Project]:
    return projects_visible_to(viewer).filter(pk=pk)


def test_a_query_is_built_once_and_gives_each_what_they_see(alice, bob, carol, root, project):
    built: list[User] = []

    def build(viewer: User, pk: int) -> QuerySet[Project]:
        built.append(viewer)
        return seen(viewer, pk)

    query: AskedOnceFor[User] = AskedOnceFor(build)
    counts = []
    for _ in range(2):
        for viewer in (alice, bob, carol, root):
            again = User.objects.get(pk=viewer.pk)
            for pk in (project.pk, project.pk + 1_000):
                found = query.read(again, picture_of(again), pk)
                assert found == list(seen(again, pk))
                assert [one.team.name for one in found] == [project.team.name] * len(found)
        counts.append(Counter(one.username for one in built))
    # Twice with stand-ins and once with usual values; for whoever sees no project once.
    assert counts == [{"alice": 3, "bob": 3, "root": 3, "carol": 1}] * 2


def test_without_a_picture_it_is_built_each_time(alice, project):
    built: list[int] = []

    def build(viewer: User, pk: int) -> QuerySet[Project]:
        built.append(pk)
        return seen(viewer, pk)

    query: AskedOnceFor[User] = AskedOnceFor(build)
    for _ in range(2):
        assert query.read(alice, None, project.pk) == [project]
    assert built == [project.pk, project.pk]


def test_nobody_sees_nothing_and_no_statement_is_asked(
    db, project, outsider, django_assert_num_queries
):
    query: AskedOnceFor[User] = AskedOnceFor(seen)
    picture = picture_of(outsider)
    with django_assert_num_queries(0):
        assert query.read(outsider, picture, project.pk) == []
        assert query.read(outsider, picture, project.pk) == []
    assert picture_of(AnonymousUser()) is None


def told(_viewer: User, since: datetime) -> QuerySet[AuditEvent]:
    """Columns of every kind: of the model and of another, moments, flags and numbers."""
    newer = AuditEvent.objects.filter(pk__gt=OuterRef("pk"))
    return (
        AuditEvent.objects.filter(at__gte=since)
        .select_related("actor")
        .annotate(
            day=TruncDay("at"),
            next_at=Subquery(newer.order_by("pk").values("at")[:1]),
            is_last=~Exists(newer),
            number=F("pk") + 1,
            share=Cast("pk", FloatField()) / 2,
            word=Coalesce(Subquery(newer.order_by("pk").values("action")[:1]), Value("none")),
        )
        .order_by("pk")
    )


@pytest.mark.parametrize("fields", [(), ("pk", "day", "next_at", "actor__username")])
def test_what_is_kept_makes_the_same_objects(alice, project, fields):
    """Though the query that says of what kind each column is has gone."""

    def build(viewer: User, since: datetime) -> QuerySet[Any]:
        rows = told(viewer, since)
        return rows.values_list(*fields) if fields else rows

    since = timezone.now() - timedelta(days=1)
    query: AskedOnceFor[User] = AskedOnceFor(build)
    found = [query.read(alice, "alice", since) for _ in range(2)]
    usual = list(build(alice, since))
    assert len(usual) > 3
    if fields:
        assert found == [usual, usual]
        return
    for objects in found:
        for one, same in zip(objects, usual, strict=True):
            assert vars(one).keys() == vars(same).keys()
            assert one.actor == same.actor and one._state.fields_cache.keys() == {"actor"}
            assert {**vars(one), "_state": 0} == {**vars(same), "_state": 0}
