"""Acting for somebody else: between two dates, within a scope, and never lent on."""

from __future__ import annotations

import contextlib
from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from accounts.errors import Conflict, DomainError, Forbidden, Invalid, NotFound
from accounts.models import AuditEvent, Delegation, User
from accounts.permissions import (
    acting_for,
    can,
    can_act_for,
    projects_visible_to,
    team_ids_acted_for,
    teams_visible_to,
)
from accounts.services import (
    accept_invitation,
    add_member,
    change_role,
    create_project,
    create_team,
    delegate,
    end_delegation,
    give_role,
    invite,
    remove_member,
    rename_team,
)
from tests.factories import person

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def anew(user: User) -> User:
    return User.objects.get(pk=user.pk)


def lend(giver, deputy, scope="approve_requests", team=None, *, start=None, hours=24, **more):
    start = start or timezone.now()
    return delegate(
        actor=giver,
        deputy=deputy,
        scope=scope,
        team=team,
        starts_at=start,
        ends_at=start + hours * HOUR,
        **more,
    )


def test_a_deputy_decides_for_the_lead_in_that_team_alone(lead, carol, team, other_team):
    lend(lead, carol, team=team)
    deputy = anew(carol)
    assert acting_for(deputy, "approve_requests", team) == (lead,)
    assert can_act_for(deputy, lead, "approve_requests", team)
    assert not acting_for(deputy, "approve_requests", other_team)
    assert not acting_for(deputy, "manage_team", team)
    # The decision says for whom it is, so the plain question is still answered no.
    assert not can(deputy, "approve_requests", team)


def test_outside_its_time_it_has_no_effect(lead, carol, team):
    now = timezone.now()
    lend(lead, carol, team=team, start=now + HOUR)
    assert not acting_for(anew(carol), "approve_requests", team)
    lend(lead, carol, scope="manage_team", team=team)
    assert can(anew(carol), "manage_team", team)
    Delegation.objects.update(starts_at=now - 2 * HOUR, ends_at=now - HOUR)
    assert not can(anew(carol), "manage_team", team)
    assert not acting_for(anew(carol), "approve_requests", team)


def test_a_time_that_begins_or_ends_within_one_request_counts(lead, carol, team, monkeypatch):
    start = timezone.now()
    lend(lead, carol, team=team, start=start + HOUR, hours=1)
    deputy = anew(carol)
    for minutes, holds in ((0, False), (61, True), (119, True), (120, False)):
        moment = start + timedelta(minutes=minutes)
        monkeypatch.setattr(timezone, "now", lambda moment=moment: moment)
        assert bool(acting_for(deputy, "approve_requests", team)) is holds


def test_it_ends_with_the_givers_own_right(root, lead, carol, team):
    lend(lead, carol, team=team)
    change_role(actor=root, team=team, user=lead, role="member")
    assert not acting_for(anew(carol), "approve_requests", team)
    User.objects.filter(pk=lead.pk).update(is_active=False)
    assert not acting_for(anew(carol), "approve_requests", team)


def test_what_was_lent_is_not_lent_on(lead, carol, bob, team):
    lend(lead, carol, scope="manage_team", team=team)
    assert can(anew(carol), "manage_team", team)
    for scope in ("manage_team", "approve_requests"):
        with pytest.raises(Forbidden, match="own right"):
            lend(anew(carol), bob, scope=scope, team=team)
    assert Delegation.objects.count() == 1


def test_a_deputy_manages_the_team_in_the_leads_name(lead, carol, bob, team, project):
    lend(lead, carol, scope="manage_team")
    deputy = anew(carol)
    assert set(teams_visible_to(deputy, "manage_team")) == {team}
    assert project in projects_visible_to(deputy)
    assert not can(deputy, "read_log", project)
    rename_team(actor=deputy, team=team, name="Seeing")
    create_project(actor=deputy, team=team, name="Fresh")
    change_role(actor=deputy, team=team, user=bob, role="finance")
    add_member(actor=deputy, team=team, user=person("newcomer"))
    remove_member(actor=deputy, team=team, user=bob)
    done = AuditEvent.objects.filter(actor=carol).values_list("action", "on_behalf_of_name")
    assert set(done) == {
        (action, "lead")
        for action in (
            "team.rename",
            "project.create",
            "member.change_role",
            "member.add",
            "member.remove",
        )
    }


def test_a_deputy_gives_nothing_to_themselves_and_makes_no_lead(root, lead, carol, bob, team):
    lend(lead, carol, scope="manage_team", team=team)
    deputy = anew(carol)
    with pytest.raises(Forbidden, match="yourself"):
        add_member(actor=deputy, team=team, user=deputy)
    with pytest.raises(Forbidden, match="lead"):
        change_role(actor=deputy, team=team, user=bob, role="lead")
    with pytest.raises(Forbidden, match="lead"):
        change_role(actor=deputy, team=team, user=root, role="member")
    with pytest.raises(Forbidden, match="lead"):
        remove_member(actor=deputy, team=team, user=root)
    _, secret = invite(actor=deputy, team=team, email="carol.two@example.org")
    with pytest.raises(Forbidden, match="yourself"):
        accept_invitation(secret=secret, user=anew(carol))


