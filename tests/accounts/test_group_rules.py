"""What groups elsewhere give and take back, and whom a change of the rules concerns."""

from __future__ import annotations

import pytest
from allauth.socialaccount.models import SocialAccount
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.errors import Conflict, Forbidden, Invalid, NotFound
from accounts.models import AuditEvent, Membership, OrganisationRole, Role, RoleGrant
from accounts.permissions import can
from accounts.services import change_role, give_role
from accounts.services.identities import entering
from accounts.services.identities.claims import Claims
from accounts.services.identities.entering import enter
from accounts.services.identities.following import follow_groups
from accounts.services.identities.planning import Held, Step, steps_for
from accounts.services.identities.rules import (
    add_group_rule,
    get_group_rule,
    group_rules,
    preview_adding,
    preview_removing,
    remove_group_rule,
)
from accounts.services.people import free_username

ISSUER = "https://login.example.org"


@pytest.fixture
def believed(settings):
    settings.OIDC_ISSUER, settings.OIDC_NAME = ISSUER, "Work"
    settings.OIDC_NEW_PEOPLE = "groups"


def comes_in(subject: str, *groups: str):
    return enter(claims=Claims(ISSUER, subject, username=subject, groups=frozenset(groups)))[0].user


def roles_of(user):
    return dict(user.memberships.values_list("team__slug", "role"))


RULES = [("a", 1, "member"), ("b", 1, "lead"), ("f", 1, "finance"), ("o", None, "operator")]


@pytest.mark.parametrize(
    ("groups", "teams", "organisation", "steps"),
    [
        ({"a"}, {}, {}, [Step(1, "", "member", ("a",))]),
        ({"a", "b", "f"}, {}, {}, [Step(1, "", "lead", ("b",))]),
        ({"a", "f"}, {1: Held("lead", True)}, {}, [Step(1, "lead", "member", ("a",))]),
        ({"a"}, {1: Held("lead", False)}, {}, []),
        (set(), {1: Held("lead", False)}, {"operator": False}, []),
        (
            {"x"},
            {1: Held("lead", True)},
            {"operator": True},
            [
                Step(1, "lead", ""),
                Step(None, "operator", ""),
            ],
        ),
        ({"o"}, {}, {}, [Step(None, "", "operator", ("o",))]),
        ({"o", "a"}, {1: Held("member", True)}, {"operator": True}, []),
        ({"A"}, {}, {}, []),
    ],
)
def test_steps(groups, teams, organisation, steps):
    assert steps_for(groups, RULES, teams, organisation) == steps


@pytest.mark.django_db
def test_groups_give_change_and_take_back_in_a_team_and_in_the_organisation(
    believed, root, team, other_team
):
    add_group_rule(actor=root, group="ml", team=team, role=Role.MEMBER)
    add_group_rule(actor=root, group="heads", team=team, role=Role.LEAD)
    add_group_rule(actor=root, group="ops", team=None, role=OrganisationRole.OPERATOR)
    kim = comes_in("kim", "ml", "ops")
    assert roles_of(kim) == {"vision": "member"}
    assert kim.role_grants.get().role == "operator"
    kim = type(kim).objects.get(pk=kim.pk)
    assert can(kim, "operate", None) and can(kim, "view", team) and not can(kim, "view", other_team)
    comes_in("kim", "heads")
    assert roles_of(kim) == {"vision": "lead"} and not kim.role_grants.exists()
    comes_in("kim")
    assert roles_of(kim) == {}
    kim = type(kim).objects.get(pk=kim.pk)
    assert not can(kim, "operate", None) and not can(kim, "view", team)
    told = AuditEvent.objects.filter(reason__contains="at Work").values_list("action", "reason")
    assert ("member.add", "By groups at Work: ml.") in told
    assert ("role.take", "No group at Work gives it any more.") in told


@pytest.mark.django_db
def test_what_a_hand_changed_is_the_hands(believed, root, team):
    add_group_rule(actor=root, group="ml", team=team, role=Role.MEMBER)
    add_group_rule(actor=root, group="ops", team=None, role=OrganisationRole.OPERATOR)
    kim = comes_in("kim", "ml", "ops")
    change_role(actor=root, team=team, user=kim, role=Role.FINANCE)
    give_role(actor=root, user=kim, role=OrganisationRole.OPERATOR)
    comes_in("kim")
    assert roles_of(kim) == {"vision": "finance"} and kim.role_grants.exists()


@pytest.mark.django_db
def test_the_last_lead_stays_and_an_auditor_holds_no_other_role(believed, root, team):
    add_group_rule(actor=root, group="heads", team=team, role=Role.LEAD)
    add_group_rule(actor=root, group="audit", team=None, role=OrganisationRole.AUDITOR)
    add_group_rule(actor=root, group="ops", team=None, role=OrganisationRole.OPERATOR)
    Membership.objects.filter(team=team).delete()
    kim = comes_in("kim", "heads")
    [left] = follow_groups(user=kim, groups=frozenset())
    assert "last lead" in left and roles_of(kim) == {"vision": "lead"}
    [left] = follow_groups(user=kim, groups=frozenset({"heads", "audit", "ops"}))
    assert "auditor" in left
    assert RoleGrant.objects.filter(user=kim).count() == 1
    assert follow_groups(user=kim, groups=None) == [], "not told is not none"
    assert Membership.objects.get(user=kim).role == Role.LEAD


