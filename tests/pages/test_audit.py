"""The audit's page, file, list and command: who sees what, how it is searched and paged."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.errors import Forbidden, Invalid
from accounts.models import AuditEvent, Role
from accounts.services import (
    authenticate_token,
    end_service_account,
    issue_service_token,
    issue_token,
    make_service_account,
    rename_team,
    revoke_service_token,
    revoke_token,
)
from accounts.services.audit import Subject, record, record_refusal
from accounts.trail import Key, Wanted, each_event, events_for, page_of_events
from portal.reports.diffs import changes, told_changes
from tests import factories
from tests.accounts.settling import sealed_in_the_end
from tests.pages.raw_words import raw_words

pytestmark = pytest.mark.django_db
DAY = datetime(2026, 11, 3, 12, tzinfo=UTC)


@pytest.fixture
def story(root, team, other_team, lead, operator):
    """An event for everybody's eyes but somebody's."""
    rename_team(actor=lead, team=team, name="Seeing <b>")
    rename_team(actor=root, team=other_team, name="Hearing")
    about = Subject("node", "7", "gpu-07")
    record(operator, "node.drain", about, after={"state": "drained"}, reason="a new fan", now=DAY)
    record(root, "rate.set", Subject("rate", "1", "H100"), after={"price": "3.60"})
    return {"team": team, "other_team": other_team}


def seen_by(viewer, **wanted) -> set[str]:
    return {event.action for event in events_for(viewer, Wanted(**wanted))}


def test_everybody_sees_their_part(story, root, lead, operator, alice, finance, carol):
    assert {"team.rename", "node.drain", "rate.set"} <= seen_by(root)
    assert seen_by(operator) == {"node.drain"}
    mine = events_for(lead, Wanted())
    assert {event.team_id for event in mine} == {story["team"].pk}
    assert "team.rename" in {event.action for event in mine}
    for nobody in (alice, finance, carol):
        with pytest.raises(Forbidden):
            events_for(nobody, Wanted())


def test_leads_see_what_is_done_to_and_by_their_teams_programs(root, team, other_team, lead):
    account = make_service_account(actor=root, team=team, name="ci")
    wanted = {"account": account, "name": "t", "scopes": ["jobs:read"], "networks": ["192.0.2.9"]}
    token, secret = issue_service_token(actor=root, **wanted)
    assert authenticate_token(secret, address="198.51.100.1") is None
    record_refusal(actor=account, fields=["owner"])
    revoke_service_token(actor=root, token=token)
    end_service_account(actor=root, account=account)
    assert seen_by(lead) >= {
        "service_account.make",
        "token.issue",
        "token.refuse",
        "job.refuse",
        "token.revoke",
        "service_account.end",
    }
    theirs = factories.member("dora", other_team, Role.LEAD, by=root)
    assert not seen_by(theirs) & {"service_account.make", "token.issue", "job.refuse"}


def test_where_a_persons_tokens_are_good_for_is_no_leads_to_see(lead, alice, root, project):
    wanted = {"name": "home", "scopes": ["jobs:read"], "networks": ["192.0.2.9"]}
    token, secret = issue_token(actor=alice, project=project, **wanted)
    assert authenticate_token(secret, address="198.51.100.1") is None
    revoke_token(actor=alice, token=token)
    assert seen_by(root, actor="alice") == {"token.issue", "token.refuse", "token.revoke"}
    assert seen_by(lead, actor="alice") == set()


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"actor": "operator"}, {"node.drain"}),
        ({"action": "rate.set"}, {"rate.set"}),
        ({"action": "node"}, {"node.drain"}),
        ({"object": "node:7"}, {"node.drain"}),
        ({"object": "gpu-"}, {"node.drain"}),
        ({"text": "NEW FAN"}, {"node.drain"}),
        ({"text": "hearing"}, {"team.rename"}),
        ({"since": DAY, "until": DAY + timedelta(seconds=1)}, {"node.drain"}),
        ({"actor": "operator", "action": "rate.set"}, set()),
        ({"text": "100%_"}, set()),
    ],
    ids=str,
)
def test_every_wish_narrows(story, root, wanted, found):
    assert seen_by(root, **wanted) == found


def test_pages_by_key_show_each_event_once_in_order(root):
    for n in range(25):
        record(root, "team.note", Subject("team", str(n)), now=DAY + timedelta(seconds=n // 3))
    after, seen = None, []
    while True:
        page, after = page_of_events(root, Wanted(action="team.note"), after=after, size=4)
        seen += page
        record(root, "team.note", Subject("team", "late"), now=DAY + timedelta(days=1))
        if after is None:
            break
    noted = [event for event in seen if event.subject_id != "late"]
    assert sorted(int(event.subject_id) for event in noted) == list(range(25))
    assert [(e.at, e.pk) for e in seen] == sorted(((e.at, e.pk) for e in seen), reverse=True)
    assert (
        len(list(each_event(root, Wanted(action="team.note"))))
        == AuditEvent.objects.filter(action="team.note").count()
    )


def test_a_key_comes_back_as_it_was_and_nonsense_is_refused():
    key = Key(DAY, 17)
    assert Key.parse(str(key)) == key
    for text in ("", "17", "x_17", "2026-11-03T12:00:00+00:00_x", "2026-11-03T12:00:00_1"):
        with pytest.raises(Invalid):
            Key.parse(text)


def test_the_page_takes_as_many_statements_for_many_events_as_for_few(client, root, story):
    client.force_login(root)
    client.get("/audit/")
    with CaptureQueriesContext(
        connection,
    ) as few:
        client.get("/audit/")
    for n in range(80):
        record(root, "team.note", Subject("team", str(n)), before={"a": n}, after={"a": n + 1})
    with CaptureQueriesContext(connection) as many:
        answer = client.get("/audit/")
    assert len(many) <= len(few) + 1
    assert b"Older events" in answer.content


def test_the_page_shows_a_diff_and_the_seal_and_hides_addresses(client, root, lead, story):
    client.force_login(lead)
    text = client.get("/audit/?action=team.rename").content.decode()
    assert "<del>Vision</del> → <ins>Seeing &lt;b&gt;</ins>" in text
    assert "Nothing is sealed yet" in text
    assert "127.0.0.1" not in text
    assert sealed_in_the_end(1) >= 1
    client.force_login(root)
    client.post("/teams/", {"name": "Sound"})
    text = client.get("/audit/").content.decode()
    assert "Sealed up to event" in text
    assert "127.0.0.1" in text
    assert "not sealed yet" in text
    assert "No event matches" in client.get("/audit/?actor=nobody").content.decode()


@pytest.mark.parametrize(
    "asked",
    [
        "bulk_cancel.propose",
        "bulk cancel: propose",
        "Bulk cancel proposed",
        "bulk cancel",
        "bulk pro",
    ],
)
def test_actions_are_said_in_words_and_found_by_them(client, root, story, asked):
    record(root, "bulk_cancel.propose", Subject("bulk_cancel", "1"), after={"is_small": {"a_b": 1}})
    client.force_login(root)
    text = client.get("/audit/", {"action": asked}).content.decode()
    assert ">Bulk cancel proposed</a>" in text and ">Node drained</a>" not in text
    assert 'value="bulk' in text.lower() and raw_words(text) == []
    assert "a b 1" in text


@pytest.mark.parametrize(
    "query",
    [
        "from=x",
        "to=2026-11-01&from=2026-11-05",
        "after=x",
        "after=0001-01-01T00:00:00%2B14:00_1",
        "format=pdf",
        f"text={'x' * 201}",
    ],
)
def test_a_wrong_wish_is_named(client, root, query):
    client.force_login(root)
    answer = client.get(f"/audit/?{query}")
    assert answer.status_code == 200
    assert f"{query.partition('=')[0]}: " in answer.content.decode()


def test_the_file_is_guarded_and_its_taking_is_on_record(client, root, team):
    rename_team(actor=root, team=team, name="=1+1")
    record(root, "team.note", Subject("team", "1", "=HYPERLINK(1)"), reason="+1")
    client.force_login(root)
    answer = client.get("/audit/?format=csv&action=team.note")
    rows = list(csv.DictReader(io.StringIO(b"".join(answer).decode("utf-8-sig"))))
    assert [(row["object"], row["reason"]) for row in rows] == [("'=HYPERLINK(1)", "'+1")]
    taken = AuditEvent.objects.get(action="export.audit")
    assert (taken.actor_name, taken.area) == ("root", "money")
    assert "team.note" in taken.after


def test_changes_are_said_calmly():
    found = changes('{"a":1,"b":true,"same":1,"gone":"x"}', '{"a":2,"b":null,"same":1,"new":[1,2]}')
    assert [(c.field, c.before, c.after) for c in found] == [
        ("a", "1", "2"),
        ("b", "yes", "none"),
        ("gone", "x", None),
        ("new", None, "1, 2"),
    ]
    (sums,) = changes('{"a":"12500.0000000000"}', '{"a":"0.0512300000"}')
    assert (sums.before, sums.after) == ("12,500.00", "0.05123")
    assert changes("", "") == []
    units = '{"from_month":"1970-01","gpu_seconds":144000,"grace_s":600,"until_s":1795000000}'
    assert [(one.field, one.after) for one in told_changes("budget.set", "", units)] == [
        ("from", "the first month"),
        ("GPU-hours", "40.0"),
        ("grace before a stop", "10 min"),
        ("until", "1795000000"),
    ]
    assert len(changes("", '{"a":"' + "x" * 500 + '"}')[0].after or "") == 200