def test_administrators_and_finance_lend_their_decisions(root, alice, carol):
    lend(root, alice)
    assert acting_for(anew(alice), "decide_requests", None) == (root,)
    clerk = person("clerk")
    give_role(actor=root, user=clerk, role="finance")
    lend(clerk, carol)
    assert acting_for(anew(carol), "decide_spending", None) == (clerk,)
    assert not acting_for(anew(carol), "decide_requests", None)
    assert not acting_for(anew(carol), "keep_books", None)
    assert not can(anew(carol), "keep_books", None)


def test_bad_input_is_named(lead, alice, carol, team, other_team):
    now = timezone.now()
    with pytest.raises(Forbidden):
        lend(alice, carol, team=team)
    with pytest.raises(Forbidden):
        lend(lead, carol, team=other_team)
    gone = person("gone")
    User.objects.filter(pk=gone.pk).update(is_active=False)
    bad = {
        "deputy": [{"deputy": lead}, {"deputy": anew(gone)}],
        "scope": [{"scope": "everything"}],
        "starts_at": [{"start": now - HOUR}, {"start": datetime(2030, 1, 1)}],
        "ends_at": [{"hours": 0}, {"hours": -1}, {"hours": 24 * 400}],
    }
    for field, changes in bad.items():
        for change in changes:
            with pytest.raises(Invalid) as refused:
                lend(lead, **{"deputy": carol, "team": team, **change})
            assert refused.value.field == field, change
    assert not Delegation.objects.exists()


def test_either_of_the_two_ends_it_and_nobody_else(lead, carol, bob, team):
    made = lend(lead, carol, team=team)
    with pytest.raises(NotFound):
        end_delegation(actor=bob, delegation=made)
    end_delegation(actor=anew(carol), delegation=made)
    assert not acting_for(anew(carol), "approve_requests", team)
    with pytest.raises(Conflict):
        end_delegation(actor=lead, delegation=made)
    found = AuditEvent.objects.filter(action__startswith="delegation.").order_by("pk")
    assert list(found.values_list("actor_name", "action")) == [
        ("lead", "delegation.give"),
        ("carol", "delegation.end"),
    ]


def test_who_acts_for_nobody_pays_no_query_for_it(
    lead, alice, carol, team, django_assert_num_queries
):
    for hours in range(1, 4):
        lend(lead, carol, team=team, start=timezone.now() + hours * HOUR)
    free, deputy = anew(alice), anew(carol)
    with django_assert_num_queries(1):
        assert not acting_for(free, "approve_requests", team)
    with django_assert_num_queries(2):
        assert not any(acting_for(deputy, "approve_requests", team) for _ in range(5))


@pytest.mark.parametrize("scope", ["approve_requests", "manage_team"])
@pytest.mark.parametrize("is_all", [False, True])
def test_the_teams_acted_for_are_those_one_acts_for(
    lead, carol, alice, root, team, other_team, scope, is_all
):
    """Told at once as they are told one by one, for givers of every kind."""
    below = create_team(actor=lead, name="Below", parent=team)
    for giver in (lead, root, alice):
        with contextlib.suppress(DomainError):
            lend(giver, carol, scope, None if is_all else below)
    deputy = anew(carol)
    for action in ("approve_requests", "manage_team"):
        found = team_ids_acted_for(deputy, action)
        told = {one.pk for one in (team, other_team, below) if acting_for(deputy, action, one)}
        assert told == ({team.pk, other_team.pk, below.pk} if found is None else found)
        assert bool(told) == (scope == action)


class TestTheForm:
    """And the same over REST with a session."""

    @pytest.fixture
    def send(self, client):
        day = timezone.now().date()
        form = {"scope": "manage_team", "team": "vision", "first_day": day}
        form |= {"last_day": day + timedelta(days=3)}
        start, end = (f"{day + timedelta(days=days)}T00:00:00Z" for days in (1, 4))
        times = {"starts_at": start, "ends_at": end}
        sent = {"scope": "manage_team", "team": "vision", **times}

        def by(user, deputy, *, over_rest=False, **more):
            client.force_login(user)
            if over_rest:
                body = {**sent, "deputy": deputy, **more}
                path = "/api/v1/delegations/"
                return client.post(path, body, content_type="application/json")
            return client.post("/settings/delegations/", {**form, "deputy": deputy, **more})

        return by

    @pytest.mark.parametrize("over_rest", [False, True])
    def test_who_lends_nothing_is_told_of_nobody(self, send, lead, alice, carol, team, over_rest):
        there, missing = (send(alice, name, over_rest=over_rest) for name in ("carol", "nobody"))
        assert there.status_code == missing.status_code == 403
        assert send(lead, "carol", over_rest=over_rest).status_code in (201, 302)

    def test_the_last_day_there_is_is_refused_by_its_field(self, send, lead, carol, team):
        page = send(lead, "carol", last_day="9999-12-31")
        assert page.status_code == 200
        assert "2999-12-31" in page.context["form"].errors["last_day"][0]
