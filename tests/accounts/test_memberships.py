"""Joining, changing roles, leaving; invitations; who may do it."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest
from django.contrib.auth.models import Group

from accounts.errors import Conflict, DomainError, Forbidden, Invalid, NotFound
from accounts.models import AuditEvent, Invitation, Membership, Role, User
from accounts.permissions import can
from accounts.selectors import get_open_invitation, invitations_of, members_of
from accounts.services import (
    accept_invitation,
    add_member,
    change_role,
    invitations,
    invite,
    leave_team,
    remove_member,
    revoke_invitation,
)
from accounts.services.ending.access import deactivate_person
from accounts.services.invitations import INVITATION_LIFE, MAX_OPEN
from tests.factories import PASSWORD, person
from tests.locks import just_before
from tests.scenes import NOON

pytestmark = pytest.mark.django_db


def _groups(user: User) -> set[str]:
    return set(Group.objects.filter(user=user).values_list("name", flat=True))


def test_a_membership_and_its_group_go_together(root, team, other_team):
    user = person("dave")
    add_member(actor=root, team=team, user=user)
    add_member(actor=root, team=other_team, user=user, role=Role.LEAD)
    assert _groups(user) == {f"team:{team.pk}:member", f"team:{other_team.pk}:lead"}
    change_role(actor=root, team=team, user=user, role=Role.FINANCE)
    assert _groups(user) == {f"team:{team.pk}:finance", f"team:{other_team.pk}:lead"}
    remove_member(actor=root, team=team, user=user)
    leave_team(actor=root, team=other_team)
    assert _groups(user) == {f"team:{other_team.pk}:lead"}


@pytest.mark.parametrize("who", ["alice", "finance", "operator", "carol"])
def test_only_leads_change_members(request, team, bob, who):
    actor = request.getfixturevalue(who)
    user = person("dave")
    for act in (
        lambda: add_member(actor=actor, team=team, user=user),
        lambda: change_role(actor=actor, team=team, user=bob, role=Role.LEAD),
        lambda: remove_member(actor=actor, team=team, user=bob),
        lambda: invite(actor=actor, team=team, email="x@example.org"),
    ):
        with pytest.raises(Forbidden):
            act()
    assert Membership.objects.get(user=bob).role == Role.MEMBER
    assert not Membership.objects.filter(user=user).exists()
    assert not Invitation.objects.exists()


def test_a_lead_takes_the_place_of_no_invitation_that_only_operators_withdraw(root, lead, team):
    _, secret = invite(actor=root, team=team, email="c@example.org", role="operator")
    with pytest.raises(Invalid, match="open invitation as operator") as refused:
        invite(actor=lead, team=team, email="C@example.org")
    assert refused.value.field == "email"
    assert get_open_invitation(secret).role == "operator"
    invite(actor=root, team=team, email="c@example.org")
    invite(actor=lead, team=team, email="c@example.org")


def test_only_operators_make_and_unmake_operators(root, lead, team, bob):
    for act in (
        lambda: change_role(actor=lead, team=team, user=bob, role=Role.OPERATOR),
        lambda: invite(actor=lead, team=team, email="x@example.org", role=Role.OPERATOR),
    ):
        with pytest.raises(Forbidden, match="operator"):
            act()
    change_role(actor=root, team=team, user=bob, role=Role.OPERATOR)
    for act in (
        lambda: change_role(actor=lead, team=team, user=bob, role=Role.MEMBER),
        lambda: add_member(actor=lead, team=team, user=bob, role=Role.MEMBER),
        lambda: remove_member(actor=lead, team=team, user=bob),
    ):
        with pytest.raises(Forbidden, match="operator"):
            act()


def test_a_team_keeps_a_lead(root, team, alice):
    for act in (
        lambda: leave_team(actor=root, team=team),
        lambda: remove_member(actor=root, team=team, user=root),
        lambda: change_role(actor=root, team=team, user=root, role=Role.MEMBER),
        lambda: add_member(actor=root, team=team, user=root, role=Role.MEMBER),
    ):
        with pytest.raises(Conflict, match="last lead"):
            act()
    change_role(actor=root, team=team, user=alice, role=Role.LEAD)
    leave_team(actor=root, team=team)
    assert [m.user for m in members_of(alice, team)] == [alice]


def test_a_lead_who_is_let_in_no_longer_is_none_that_stays(root, team, alice):
    change_role(actor=root, team=team, user=alice, role=Role.LEAD)
    User.objects.filter(pk=alice.pk).update(is_active=False)
    with pytest.raises(Conflict, match="last lead"):
        leave_team(actor=root, team=team)


def test_who_waited_for_a_change_may_have_lost_the_right(root, team, alice, carol):
    for other in (alice, carol):
        add_member(actor=root, team=team, user=other, role=Role.LEAD)
    assert can(alice, "manage_team", team), "as at the begin of a request"
    remove_member(actor=carol, team=team, user=User.objects.get(pk=alice.pk))
    with pytest.raises(Forbidden):
        remove_member(actor=alice, team=team, user=carol)


def test_roles_and_people_that_are_not_there(root, team, carol):
    with pytest.raises(Invalid) as refused:
        add_member(actor=root, team=team, user=carol, role="king")
    assert refused.value.field == "role"
    with pytest.raises(NotFound):
        change_role(actor=root, team=team, user=carol, role=Role.LEAD)
    with pytest.raises(NotFound):
        leave_team(actor=carol, team=team)


def test_an_invitation_opens_once_and_only_its_hash_is_kept(lead, team):
    _, secret = invite(actor=lead, team=team, email="new@example.org", now=NOON)
    assert secret not in str(Invitation.objects.values().get())
    user = accept_invitation(secret=secret, username="newbie", password=PASSWORD, now=NOON)
    assert user.email == "new@example.org"
    assert user.check_password(PASSWORD)
    assert Membership.objects.get(user=user).role == Role.MEMBER
    with pytest.raises(NotFound):
        accept_invitation(secret=secret, username="other", password=PASSWORD, now=NOON)
    assert not User.objects.filter(username="other").exists()
    assert not invitations_of(lead, team, now=NOON).exists()


def test_an_invitation_ends_by_time_by_hand_and_by_a_new_one(lead, team):
    _, late = invite(actor=lead, team=team, email="a@example.org", now=NOON)
    gone, taken_back = invite(actor=lead, team=team, email="b@example.org", now=NOON)
    _, older = invite(actor=lead, team=team, email="c@example.org", now=NOON)
    _, newer = invite(actor=lead, team=team, email="C@example.org", now=NOON)
    (replaced,) = AuditEvent.objects.filter(action="invitation.revoke")
    assert replaced.subject_label.startswith("c@example.org") and "its place" in replaced.reason
    revoke_invitation(actor=lead, invitation=gone, now=NOON)
    for secret in (taken_back, older, "", "x" * 10_000, "\x00", "\ud800"):
        with pytest.raises(NotFound):
            get_open_invitation(secret, now=NOON)
    assert get_open_invitation(newer, now=NOON)
    assert get_open_invitation(late, now=NOON + INVITATION_LIFE - timedelta(seconds=1))
    with pytest.raises(NotFound):
        get_open_invitation(late, now=NOON + INVITATION_LIFE)


def test_an_invitation_withdrawn_in_the_moment_of_its_accept_is_not_accepted(
    lead, team, monkeypatch
):
    sent, secret = invite(actor=lead, team=team, email="new@example.org", now=NOON)
    withdraw = partial(revoke_invitation, actor=lead, invitation=sent, now=NOON)
    just_before(monkeypatch, invitations, "create_user", withdraw)
    with pytest.raises(Conflict, match="withdrawn"):
        accept_invitation(secret=secret, username="newbie", password=PASSWORD, now=NOON)
    assert not User.objects.filter(username="newbie").exists()


def test_an_invitation_is_withdrawn_once_and_not_after_it_was_accepted(lead, team):
    sent, secret = invite(actor=lead, team=team, email="new@example.org", now=NOON)
    accept_invitation(secret=secret, username="newbie", password=PASSWORD, now=NOON)
    with pytest.raises(Conflict, match="accepted"):
        revoke_invitation(actor=lead, invitation=sent, now=NOON)
    sent, _ = invite(actor=lead, team=team, email="two@example.org", now=NOON)
    revoke_invitation(actor=lead, invitation=sent, now=NOON)
    with pytest.raises(Conflict, match="withdrawn"):
        revoke_invitation(actor=lead, invitation=sent, now=NOON)
    assert AuditEvent.objects.filter(action="invitation.revoke").count() == 1


@pytest.mark.parametrize("ends", ["removed", "deactivated", "lowered"])
def test_an_invitation_ends_with_the_right_of_who_sent_it(root, lead, carol, team, ends):
    add_member(actor=root, team=team, user=carol, role=Role.LEAD)
    _, secret = invite(actor=carol, team=team, email="new@example.org", role=Role.LEAD, now=NOON)
    assert get_open_invitation(secret, now=NOON)
    if ends == "removed":
        remove_member(actor=root, team=team, user=carol)
    elif ends == "lowered":
        change_role(actor=root, team=team, user=carol, role=Role.MEMBER)
    else:
        deactivate_person(actor=root, user=carol, reason="left")
    with pytest.raises(NotFound, match="may not invite any more"):
        accept_invitation(secret=secret, username="newbie", password=PASSWORD, now=NOON)
    assert not User.objects.filter(username="newbie").exists()


def test_a_refused_account_keeps_the_invitation_and_writes_nothing(lead, team, bob):
    _, secret = invite(actor=lead, team=team, email="new@example.org", now=NOON)
    people = User.objects.count()
    for username, password in (("bob", PASSWORD), ("newbie", "123"), ("", PASSWORD)):
        with pytest.raises(DomainError):
            accept_invitation(secret=secret, username=username, password=password, now=NOON)
    assert User.objects.count() == people
    assert get_open_invitation(secret, now=NOON)


def test_joining_by_invitation_never_lowers_a_role(root, lead, team):
    _, secret = invite(actor=root, team=team, email="x@example.org", now=NOON)
    accept_invitation(secret=secret, user=lead, now=NOON)
    assert Membership.objects.get(user=lead, team=team).role == Role.LEAD
    told = AuditEvent.objects.get(action="invitation.accept")
    assert '"role":"lead"' in told.after and "keep their role" in told.reason


@pytest.mark.parametrize(
    "email", ["", "x", "a@b", "a@example.org\nBcc: c@example.org", "BOB@example.org", "\x00"]
)
def test_addresses_that_cannot_be_invited(lead, team, bob, email):
    with pytest.raises(Invalid) as refused:
        invite(actor=lead, team=team, email=email)
    assert refused.value.field == "email"


def test_open_invitations_are_limited(lead, team):
    for number in range(MAX_OPEN):
        invite(actor=lead, team=team, email=f"p{number}@example.org", now=NOON)
    with pytest.raises(Invalid, match="withdraw one"):
        invite(actor=lead, team=team, email="more@example.org", now=NOON)
    assert invite(actor=lead, team=team, email="p1@example.org", now=NOON)
