"""Who has to agree: every row of the table, at both sides of every boundary."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal

import pytest

from accounts.models import AuditEvent, Rate, RateCard, RateDecision
from accounts.services import appoint_bookkeeper
from scheduler.models import Budget, QuotaRequest, RequestDecision, RequestVersion
from scheduler.selectors.requesting.rules import Routing, desk_of_rules, routing_of
from scheduler.services.errors import Conflict, Forbidden, Invalid
from scheduler.services.requesting.asking import revise_request, withdraw_request
from scheduler.services.requesting.policies import end_request_policy, set_request_policy
from scheduler.services.requesting.routing import steps_for
from scheduler.services.sharing.budgets import set_budget
from scheduler.services.sharing.limits import set_quota
from scheduler.states import RequestKind
from tests import factories, scenes
from tests.requesting import ask, decide
from tests.scenes import at

pytestmark = pytest.mark.django_db
DAY_S = 86_400
MONTH = timedelta(days=30)
LEAD, ADMIN, FINANCE = "lead", "lead admin", "lead finance"
ALL = "lead admin finance"

# Kind, amount, what a month of it costs: what the team has left for the project is 2 guaranteed,
# 2 to borrow, a maximum of 3, 6 hours, 80 GPU-hours, 500 EUR and 2 to book; a GPU-hour is 3.60.
EDGES = (
    ("guaranteed", 2, "5184"),
    ("borrow", 2, "5184"),
    ("maximum", 3, "7776"),
    ("access", 3, "7776"),
    ("walltime", 6, "0"),
    ("budget", 80, "288"),
    ("money", 500, "500"),
    ("reservation", 2, "5184"),
)


@pytest.fixture
def scene(root, team, project, alice, lead):
    """Somebody for each step, and limits of the team and its project."""
    scenes.build_cluster(root, nodes=1, gpus=4)
    appoint_bookkeeper(actor=root, user=factories.person("books"))
    figures = {"guaranteed": 2, "borrow_limit": 3, "maximum": 6, "max_hours": 10}
    set_quota(actor=root, owner=team, **figures)
    set_quota(actor=root, owner=project, borrow_limit=1, maximum=3, max_hours=4)


def budgets(actor, measure, figures):
    """Of one measure; an account has one budget at a time."""
    Budget.objects.all().delete()
    times = {"valid_from": at(-DAY_S), "valid_until": at(60 * DAY_S), "now": at(0)}
    for owner, figure in figures:
        set_budget(actor=actor, owner=owner, **{measure: figure}, **times)


def test_every_row_of_the_table(scene, root, team, project, alice):
    def route(kind, amount, *, owner=project, limit=None, always_admin=False):
        request = QuotaRequest.objects.create(
            team=team,
            project=None if owner is team else owner,
            kind=kind,
            asked_by=alice,
            created_at=at(0),
            touched_at=at(0),
        )
        asked = RequestVersion(amount=amount, valid_from=at(0), valid_until=at(0) + MONTH)
        rules = Routing(None, limit, always_admin, 48, 365)
        return " ".join(steps_for(request, asked, amount, rules, now=at(0)))

    for kind, most, cost in EDGES:
        is_money, dear = kind == "money", Decimal(cost)
        if kind == "budget":
            budgets(root, "gpu_hours", ((team, 100), (project, 20)))
        if is_money:
            budgets(root, "amount", ((team, Decimal(700)), (project, Decimal(200))))
        # Within what the team has left its lead decides alone; one more goes further.
        assert route(kind, 1) == LEAD, kind
        assert route(kind, most) == LEAD, kind
        assert route(kind, most + 1) == (FINANCE if is_money else ADMIN), kind
        # Above the money limit, and only above it, finance decides too.
        assert route(kind, most, limit=dear) == LEAD, kind
        if dear:
            assert route(kind, most, limit=dear - Decimal("0.01")) == FINANCE, kind
            assert route(kind, most + 1, limit=dear) == (FINANCE if is_money else ALL), kind
            assert route(kind, 1, limit=Decimal(0)) == FINANCE, kind
        # Where an administrator always decides, nothing is left out for it.
        assert route(kind, 1, always_admin=True) == ADMIN, kind
        assert route(kind, most + 1, always_admin=True) == (ALL if is_money else ADMIN), kind
        # What a team itself has is not its lead's to widen.
        assert route(kind, 1, owner=team) == (FINANCE if is_money else ADMIN), kind


def test_without_a_limit_above_a_lead_gives_what_is_asked(scene, root, team, project, alice):
    set_quota(actor=root, owner=team, guaranteed=2)
    request = QuotaRequest(team=team, project=project, asked_by=alice)
    request.created_at = request.touched_at = at(0)
    rules = Routing(None, None, False, 48, 365)
    for kind, steps in (("borrow", LEAD), ("maximum", LEAD), ("walltime", LEAD)):
        request.pk, request.kind = None, kind
        request.save(force_insert=True)
        asked = RequestVersion(amount=4, valid_from=at(0), valid_until=at(0) + MONTH)
        assert " ".join(steps_for(request, asked, 4, rules, now=at(0))) == steps


@pytest.mark.parametrize(
    ("kind", "price", "is_dear"),
    [
        ("guaranteed", {"kind": ""}, True),
        ("guaranteed", {"kind": "", "days": 31}, False),
        ("guaranteed", {"kind": "run-borrowed"}, False),
        ("borrow", {"kind": "run-borrowed"}, True),
        ("reservation", {"kind": "reserved-idle"}, True),
        ("borrow", {"kind": "reserved-idle"}, False),
    ],
)
def test_agreed_later_prices_of_what_may_be_charged_count(
    scene, team, project, alice, kind, price, is_dear
):
    """Two GPUs for 30 days cost 5184 at 3.60; finance is asked above 6000, as at 5."""
    request = QuotaRequest.objects.create(
        team=team, project=project, kind=kind, asked_by=alice, created_at=at(0), touched_at=at(0)
    )
    asked = RequestVersion(amount=2, valid_from=at(0), valid_until=at(0) + 3 * MONTH)
    rules = Routing(None, Decimal(6000), False, 48, 365)
    Rate.objects.create(
        card=RateCard.objects.get(team=None),
        device_model=scenes.MODEL,
        kind=price["kind"],
        price_per_gpu_hour=Decimal(5),
        valid_from=at(price.get("days", 1) * DAY_S),
        decision=RateDecision.APPROVED,
    )
    steps = " ".join(steps_for(request, asked, 2, rules, now=at(0)))
    assert steps == (FINANCE if is_dear else LEAD)


@pytest.fixture
def ruled(scene, root):
    """Up to two guaranteed GPUs need nobody, where a lead alone could agree."""
    return set_request_policy(actor=root, kind="guaranteed", auto_up_to=2, now=at(0))


def test_a_rule_agrees_by_itself_and_the_record_names_it(ruled, project, alice, lead):
    done = ask(alice, project, amount=2)
    said = done.decisions.get()
    assert (done.state, done.route, done.policy) == ("approved", [], ruled)
    assert (done.granted.guaranteed, done.granted.granted_by) == (2, None)
    assert (said.step, said.outcome, said.amount, said.decided_by) == ("policy", "approve", 2, None)
    event = AuditEvent.objects.get(action="request.granted")
    assert (event.actor_name, json.loads(event.after)["by"]) == ("", "policy")
    assert json.loads(event.after)["policy"] == ruled.pk
    # The same decided once more by a person: it is over.
    with pytest.raises(Conflict, match=r"A rule was faster|waits for no decision"):
        decide(lead, done)


def test_a_decision_remembers_its_rule_whatever_holds_later(
    client, ruled, root, lead, project, alice
):
    """Which rule, and which one of its kind; the usual rules are said, and what was not noted."""
    asked = ask(alice, project, kind="borrow", amount=3)
    decide(lead, asked, "ask", comment="Why three?")
    first = set_request_policy(actor=root, kind="borrow", sla_hours=5, now=at(0))
    second = set_request_policy(actor=root, kind="borrow", sla_hours=6, now=at(0))
    asked.refresh_from_db()
    revise_request(
        actor=alice,
        request_id=asked.pk,
        version=asked.version,
        amount=4,
        valid_from=at(0),
        valid_until=at(0) + MONTH,
        justification="Four are needed.",
        now=at(90),
    )
    asked.refresh_from_db()
    assert asked.policy == second != first
    decide(lead, asked, "ask", comment="Why four?")
    said = list(asked.decisions.all())
    assert [(one.policy, one.policy_version) for one in said] == [(None, 0), (second, 2)]
    event = AuditEvent.objects.filter(action="request.decide").latest("id")
    after = json.loads(event.after)
    assert (after["policy"], after["policy_version"]) == (second.pk, 2)
    done = ask(alice, project, amount=1)
    set_request_policy(actor=root, kind="guaranteed", sla_hours=7, now=at(0))
    assert (done.decisions.get().policy, done.decisions.get().policy_version) == (ruled, 1)

    RequestDecision.objects.filter(pk=said[0].pk).update(policy_version=None)
    client.force_login(root)
    page = client.get(f"/requests/{asked.pk}/").content.decode()
    assert "rule not recorded" in page
    assert f"rule {second.pk}, version 2 for GPUs to borrow" in page
    page = client.get(f"/requests/{done.pk}/").content.decode()
    assert f"rule {ruled.pk}, version 1 for guaranteed GPUs" in page


def test_rules_end_and_one_without_effect_is_refused(ruled, root, operator, project, alice):
    """The rule of the kind, else the one for any kind, else what is usual; what each decided."""

    def sources():
        held = {one.kind: one for one in desk_of_rules(operator, now=at(60)).held}
        return {kind: held[kind].source for kind in ("guaranteed", "borrow")}

    assert sources() == {"guaranteed": "own", "borrow": "usual"}
    done = ask(alice, project, amount=1)
    own = next(one for one in desk_of_rules(operator, now=at(60)).held if one.kind == "guaranteed")
    assert (own.decided, own.latest) == (1, [done])
    assert not any(one.decided for one in desk_of_rules(operator, now=at(60)).held if one != own)
    same = {"kind": "guaranteed", "auto_up_to": 2}
    free = {"kind": "walltime", "money_limit": Decimal(5), "sla_hours": 5}
    for wrong, field in ((same, "kind"), (free, "money_limit")):
        with pytest.raises(Invalid) as refused:
            set_request_policy(actor=root, **wrong)
        assert refused.value.field == field
    for_any = set_request_policy(actor=root, sla_hours=9, now=at(0))
    assert sources() == {"guaranteed": "own", "borrow": "any"}
    with pytest.raises(Invalid, match="holds already"):
        set_request_policy(actor=root, kind="borrow", sla_hours=9)
    end_request_policy(actor=root, kind="guaranteed", now=at(0))
    assert routing_of("guaranteed").row == for_any
    with pytest.raises(Conflict, match="none to end"):
        end_request_policy(actor=root, kind="guaranteed")
    with pytest.raises(Forbidden):
        end_request_policy(actor=operator)
    with pytest.raises(Forbidden):
        desk_of_rules(alice, now=at(0))
    end_request_policy(actor=root, now=at(0))
    assert sources() == {"guaranteed": "usual", "borrow": "usual"}
    kinds = [str(kind) for kind in RequestKind]
    for kind in kinds:
        set_request_policy(actor=root, kind=kind, sla_hours=3)
    with pytest.raises(Invalid, match="rule of its own"):
        set_request_policy(actor=root, sla_hours=4)
    ends = AuditEvent.objects.filter(action="policy.request_routing_end")
    assert [json.loads(one.before)["kind"] for one in ends.order_by("id")] == ["guaranteed", ""]


def test_what_is_asked_for_in_parts_counts_together(ruled, root, project, alice):
    """For thirty days and the whole team; then the rule agrees again."""
    set_request_policy(actor=root, kind="guaranteed", auto_up_to=1, now=at(0))
    assert ask(alice, project, amount=1).state == "approved"
    part = ask(alice, project, amount=1, justification="The other half of the same run.")
    assert part.state == "lead_review"
    withdraw_request(actor=alice, request_id=part.pk, version=part.version, now=at(0))
    RequestDecision.objects.update(at=at(0) - timedelta(days=30))
    later = ask(alice, project, amount=1, justification="The other half, a month later.")
    assert later.state == "approved"


@pytest.mark.parametrize("why", ["more", "beyond", "own", "any kind", "dear", "newer"])
def test_a_rule_agrees_to_nothing_else(ruled, root, project, alice, why):
    """More than it says, more than a lead could give, for who made it, of another kind, dear."""
    wish, asker, owner = {"amount": 2}, alice, project
    if why == "more":
        wish["amount"] = 3
    if why == "beyond":
        owner = project.team
    if why == "own":
        asker = root
    if why == "any kind":
        wish["kind"] = "borrow"
    if why == "dear":
        set_request_policy(actor=root, kind="guaranteed", auto_up_to=2, money_limit=Decimal(0))
    if why == "newer":
        set_request_policy(actor=root, kind="guaranteed")
    done = ask(asker, owner, **wish)
    assert done.state.endswith("review")
    assert not done.decisions.exists()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"auto_up_to": 2}, "one kind"),
        ({"kind": "borrow", "auto_up_to": 0}, "whole number"),
        ({"kind": "borrow", "auto_up_to": 10**7}, "whole number"),
        ({"kind": "borrow", "auto_up_to": 2, "always_admin": True}, "administrator"),
    ],
)
def test_a_rule_that_agrees_is_for_one_kind_and_a_number(scene, root, fields, words):
    with pytest.raises(Invalid, match=words) as refused:
        set_request_policy(actor=root, **fields)
    assert refused.value.field == "auto_up_to"
