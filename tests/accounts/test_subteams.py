"""Teams below teams: who leads them, what may be moved where, and no circles."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction

from accounts.errors import Forbidden, Invalid
from accounts.models import AuditEvent, Team, User
from accounts.permissions import can, people_who_can, projects_visible_to, teams_visible_to
from accounts.selectors import teams_around
from accounts.services import add_member, create_project, create_team, move_team
from tests.factories import member, person
from tests.locks import both

pytestmark = pytest.mark.django_db


class Undone(Exception):
    """Takes a move back that went through."""


def anew(user: User) -> User:
    return User.objects.get(pk=user.pk)


@pytest.fixture
def chain(root, team) -> list[Team]:
    """vision > one > two > three: as deep as it goes."""
    teams = [team]
    for name in ("One", "Two", "Three"):
        teams.append(create_team(actor=root, name=name, parent=teams[-1]))
    return teams


def test_a_lead_leads_the_teams_below_and_no_other(root, lead, alice, chain, other_team):
    lead = anew(lead)
    deep = create_project(actor=root, team=chain[-1], name="Deep")
    for below in chain:
        assert can(lead, "manage_team", below)
        assert can(lead, "approve_requests", below)
    for action in ("view", "submit_job", "read_log", "view_costs", "manage_project"):
        assert can(lead, action, deep)
        assert deep in projects_visible_to(lead, action)
    assert set(teams_visible_to(lead, "manage_team")) == set(chain)
    assert lead in people_who_can("manage_team", chain[-1])
    assert not can(lead, "view", other_team)
    # A member above is nobody below, and a lead below nobody above.
    assert not can(anew(alice), "view", chain[1])
    low = person("low")
    add_member(actor=root, team=chain[2], user=low, role="lead")
    assert set(teams_visible_to(anew(low))) == set(chain[2:])


def test_rights_below_cost_one_query_however_deep(lead, chain, django_assert_num_queries):
    fresh = anew(lead)
    with django_assert_num_queries(1):
        assert all(can(fresh, "manage_team", one) for one in chain)


def test_circles_are_refused_by_name(root, chain):
    for below, words in ((chain[3], "three is below vision"), (chain[1], "one is below vision")):
        with pytest.raises(Invalid, match=words) as refused:
            move_team(actor=root, team=chain[0], parent=below)
        assert (refused.value.field, refused.value.code) == ("parent", "circular_team")
    with pytest.raises(Invalid, match="below itself"):
        move_team(actor=root, team=chain[0], parent=chain[0])
    assert Team.objects.get(pk=chain[0].pk).parent is None
    with pytest.raises(IntegrityError), transaction.atomic():
        Team.objects.filter(pk=chain[0].pk).update(parent=chain[0])


def test_four_levels_and_no_more(root, chain, other_team):
    with pytest.raises(Invalid, match="5 levels") as refused:
        create_team(actor=root, name="Four", parent=chain[-1])
    assert refused.value.field == "parent"
    with pytest.raises(Invalid, match="5 levels"):
        move_team(actor=root, team=chain[0], parent=other_team)
    move_team(actor=root, team=chain[2], parent=other_team)
    assert Team.objects.get(pk=chain[2].pk).parent == other_team
    move_team(actor=root, team=other_team, parent=chain[0])


def test_a_lead_makes_teams_below_their_own_only(lead, alice, operator, team, other_team):
    made = create_team(actor=lead, name="Below", parent=team)
    assert can(anew(lead), "manage_team", made)
    for nobody in (alice, operator):
        with pytest.raises(Forbidden):
            create_team(actor=nobody, name="Stray", parent=team)
    with pytest.raises(Forbidden):
        create_team(actor=lead, name="Stray", parent=other_team)
    with pytest.raises(Forbidden):
        create_team(actor=lead, name="Stray")


def test_who_moves_a_team_leads_both_ends_or_administers(root, lead, operator, team, other_team):
    stranger = member("stranger", other_team, "lead", by=root)
    for nobody in (lead, stranger, operator):
        with pytest.raises(Forbidden):
            move_team(actor=anew(nobody), team=team, parent=other_team)
    add_member(actor=root, team=other_team, user=lead, role="lead")
    move_team(actor=anew(lead), team=team, parent=other_team)
    assert can(anew(stranger), "read_log", create_project(actor=root, team=team, name="P"))
    # Out from under the other team's eyes: not by oneself.
    with pytest.raises(Forbidden, match="administrators"):
        move_team(actor=anew(lead), team=team, parent=None)
    move_team(actor=root, team=team, parent=None)
    assert not can(anew(stranger), "view", team)
    moves = AuditEvent.objects.filter(action="team.move").order_by("pk")
    assert [(m.actor_name, m.before, m.after) for m in moves] == [
        ("lead", '{"parent":""}', '{"parent":"speech"}'),
        ("root", '{"parent":"speech"}', '{"parent":""}'),
    ]


def test_only_parents_that_would_be_taken_are_offered(root, lead, alice, chain, other_team, team):
    """Led by the viewer, with room for all levels, in no circle; as `move_team` says it."""
    add_member(actor=root, team=other_team, user=lead, role="lead")
    inner = create_team(actor=root, name="Inner", parent=other_team)
    for viewer in (anew(lead), anew(root), anew(alice)):
        for one in (*chain, other_team, inner):
            taken = []
            for parent in Team.objects.exclude(pk=one.parent_id):
                try:
                    with transaction.atomic():
                        move_team(actor=viewer, team=one, parent=parent)
                        taken.append(parent.slug)
                        raise Undone
                except (Undone, Invalid, Forbidden):
                    pass
            offered = [parent.slug for parent in teams_around(viewer, one).parents]
            assert (viewer.username, one.slug, offered) == (viewer.username, one.slug, taken)
    assert offered == []
    assert [one.slug for one in teams_around(anew(lead), chain[3]).parents] != []


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_a_team_made_while_its_parent_is_moved_down_is_not_too_deep(root, chain, other_team):
    def make() -> Team:
        return create_team(actor=anew(root), name="Fifth", parent=Team.objects.get(slug="speech"))

    refused = both(lambda: move_team(actor=root, team=other_team, parent=chain[2]), make)
    assert [one.code for one in refused if isinstance(one, Invalid)] == ["too_many_levels"]
