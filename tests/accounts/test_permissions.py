"""Who may do what: the roles against the actions, one's own things and foreign ones."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import AnonymousUser

from accounts.errors import NotFound
from accounts.models import User
from accounts.permissions import can, projects_visible_to, teams_visible_to
from accounts.selectors import (
    get_visible_project,
    get_visible_team,
    submittable_projects,
    visible_projects,
)
from accounts.services import archive_project, change_role, create_project, remove_member

pytestmark = pytest.mark.django_db

PROJECT_ACTIONS = ("view", "submit_job", "read_log", "view_costs", "manage_project")
TEAM_ACTIONS = ("view", "manage_team", "view_costs")
WORKS = {"view", "submit_job", "read_log", "view_costs"}
ON_PROJECT = {
    "alice": WORKS,
    "lead": WORKS | {"manage_project"},
    "finance": {"view", "view_costs"},
    "operator": set(),
    "carol": set(),
    "root": set(PROJECT_ACTIONS),
}
ON_TEAM = {
    "alice": {"view"},
    "lead": set(TEAM_ACTIONS),
    "finance": {"view", "view_costs"},
    "operator": set(),
    "carol": set(),
    "root": set(TEAM_ACTIONS),
}
ON_CLUSTER = {"operator": {"operate"}, "root": {"operate", "administer"}}


@pytest.fixture
def people(alice, lead, finance, operator, carol, root):
    return {p.username: p for p in (alice, lead, finance, operator, carol, root)}


@pytest.mark.parametrize("name", ON_PROJECT)
def test_the_table_of_roles(people, team, project, name):
    user = people[name]
    assert {a for a in PROJECT_ACTIONS if can(user, a, project)} == ON_PROJECT[name]
    assert {a for a in TEAM_ACTIONS if can(user, a, team)} == ON_TEAM[name]
    cluster = {a for a in ("operate", "administer") if can(user, a, None)}
    assert cluster == ON_CLUSTER.get(name, set())


@pytest.mark.parametrize("name", ON_PROJECT)
def test_querysets_say_the_same_as_can(people, team, project, other_project, name):
    user = people[name]
    for action in PROJECT_ACTIONS:
        seen = set(projects_visible_to(user, action))
        assert seen == {p for p in (project, other_project) if can(user, action, p)}
    for action in TEAM_ACTIONS:
        seen = set(teams_visible_to(user, action))
        assert seen == {t for t in (team, other_project.team) if can(user, action, t)}


def test_an_operator_is_a_member_of_its_own_team_only(operator, other_project, project):
    assert can(operator, "read_log", other_project)
    assert not can(operator, "manage_project", other_project)
    assert not can(operator, "view", project)


def test_nobody_and_the_inactive_may_nothing(alice, team, project):
    User.objects.filter(pk=alice.pk).update(is_active=False)
    gone = User.objects.get(pk=alice.pk)
    for user in (AnonymousUser(), gone):
        assert not any(can(user, action, project) for action in PROJECT_ACTIONS)
        assert not any(can(user, action, team) for action in TEAM_ACTIONS)
        assert not can(user, "operate", None)
        assert not projects_visible_to(user).exists()
        assert not teams_visible_to(user).exists()


def test_a_misspelt_action_is_an_error_and_no_refusal(root, team, project):
    for obj in (project, team, None):
        with pytest.raises(KeyError):
            can(root, "veiw", obj)


def test_a_new_project_is_there_for_the_members_at_once(alice, root, team):
    assert not visible_projects(alice).exists()
    project = create_project(actor=root, team=team, name="Fresh")
    assert list(visible_projects(User.objects.get(pk=alice.pk))) == [project]
    assert can(User.objects.get(pk=alice.pk), "submit_job", project)


def test_an_archived_project_is_seen_but_takes_no_jobs(alice, lead, project):
    archive_project(actor=lead, project=project)
    assert project in visible_projects(alice)
    assert project not in submittable_projects(alice)
    archive_project(actor=lead, project=project, archived=False)
    assert project in submittable_projects(alice)


def test_a_new_role_counts_from_the_next_request(root, alice, team, project):
    change_role(actor=root, team=team, user=alice, role="finance")
    again = User.objects.get(pk=alice.pk)
    assert not can(again, "read_log", project)
    assert not submittable_projects(again).exists()
    remove_member(actor=root, team=team, user=alice)
    assert not can(User.objects.get(pk=alice.pk), "view", project)


@pytest.mark.parametrize(
    "path", ["speech/asr", "speech/none", "none/none", "vision", "", "/", "a/b/c"]
)
def test_foreign_and_missing_look_the_same(alice, project, other_project, path):
    with pytest.raises(NotFound) as foreign:
        get_visible_project(alice, path)
    with pytest.raises(NotFound) as missing:
        get_visible_project(alice, "no/such")
    assert str(foreign.value) == str(missing.value)
    with pytest.raises(NotFound):
        get_visible_team(alice, path.partition("/")[0] if "/" in path else "speech")


def test_asking_often_costs_the_same_queries(alice, root, team, django_assert_num_queries):
    projects = [create_project(actor=root, team=team, name=f"p{n}") for n in range(30)]
    user = User.objects.get(pk=alice.pk)
    with django_assert_num_queries(1):
        assert all(can(user, "read_log", project) for project in projects)
