"""Cost centres of teams: who sets them, from when they count, and what is kept of before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import DatabaseError, transaction

from accounts.errors import Forbidden, Invalid
from accounts.models import AuditEvent, CostCentre, Team, TeamPast
from accounts.services import appoint_bookkeeper, create_team, rename_team, set_cost_centre

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
SOON = NOON + timedelta(hours=1)


def test_finance_charges_a_team_and_what_was_before_is_kept(root, finance, lead, team):
    appoint_bookkeeper(actor=root, user=finance)
    charged = set_cost_centre(actor=finance, team=team, code=" cc-41 ", name="Research", now=NOON)
    assert charged.cost_centre_id == "CC-41"
    rename_team(actor=lead, team=team, name="Seers", now=SOON)
    # Of a clock that went back: nothing is until before what it follows.
    set_cost_centre(actor=root, team=team, code="", now=NOON)
    pasts = TeamPast.objects.values_list("name", "cost_centre", "until_at")
    assert list(pasts) == [
        ("Vision", "", NOON),
        ("Vision", "CC-41", SOON),
        ("Seers", "CC-41", SOON),
    ]
    events = AuditEvent.objects.filter(action="team.cost_centre").order_by("pk")
    assert [(e.actor_name, e.subject_id) for e in events] == [
        (finance.username, str(team.pk)),
        (root.username, str(team.pk)),
    ]
    assert events[0].after == '{"centre_name":"Research","cost_centre":"CC-41"}'
    assert (events[1].before, events[1].after) == (
        '{"cost_centre":"CC-41"}',
        '{"cost_centre":""}',
    )


def test_the_same_again_changes_nothing_and_a_name_is_the_centres(root, team, other_team):
    set_cost_centre(actor=root, team=team, code="CC-41", name="Research")
    set_cost_centre(actor=root, team=other_team, code="CC-41")
    kept, events = TeamPast.objects.count(), AuditEvent.objects.count()
    set_cost_centre(actor=root, team=team, code="cc-41", name="Research")
    rename_team(actor=root, team=team, name=team.name)
    assert TeamPast.objects.count() == kept == 2
    assert AuditEvent.objects.count() == events + 1
    set_cost_centre(actor=root, team=team, code="CC-41", name="Science")
    assert (TeamPast.objects.count(), CostCentre.objects.get().name) == (kept, "Science")


def test_a_new_team_below_begins_in_its_parents(root, team):
    set_cost_centre(actor=root, team=team, code="CC-41")
    below = create_team(actor=root, name="Below", parent=Team.objects.get(pk=team.pk))
    assert below.cost_centre_id == "CC-41"
    set_cost_centre(actor=root, team=team, code="CC-42")
    assert Team.objects.get(pk=below.pk).cost_centre_id == "CC-41"


@pytest.mark.parametrize(
    ("code", "name", "field"),
    [
        ("=1+1", "", "code"),
        ("-4100", "", "code"),
        ("CC 41", "", "code"),
        ("ÖCC", "", "code"),
        ("C" * 33, "", "code"),
        ("", "Research", "code"),
        ("CC-41", "a\x00b", "name"),
        ("CC-41", "x" * 129, "name"),
    ],
)
def test_what_is_no_cost_centre_is_refused_by_its_field(root, team, code, name, field):
    with pytest.raises(Invalid) as refused:
        set_cost_centre(actor=root, team=team, code=code, name=name)
    assert refused.value.field == field
    assert not CostCentre.objects.exists() and not TeamPast.objects.exists()
    assert not AuditEvent.objects.filter(action="team.cost_centre").exists()


def test_leads_and_operators_set_none(lead, operator, team):
    for person in (lead, operator):
        with pytest.raises(Forbidden, match="finance"):
            set_cost_centre(actor=person, team=team, code="CC-41")
    assert not CostCentre.objects.exists()


def test_the_database_keeps_what_was(root, team):
    rename_team(actor=root, team=team, name="Seers", now=NOON)
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        TeamPast.objects.update(name="Others")
    assert TeamPast.objects.get().name == "Vision"


def test_page_and_rest_set_it_and_name_what_is_wrong(client, root, team):
    client.force_login(root)
    page = client.post("/teams/vision/cost-centre/", {"centre-code": "CC 41"}).content.decode()
    assert "Use at most 32 letters" in page
    sent = {"centre-code": "cc-41", "centre-name": "Research"}
    page = client.post("/teams/vision/cost-centre/", sent, follow=True).content.decode()
    assert "Vision is charged to CC-41 from now on." in page
    assert "cost centre CC-41" in page and "Research" in page
    address = "/api/v1/teams/vision/cost-centre/"
    refused = client.post(address, {"code": "=x"}, content_type="application/json")
    assert refused.status_code == 422 and "code" in refused.content.decode()
    reply = client.post(address, {"code": "CC-42"}, content_type="application/json")
    assert reply.json()["cost_centre"] == "CC-42"
    (found,) = client.get("/api/v1/teams/").json()["items"]
    assert found["cost_centre"] == "CC-42"
