"""Quotas, budgets and policies over REST."""

from __future__ import annotations

import pytest
from django.utils import timezone

from accounts.models import AuditEvent
from scheduler.models import Budget, OutboundMail, Pool, QuotaRequest
from scheduler.services.sharing.limits import set_quota
from tests import requesting
from tests.api.conftest import problem_of

pytestmark = pytest.mark.django_db
PERIOD = {"valid_from": "2026-11-01T00:00:00Z", "valid_until": "2999-12-01T00:00:00Z"}


def test_an_operator_sets_a_quota_and_its_team_sees_it(
    cluster, program, operator, alice, carol, team
):
    call = program(operator)
    reply = call.post("/rules/quotas/", {"owner": team.slug, "pool": "default", "maximum": 4})
    assert reply.status_code == 200, reply.content
    quota = reply.json()
    assert (quota["owner"], quota["pool"], quota["maximum"], quota["held"]) == (
        "vision",
        "default",
        4,
        0,
    )
    assert program(alice).get("/rules/quotas/").json()["items"] == [quota]
    assert program(carol).get("/rules/quotas/").json()["items"] == []
    grants = f"/rules/quotas/{quota['id']}/grants/"
    back = call.post(grants, {"maximum": 2, **PERIOD})
    assert problem_of(back, 422)["errors"][0]["field"] == "valid_from"
    ahead = {**PERIOD, "valid_from": timezone.now().isoformat()}
    grant = call.post(grants, {"maximum": 2, "reason": "deadline", **ahead}).json()
    assert call.post(f"/rules/grants/{grant['id']}/revoke/").json()["revoked_at"]
    problem_of(call.post(f"/rules/grants/{grant['id']}/revoke/"), 409)
    assert (
        call.client.delete(f"/api/v1/rules/quotas/{quota['id']}/", **call.headers).status_code
        == 204
    )


@pytest.mark.parametrize("way", ["revoke", "remove"])
def test_whoever_had_asked_is_told_when_it_ends_here(
    cluster, program, operator, root, lead, alice, team, project, way
):
    set_quota(actor=root, owner=team, guaranteed=4)
    asked = requesting.ask(alice, project, now=timezone.now())
    done = requesting.decide(lead, asked, now=timezone.now())
    call = program(operator)
    if way == "revoke":
        assert call.post(f"/rules/grants/{done.granted_id}/revoke/").status_code == 200
    else:
        address = f"/api/v1/rules/quotas/{done.granted.quota_id}/"
        assert call.client.delete(address, **call.headers).status_code == 204
    told = QuotaRequest.objects.get(pk=done.pk)
    assert told.version == done.version + 1
    assert told.events.last().kind == "revoked"
    assert OutboundMail.objects.filter(person=alice, subject__endswith="was revoked").count() == 1


def test_who_is_no_operator_sets_nothing(cluster, program, alice, lead, team):
    for person in (alice, lead):
        call = program(person)
        problem_of(call.post("/rules/quotas/", {"owner": team.slug, "maximum": 4}), 403)
        problem_of(call.post("/rules/policies/", {"name": "fifo"}), 403)
        body = {"owner": team.slug, "gpu_hours": 5, **PERIOD}
        problem_of(call.post("/rules/budgets/", body), 403)


def test_bad_input_names_the_field(cluster, program, operator, team):
    call = program(operator)
    for body, status, field in (
        ({"owner": team.slug, "guaranteed": 4, "maximum": 3}, 422, "maximum"),
        ({"owner": team.slug, "maximum": -1}, 400, "maximum"),
        ({"owner": team.slug, "maximum": 1, "pool": "none"}, 400, "pool"),
    ):
        found = problem_of(call.post("/rules/quotas/", body), status)
        assert found["errors"][0]["field"] == field
    problem_of(call.post("/rules/quotas/", {"owner": "nobody", "maximum": 1}), 404)
    found = problem_of(call.post("/rules/policies/", {"name": "fifo", "half_life_s": 5}), 422)
    assert found["errors"][0]["field"] == "half_life_s"


def test_the_newest_policy_is_in_force_and_the_others_are_history(program, operator, alice):
    call = program(operator)
    assert call.post("/rules/policies/", {"name": "las"}).status_code == 201
    reply = call.post("/rules/policies/", {"name": "fair", "half_life_s": 86400})
    assert reply.json()["half_life_s"] == 86400
    shown = program(alice).get("/rules/policies/").json()
    assert shown["in_force"] == "fair"
    assert shown["set_by"].startswith("rule ")
    assert (shown["dials"]["half_life_s"], shown["dials"]["preempts"]) == (86400, True)
    assert [each["name"] for each in shown["items"]] == ["fair", "las"]


