"""Events of the audit: one for a change, in its transaction, complete and without secrets."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.db import connection, transaction
from django.db.utils import DatabaseError

from accounts.errors import Invalid
from accounts.models import AuditEvent, Role
from accounts.origin import origin
from accounts.services import (
    accept_invitation,
    add_member,
    change_role,
    create_project,
    invite,
    issue_token,
    remove_member,
    rename_team,
)
from accounts.services.audit import HIDDEN, Subject, record, written
from accounts.services.sealing import verify_audit
from tests import factories
from tests.accounts.settling import sealed_in_the_end


def last(action: str) -> AuditEvent:
    return AuditEvent.objects.filter(action=action).latest("pk")


def test_a_change_leaves_one_event_with_everything_it_needs(root, team):
    with origin("request-1234", "192.0.2.7"):
        rename_team(actor=root, team=team, name="Vision and Touch")
    event = last("team.rename")
    assert (event.actor_id, event.actor_name) == (root.pk, "root")
    assert (event.subject_kind, event.subject_id, event.team_id) == ("team", str(team.pk), team.pk)
    assert json.loads(event.before) == {"name": "Vision"}
    assert json.loads(event.after) == {"name": "Vision and Touch"}
    assert (event.request_id, event.ip) == ("request-1234", "192.0.2.7")


def test_it_says_which_program_asked_in_one_plain_line(root, team):
    with origin("request-1234", "192.0.2.7", "curl/8\r\nX: 1\x1b[31m\u202e" + "x" * 300):
        rename_team(actor=root, team=team, name="Touch")
    told = last("team.rename").user_agent
    assert told.startswith("curl/8??X: 1?[31m?x") and len(told) == 200
    rename_team(actor=root, team=team, name="Sight")
    assert last("team.rename").user_agent == ""


def test_what_is_refused_leaves_no_event(root, team, other_team):
    count = AuditEvent.objects.count()
    with pytest.raises(Invalid):
        rename_team(actor=root, team=team, name=other_team.name)
    assert AuditEvent.objects.count() == count


def test_the_event_goes_when_the_change_is_rolled_back(root, team):
    count = AuditEvent.objects.count()
    with pytest.raises(RuntimeError), transaction.atomic():
        rename_team(actor=root, team=team, name="Touch")
        raise RuntimeError
    assert AuditEvent.objects.count() == count


def test_members_come_change_and_go_on_record(root, team):
    user = factories.person("dora")
    add_member(actor=root, team=team, user=user)
    change_role(actor=root, team=team, user=user, role=Role.LEAD)
    remove_member(actor=root, team=team, user=user)
    seen = AuditEvent.objects.filter(subject_id=f"{team.pk}/{user.pk}").order_by("pk")
    assert [event.action for event in seen] == ["member.add", "member.change_role", "member.remove"]
    assert json.loads(seen[1].before) == {"role": "member"}
    assert json.loads(seen[1].after) == {"role": "lead"}


def test_an_invitation_names_who_accepts_it_and_no_secret(root, team):
    _, secret = invite(actor=root, team=team, email="eve@example.org")
    accept_invitation(secret=secret, username="eve", password=factories.PASSWORD)
    assert last("invitation.accept").actor_name == "eve"
    assert last("member.add").actor_name == "eve"
    for event in AuditEvent.objects.all():
        assert secret not in event.before + event.after
        assert factories.PASSWORD not in event.before + event.after


def test_a_token_is_recorded_without_its_secret(alice):
    _, secret = issue_token(actor=alice, name="ci", scopes=["jobs:read"])
    event = last("token.issue")
    assert json.loads(event.after)["scopes"] == ["jobs:read"]
    assert secret not in event.after


def test_a_project_belongs_to_its_team(root, team):
    project = create_project(actor=root, team=team, name="Digits")
    assert last("project.create").team_id == team.pk
    assert last("project.create").subject_label == project.path


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (None, ""),
        ({}, "{}"),
        ({"b": 1, "a": Decimal("0.10")}, '{"a":"0.10","b":1}'),
        ({"when": datetime(2026, 1, 2, tzinfo=UTC)}, '{"when":"2026-01-02T00:00:00+00:00"}'),
        ({"Password": "x", "deep": {"api_key": "y"}}, None),
        ({"name": "one\ntwo\x00\u2028\ud800"}, None),
        ({"share": 0.1, "odd": float("nan")}, '{"odd":"nan","share":"0.1"}'),
    ],
)
def test_states_are_written_one_way(state, text):
    found = written(state)
    if text is None:
        assert all(c.isprintable() for c in found)
        assert '"x"' not in found and '"y"' not in found
        assert (HIDDEN in found) == ("deep" in state)
    else:
        assert found == text


def test_a_huge_state_is_not_kept(root):
    assert len(record(root, "team.note", Subject("team"), after={"x": "y" * 20_000}).after) < 100


def test_an_action_has_a_noun_and_a_verb(root):
    with pytest.raises(ValueError, match=r"noun\.verb"):
        record(root, "rename", Subject("team"))


def test_people_who_go_leave_their_events(team, root):
    user = factories.person("dora")
    add_member(actor=root, team=team, user=user)
    remove_member(actor=user if user.is_superuser else root, team=team, user=user)
    pk = user.pk
    user.delete()
    assert AuditEvent.objects.filter(subject_id=f"{team.pk}/{pk}").count() == 2


@pytest.mark.parametrize("table", ["event", "seal"])
@pytest.mark.parametrize("sql", ["UPDATE {} SET id = id + 1000", "DELETE FROM {}"])
def test_the_database_refuses_to_change_events_and_seals(root, team, table, sql):
    """On both databases."""
    assert sealed_in_the_end(1) >= 1
    name = f"accounts_audit{table}"
    with (
        pytest.raises(DatabaseError, match=f"{name} is append-only"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(sql.format(name))
    assert verify_audit().broken == ""


def test_a_request_names_itself_in_what_it_changes(client, root):
    client.force_login(root)
    answer = client.post(
        "/teams/",
        {"name": "Sound"},
        headers={"X-Request-ID": "abcd-1234", "User-Agent": "browser/1"},
        REMOTE_ADDR="198.51.100.9",
    )
    assert answer.status_code == 302
    event = last("team.create")
    assert (event.request_id, event.ip) == ("abcd-1234", "198.51.100.9")
    assert event.user_agent == "browser/1"
    client.get("/")
    rename_team(actor=root, team=root.memberships.get().team, name="Noise")
    assert last("team.rename").request_id == ""
