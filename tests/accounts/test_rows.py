"""Rows as columns, objects of a few columns, and what stands in a statement itself."""

from __future__ import annotations

import pytest
from django.db.models import Avg, BigIntegerField, Count, Value
from django.db.models.functions import Cast

from accounts.models import Project, Team
from accounts.models.rows import partly_read, partly_reading
from accounts.statements import Null, RealNumber, WholeNumber, Word

pytestmark = pytest.mark.django_db


def test_an_object_of_a_few_columns_is_what_the_database_makes(project):
    names = ("id", "slug", "team_id")
    read = Project.objects.only("slug", "team_id").get()
    made = partly_reading(Project, names)((project.pk, project.slug, project.team_id))
    assert made == read and not made._state.adding and made._state.db == read._state.db
    assert made.get_deferred_fields() == read.get_deferred_fields() >= {"name", "created_at"}
    assert (made.name, made.team) == (project.name, project.team)
    made.slug = "renamed"
    made.save(update_fields=["slug"])
    assert Project.objects.get().slug == "renamed"
    assert partly_read(Team, id=project.team_id).slug == project.team.slug


def test_a_word_of_our_own_is_what_it_would_be_beside_the_statement(project):
    found = Project.objects.filter(slug=Word(project.slug))
    assert list(found) == [project] and f"'{project.slug}'" in str(found.query)
    assert not Project.objects.filter(slug=Word("other")).exists()
    for word in ("it's", "two words", "", "näher", "a-b"):
        with pytest.raises(ValueError, match="no word of our own"):
            Word(word)


def test_nothing_is_grouped_by_what_says_nothing(project):
    counted = Team.objects.order_by().annotate(none=Null(BigIntegerField())).values("none", "slug")
    rows = counted.annotate(many=Count("projects", output_field=WholeNumber()))
    assert list(rows) == [{"none": None, "slug": project.team.slug, "many": 1}]
    assert "GROUP BY" in str(rows.query) and "CAST" not in str(rows.query).partition("GROUP BY")[2]


def test_whole_numbers_are_what_both_databases_say(project):
    number = WholeNumber()
    rows = Team.objects.annotate(five=Value(5, number), none=Null(number), pk_=Count("pk"))
    (found,) = rows.order_by().values_list("five", "none", "pk_")
    assert found == (5, None, 1) and type(found[0]) is int


def test_real_numbers_are_what_both_databases_say(project):
    number = RealNumber()
    rows = Team.objects.annotate(half=Cast(Value(0.5), number), none=Null(number)).order_by()
    (found,) = rows.values_list("half", "none", Avg("half"))
    assert found == (0.5, None, 0.5) and {type(found[0]), type(found[2])} == {float}