@pytest.mark.django_db
def test_a_preview_names_whom_a_change_concerns_and_changes_nothing(
    believed, root, team, other_team
):
    rule = add_group_rule(actor=root, group="ml", team=team, role=Role.MEMBER)
    kim, lou = comes_in("kim", "ml", "asr"), comes_in("lou", "ml")
    found = preview_adding(viewer=root, group="asr", team=other_team, role=Role.LEAD)
    assert [(one.person, one.team, one.words) for one in found] == [
        (kim, other_team, "lead in speech")
    ]
    gone = preview_removing(viewer=root, rule=rule)
    assert [(one.person, one.before, one.after) for one in gone] == [
        (kim, "member", ""),
        (lou, "member", ""),
    ]
    assert roles_of(kim) == {"vision": "member"}
    with CaptureQueriesContext(
        connection,
    ) as few:
        preview_removing(viewer=root, rule=rule)
    comes_in("max", "ml")
    with CaptureQueriesContext(connection) as more:
        assert len(preview_removing(viewer=root, rule=rule)) == 3
    assert len(few) == len(more)
    remove_group_rule(actor=root, rule=rule)
    comes_in("lou", "ml", "asr")
    assert roles_of(lou) == {} and group_rules(root) == []
    with pytest.raises(NotFound):
        get_group_rule(root, rule.pk)


@pytest.mark.django_db
def test_bad_rules_are_refused_by_field_and_strangers_by_right(believed, root, team, alice):
    for group, where, role, field in [
        (" ", team, "member", "group"),
        ("x\n", None, "admin", "role"),
        ("a\tb", team, "member", "group"),
        ("x", team, "operator", "role"),
        ("x", None, "member", "role"),
    ]:
        with pytest.raises(Invalid) as refused:
            add_group_rule(actor=root, group=group, team=where, role=role)
        assert refused.value.field == field
    add_group_rule(actor=root, group="x", team=team, role="member")
    with pytest.raises(Conflict, match="already"):
        add_group_rule(actor=root, group="x", team=team, role="lead")
    for call in (
        lambda: add_group_rule(actor=alice, group="y", team=team, role="member"),
        lambda: preview_adding(viewer=alice, group="y", team=team, role="member"),
        lambda: group_rules(alice),
    ):
        with pytest.raises(Forbidden):
            call()


@pytest.mark.parametrize(
    ("told", "groups"),
    [
        ({"groups": ["a", "", 7, "b"]}, {"a", "b"}),
        ({"groups": "a"}, {"a"}),
        ({"groups": {"a": 1}}, set()),
        ({}, set()),
        ({"groups": ["x" * 300, "a\x00"]}, set()),
        ({"groups": [str(n) for n in range(5000)]}, 1000),
        ({"_claim_names": {"groups": "src1"}}, None),
    ],
)
def test_groups_as_they_are_told(told, groups):
    found = Claims.of(ISSUER, {"sub": "1", **told}, groups_claim="groups", trusts_mail=False).groups
    assert (len(found) if isinstance(groups, int) else found) == groups


def test_a_claim_may_lie_within_another():
    told = {"sub": "1", "realm_access": {"roles": ["r"]}}
    for claim, groups in (("realm_access.roles", {"r"}), ("realm_access.no", set())):
        assert Claims.of(ISSUER, told, groups_claim=claim, trusts_mail=True).groups == groups


@pytest.mark.parametrize("subject", ["", 7, None, "x" * 192, "é", "a\x00"])
def test_a_subject_that_cannot_be_kept_is_refused(subject):
    with pytest.raises(Invalid):
        Claims.of(ISSUER, {"sub": subject}, groups_claim="groups", trusts_mail=True)


@pytest.mark.django_db
def test_two_with_one_name_are_two_people(believed, root, team):
    add_group_rule(actor=root, group="ml", team=team, role=Role.MEMBER)
    names = [
        enter(claims=Claims(ISSUER, subject, username="Kim", groups=frozenset({"ml"})))[
            0
        ].user.username
        for subject in ("1", "2", "3")
    ]
    assert names == ["Kim", "Kim-2", "Kim-3"]
    assert free_username("kim") == "kim-4"
    assert SocialAccount.objects.count() == 3


@pytest.mark.django_db
def test_who_comes_in_at_the_same_moment_as_another_of_the_name_gets_the_next_one(
    believed, root, team, monkeypatch
):
    add_group_rule(actor=root, group="ml", team=team, role=Role.MEMBER)
    comes_in("kim", "ml")
    names = iter(["kim", "kim", "kim-2"])
    monkeypatch.setattr(entering, "free_username", lambda wish: next(names))
    who = Claims(ISSUER, "2", username="kim", groups=frozenset({"ml"}))
    assert enter(claims=who)[0].user.username == "kim-2"
    assert Membership.objects.filter(team=team, by_groups=True).count() == 2