def test_a_pool_is_given_a_policy_and_everybody_sees_it(cluster, program, operator, alice):
    call, path = program(operator), "/pools/default/policy/"
    problem_of(program(alice).post(path, {"name": "las"}), 403)
    problem_of(call.post("/pools/none/policy/", {"name": "las"}), 404)
    found = problem_of(call.post(path, {"name": "fair"}), 422)
    assert found["errors"][0]["field"] == "name"
    problem_of(call.post(path, {"name": "fair", "half_life_s": 5}), 400)
    call.post(path, {"name": "las", "placement": "pack"})
    Pool.objects.update(may_wait_s=7200.0)
    shown = program(alice).get(path).json()
    assert shown["may_wait_s"] == 7200
    assert (shown["has_own"], shown["dials"]["order"], shown["dials"]["placement"]) == (
        True,
        "las",
        "pack",
    )
    assert (shown["of_cluster"]["order"], len(shown["items"])) == ("fair", 1)
    gone = call.client.delete(f"/api/v1{path}", **call.headers).json()
    assert (gone["has_own"], gone["dials"]["order"]) == (False, "fair")
    assert AuditEvent.objects.filter(action="pool.policy").count() == 2


def test_without_a_rule_the_settings_hold_and_are_shown(program, alice):
    shown = program(alice).get("/rules/policies/").json()
    assert (shown["in_force"], shown["set_by"]) == ("fair", "settings of the server")
    assert shown["dials"]["preempts"] and shown["dials"]["min_run_s"] == 600
    assert shown["items"] == []


def test_a_ceiling_is_set_by_operators_and_seen_by_its_team(
    cluster, program, operator, alice, carol, team
):
    call = program(operator)
    problem_of(program(alice).post("/rules/ceilings/", {"owner": "", "tier": "normal"}), 403)
    reply = call.post("/rules/ceilings/", {"owner": team.slug, "tier": "production"})
    assert reply.json() == {
        "usual": "urgent",
        "items": [{"owner": team.slug, "tier": "production"}],
        "next_cursor": None,
    }
    assert program(alice).get("/rules/ceilings/").json() == reply.json()
    assert program(carol).get("/rules/ceilings/").json()["items"] == []
    wrong = problem_of(call.post("/rules/ceilings/", {"owner": "", "tier": "highest"}), 422)
    assert wrong["errors"][0]["field"] == "tier"


def test_caps_are_set_by_operators_and_seen_by_their_team(
    cluster, program, operator, alice, carol, team
):
    call = program(operator)
    problem_of(program(alice).post("/rules/caps/", {"owner": "", "max_sessions": 1}), 403)
    reply = call.post("/rules/caps/", {"owner": team.slug, "max_sessions": 2, "max_running": 9})
    caps = {"max_gpus_per_job": None, "max_running": 9, "max_pending": None, "max_sessions": 2}
    assert reply.json()["items"] == [{"owner": team.slug, **caps}]
    assert program(alice).get("/rules/caps/").json() == reply.json()
    assert program(carol).get("/rules/caps/").json()["items"] == []
    wrong = problem_of(call.post("/rules/caps/", {"owner": team.slug, "max_sessions": -1}), 422)
    assert wrong["errors"][0]["field"] == "max_sessions"
    lifted = call.post("/rules/caps/", {"owner": team.slug, "max_sessions": None})
    assert lifted.json()["items"][0]["max_sessions"] is None


def test_a_budget_is_set_and_seen(cluster, program, operator, alice, project):
    body = {"owner": project.path, "gpu_hours": 5, **PERIOD}
    budget = program(operator).post("/rules/budgets/", body).json()
    assert (budget["gpu_seconds"], budget["committed_s"], budget["spent_s"]) == (18000, 0, 0)
    assert program(alice).get("/rules/budgets/").json()["items"] == [budget]


def test_a_budget_in_money_is_for_who_may_see_what_it_costs(
    cluster, program, client, root, operator, alice, lead, finance, team, project
):
    """Members see what their projects cost, and not what their team does."""
    for owner in (None, team, project):
        body = {"owner": owner.slug if owner == team else owner.path if owner else ""}
        reply = program(root).post("/rules/budgets/", body | {"amount": "50", **PERIOD})
        assert reply.status_code == 200
    for viewer, seen in (
        (root, {"", "vision", "vision/digits"}),
        (lead, {"vision", "vision/digits"}),
        (finance, {"vision", "vision/digits"}),
        (alice, {"vision/digits"}),
        (operator, set()),
    ):
        items = program(viewer).get("/rules/budgets/").json()["items"]
        assert {one["owner"] for one in items} == seen
    client.force_login(alice)
    assert "vision/digits" in (page := client.get("/teams/vision/quota/").content.decode())
    client.force_login(lead)
    assert client.get("/teams/vision/quota/").content.decode().count("EUR") > page.count("EUR")


def test_what_is_used_of_a_budget_and_how_much_of_it_is_over(
    cluster, program, operator, lead, team
):
    call = program(operator)
    sent = {"owner": team.slug, "gpu_hours": 1, "enforcement": "warn", **PERIOD}
    fresh = call.post("/rules/budgets/", sent).json()
    assert (fresh["used_s"], fresh["over_s"], fresh["used"], fresh["over"]) == (0, 0, None, None)
    Budget.objects.update(spent_s=5_400)
    (one,) = program(lead).get("/rules/budgets/").json()["items"]
    assert (one["used_s"], one["over_s"], one["used_percent"]) == (5_400, 1_800, 150)
