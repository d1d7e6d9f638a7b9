"""Roles of the organisation: who gives and takes them, and what they let people do."""

from __future__ import annotations

import pytest

from accounts.errors import Conflict, Forbidden, Invalid, NotFound
from accounts.granting import align_rights, grant_project
from accounts.models import (
    AuditEvent,
    Project,
    ProjectGroupObjectPermission,
    RoleGrant,
    Team,
    TeamGroupObjectPermission,
    User,
)
from accounts.permissions import can, people_who_can, projects_visible_to, teams_visible_to
from accounts.policy import COLUMNS, TABLE, TEAM, actions_of, full_name
from accounts.selectors import role_grants
from accounts.services import (
    add_member,
    change_role,
    confirm_role,
    create_project,
    give_role,
    remove_member,
    take_role,
)
from tests.factories import person

pytestmark = pytest.mark.django_db


def anew(user: User) -> User:
    """The person as the next request sees them."""
    return User.objects.get(pk=user.pk)


def actions(user: User, obj: Project | Team | None) -> set[str]:
    kind = "cluster" if obj is None else type(obj).__name__.lower()
    return {action for action in TABLE[kind] if can(user, action, obj)}


@pytest.mark.parametrize("role", ["finance", "operator", "auditor"])
def test_a_role_of_the_organisation_counts_everywhere(root, team, project, role):
    somebody = person("somebody")
    assert not actions(somebody, None)
    give_role(actor=root, user=somebody, role=role)
    column = f"organisation:{role}"
    assert actions(somebody, None) == set(actions_of("cluster", column))
    assert actions(somebody, team) == set(actions_of("team", column))
    assert actions(somebody, project) == set(actions_of("project", column))
    take_role(actor=root, user=somebody, role=role)
    assert not actions(anew(somebody), None) | actions(anew(somebody), project)


def test_what_the_roles_are_kept_from():
    """The sentences of the separation of duties, read off the table itself."""
    everything = {kind: set(rows) for kind, rows in TABLE.items()}
    finance = {k: set(actions_of(k, "organisation:finance")) for k in everything}
    assert not finance["project"] & {"read_log", "read_metrics", "submit_job", "manage_project"}
    operator = {k: set(actions_of(k, "organisation:operator")) for k in everything}
    assert not operator["cluster"] & {"keep_books", "read_books"}
    changing = {"keep_books", "operate_cluster", "administer_cluster", "submit_job"}
    changing |= {"manage_project", "manage_team", "approve_requests"}
    auditor = {a for k in everything for a in actions_of(k, "organisation:auditor")}
    assert not auditor & changing
    assert {"read_audit", "read_books", "read_settings"} <= auditor
    assert all(roles <= set(COLUMNS) for rows in TABLE.values() for roles in rows.values())


def test_querysets_say_the_same_as_can(root, team, project, other_project):
    for role in ("finance", "operator", "auditor"):
        user = person(f"a-{role}")
        give_role(actor=root, user=user, role=role)
        for action in TABLE["project"]:
            seen = set(projects_visible_to(user, action))
            assert seen == {p for p in (project, other_project) if can(user, action, p)}
        for action in TABLE["team"]:
            seen = set(teams_visible_to(user, action))
            assert seen == {t for t in (team, other_project.team) if can(user, action, t)}


def test_only_administrators_give_and_nobody_to_themselves(root, alice, lead, operator):
    for actor in (alice, lead, operator):
        for deed in (give_role, confirm_role, take_role):
            with pytest.raises(Forbidden):
                deed(actor=actor, user=alice, role="finance")
    with pytest.raises(Forbidden, match="themselves"):
        give_role(actor=root, user=root, role="finance")
    with pytest.raises(Invalid, match="Choose one of"):
        give_role(actor=root, user=alice, role="king")
    with pytest.raises(NotFound):
        take_role(actor=root, user=alice, role="finance")
    assert not RoleGrant.objects.exclude(user=root).exists()


def test_the_second_administrator_is_made_by_one_the_third_by_two(root, alice, bob):
    give_role(actor=root, user=alice, role="admin")
    assert anew(alice).is_superuser
    grant = give_role(actor=root, user=bob, role="admin")
    assert grant.confirmed_at is None
    assert not anew(bob).is_superuser
    for hasty in (root, bob):
        with pytest.raises(Forbidden):
            confirm_role(actor=hasty, user=bob, role="admin")
    confirm_role(actor=anew(alice), user=bob, role="admin")
    assert anew(bob).is_superuser
    with pytest.raises(Conflict):
        confirm_role(actor=anew(alice), user=bob, role="admin")


def test_the_last_administrator_stays(root, alice):
    with pytest.raises(Conflict, match="last"):
        take_role(actor=root, user=root, role="admin")
    give_role(actor=root, user=alice, role="admin")
    take_role(actor=root, user=root, role="admin")
    assert not anew(root).is_superuser
    with pytest.raises(Forbidden):
        take_role(actor=anew(root), user=alice, role="admin")


def test_who_was_shut_out_meanwhile_gives_confirms_and_takes_nothing(root, alice, bob):
    give_role(actor=root, user=alice, role="admin")
    asking = anew(alice)
    take_role(actor=root, user=anew(alice), role="admin")
    assert asking.is_superuser, "as its request found it"
    for act in (give_role, confirm_role, take_role):
        with pytest.raises(Forbidden):
            act(actor=asking, user=bob, role="finance")


def test_nobody_is_made_an_administrator_while_shut_out(root, alice, bob):
    give_role(actor=root, user=alice, role="admin")
    give_role(actor=root, user=bob, role="admin")
    User.objects.filter(pk=bob.pk).update(is_active=False)
    with pytest.raises(Conflict, match="not active"):
        confirm_role(actor=anew(alice), user=bob, role="admin")
    with pytest.raises(Invalid, match="not active"):
        give_role(actor=root, user=bob, role="finance")


def test_a_withdrawn_grant_gives_nothing(root, alice, bob):
    give_role(actor=root, user=alice, role="admin")
    give_role(actor=root, user=bob, role="admin")
    take_role(actor=root, user=bob, role="admin")
    with pytest.raises(NotFound):
        confirm_role(actor=anew(alice), user=bob, role="admin")
    assert not anew(bob).is_superuser


def test_an_auditor_holds_no_other_role(root, alice):
    give_role(actor=root, user=alice, role="finance")
    with pytest.raises(Conflict, match="changes nothing"):
        give_role(actor=root, user=alice, role="auditor")
    take_role(actor=root, user=alice, role="finance")
    give_role(actor=root, user=alice, role="auditor")
    with pytest.raises(Conflict, match="changes nothing"):
        give_role(actor=root, user=alice, role="operator")


def test_an_auditor_is_an_operator_of_no_team(root, alice, bob, team, other_team):
    add_member(actor=root, team=other_team, user=alice, role="operator")
    with pytest.raises(Conflict, match="operator in speech"):
        give_role(actor=root, user=alice, role="auditor")
    change_role(actor=root, team=other_team, user=alice, role="member")
    give_role(actor=root, user=alice, role="auditor")
    for member in (alice, bob):
        give_role(actor=root, user=member, role="auditor")
        with pytest.raises(Conflict, match="take the auditor role away"):
            change_role(actor=root, team=team, user=member, role="operator")
    remove_member(actor=root, team=other_team, user=alice)
    with pytest.raises(Conflict, match="take the auditor role away"):
        add_member(actor=root, team=other_team, user=alice, role="operator")
    assert not can(anew(alice), "operate", None)


def test_the_list_names_administrators_nobody_appointed(root, alice, lead):
    give_role(actor=root, user=alice, role="auditor")
    assert [(g.user.username, g.role) for g in role_grants(anew(alice))] == [
        ("root", "admin"),
        ("alice", "auditor"),
    ]
    with pytest.raises(Forbidden):
        role_grants(lead)
    assert set(people_who_can("keep_books", None)) == {root}
    assert set(people_who_can("read_audit", None)) == {root, alice}


def test_stored_rights_follow_the_table(root, team, project, alice, lead):
    """A new version that added and removed rights, as rows that are missing and too many."""
    create_project(actor=root, team=team, name="Second")
    assert align_rights() == 0
    rows = TeamGroupObjectPermission.objects.filter(content_object=team)
    rows.filter(permission__codename="approve_requests").delete()
    member = rows.filter(group__name=f"{TEAM}{team.pk}:member").first()
    assert member is not None
    manage = rows.filter(permission__codename="manage_team").first()
    assert manage is not None
    TeamGroupObjectPermission.objects.create(
        group=member.group, content_object=team, permission=manage.permission
    )
    assert not can(anew(lead), "approve_requests", team)
    assert can(anew(alice), "manage_team", team)
    assert align_rights() == 2
    assert can(anew(lead), "approve_requests", team)
    assert not can(anew(alice), "manage_team", team)


def test_rights_on_a_project_take_four_statements(root, team, django_assert_num_queries):
    """However many actions and roles there are; again they change nothing."""
    project = create_project(actor=root, team=team, name="Third")
    rights = ProjectGroupObjectPermission.objects.filter(content_object=project)
    there = sorted(rights.values_list("group__name", "permission__codename"))
    wanted = {role: actions_of("project", TEAM + role) for role in ("member", "lead", "service")}
    assert all(
        (f"{TEAM}{team.pk}:{role}", action) in there
        for role, actions in wanted.items()
        for action in actions
    )
    with django_assert_num_queries(4):  # groups counted and read, permissions, rights
        grant_project(project)
    assert sorted(rights.values_list("group__name", "permission__codename")) == there


def test_every_role_of_a_team_has_what_the_table_says(root, team, project, alice):
    for role in ("member", "lead", "finance", "operator"):
        change_role(actor=root, team=team, user=alice, role=role)
        somebody = anew(alice)
        assert actions(somebody, team) == set(actions_of("team", TEAM + role))
        assert actions(somebody, project) == set(actions_of("project", TEAM + role))


def test_short_names_are_names_of_the_table():
    assert full_name("team", "view") == "view_team"
    for kind in TABLE:
        with pytest.raises(KeyError):
            full_name(kind, "veiw")


def test_every_change_is_in_the_audit_trail(root, alice, bob):
    give_role(actor=root, user=alice, role="admin")
    give_role(actor=root, user=bob, role="admin")
    confirm_role(actor=anew(alice), user=bob, role="admin")
    take_role(actor=root, user=bob, role="admin")
    events = AuditEvent.objects.filter(action__startswith="role.").order_by("pk")
    assert [(e.actor_name, e.action, e.subject_label) for e in events] == [
        ("root", "role.give", "alice"),
        ("root", "role.propose", "bob"),
        ("alice", "role.confirm", "bob"),
        ("root", "role.take", "bob"),
    ]
