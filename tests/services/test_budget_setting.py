"""Setting budgets: who may, what is refused by field, what a stale version changes: nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from accounts.held import forget_grants
from accounts.models import AuditEvent
from accounts.services import appoint_bookkeeper
from scheduler.models import Budget
from scheduler.money import from_steps, steps_of
from scheduler.selectors.sharing.reckoning import Foresight, Standing, foresee
from scheduler.services.errors import Conflict, Forbidden, Invalid
from scheduler.services.sharing.budgets import BudgetRules, remove_budget, set_budget
from tests import scenes
from tests.scenes import NOON, at

pytestmark = pytest.mark.django_db
FROM, UNTIL = NOON - timedelta(days=1), NOON + timedelta(days=20)
EAST, WEST = timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))
LAST = datetime(9999, 12, 31, 23, tzinfo=UTC)


@pytest.fixture
def money(root, team):
    def make(amount="10", *, version=None):
        return set_budget(
            actor=root,
            owner=team,
            amount=Decimal(amount),
            valid_from=FROM,
            valid_until=UNTIL,
            version=version,
            now=at(0),
        )

    return make


class TestWho:
    def test_money_is_for_those_who_keep_the_books(self, root, operator, finance, team, alice):
        def give(actor):
            return set_budget(
                actor=actor, owner=team, amount=Decimal(5), valid_from=FROM, valid_until=UNTIL,
                now=at(0),
            )  # fmt: skip

        for actor in (operator, finance, alice):
            with pytest.raises(Forbidden):
                give(actor)
        appoint_bookkeeper(actor=root, user=finance)
        forget_grants(finance)
        assert give(finance).currency == "EUR"
        assert AuditEvent.objects.filter(action="budget.set", actor=finance).count() == 1

    def test_a_lead_gives_projects_no_more_than_the_team_has(
        self, root, lead, team, project, other_project, money
    ):
        def give(owner, amount):
            return set_budget(
                actor=lead, owner=owner, amount=Decimal(amount), valid_from=FROM,
                valid_until=UNTIL, now=at(0),
            )  # fmt: skip

        with pytest.raises(Invalid, match="no budget of this kind"):
            give(project, 5)
        money("8")
        assert give(project, 8).limit == steps_of(Decimal(8))
        with pytest.raises(Invalid, match=r"has 8\.00 left"):
            give(project, 9)
        with pytest.raises(Forbidden):
            give(other_project, 1)
        with pytest.raises(Forbidden):
            give(team, 1)


def test_a_stale_version_changes_nothing(root, money):
    budget = money("10", version=0)
    with pytest.raises(Conflict, match="meanwhile"):
        money("20", version=0)
    money("20", version=1)
    with pytest.raises(Conflict):
        money("30", version=1)
    with pytest.raises(Conflict):
        remove_budget(actor=root, budget=budget, version=1)
    budget.refresh_from_db()
    assert from_steps(budget.limit) == 20
    remove_budget(actor=root, budget=budget, version=2)
    assert not Budget.objects.exists()


BAD = [
    ({"amount": "-1"}, "amount", "above 0"),
    ({"amount": "0"}, "amount", "above 0"),
    ({"amount": "NaN"}, "amount", "above 0"),
    ({"amount": "Infinity"}, "amount", "above 0"),
    ({"amount": "1e11"}, "amount", "up to"),
    ({"amount": "0.12345678901234567890"}, "amount", "2 decimals"),
    ({"gpu_hours": 0, "amount": None}, "gpu_hours", "from 1"),
    ({"gpu_hours": -5, "amount": None}, "gpu_hours", "from 1"),
    ({"gpu_hours": 2**63, "amount": None}, "gpu_hours", "from 1"),
    ({"gpu_hours": 5}, "gpu_hours", "either"),
    ({"amount": None}, "gpu_hours", "either"),
    ({"valid_until": FROM}, "valid_until", "after it begins"),
    ({"valid_from": UNTIL + timedelta(days=1)}, "valid_until", "after it begins"),
    ({"valid_from": FROM.replace(tzinfo=None)}, "valid_from", "zone"),
    ({"valid_from": FROM - timedelta(9), "valid_until": FROM}, "valid_until", "over already"),
    (
        {
            "valid_from": datetime(9999, 12, 1, tzinfo=UTC),
            "valid_until": LAST,
            "rules": BudgetRules(renewal="monthly"),
        },
        "valid_from",
        "2000 to 2999",
    ),
    ({"valid_from": datetime(1, 1, 1, tzinfo=EAST)}, "valid_from", "2000 to 2999"),
    ({"valid_until": LAST.replace(tzinfo=WEST)}, "valid_until", "2000 to 9999"),
    ({"rules": BudgetRules(enforcement="hard")}, "enforcement", "Choose one of"),
    ({"rules": BudgetRules(carry_percent=101)}, "carry_percent", "0 to 100"),
    ({"rules": BudgetRules(carry_percent=-1)}, "carry_percent", "0 to 100"),
    ({"rules": BudgetRules(grace_s=-1)}, "grace_s", "seconds"),
    ({"rules": BudgetRules(action="mail")}, "action", "Choose one of"),
    ({"rules": BudgetRules(action_at="120")}, "action_at", "Choose one of"),
]


@pytest.mark.parametrize(("wrong", "field", "words"), BAD)
def test_bad_figures_are_refused_by_field_and_nothing_is_written(root, team, wrong, field, words):
    asked = {"amount": "10", "valid_from": FROM, "valid_until": UNTIL, **wrong}
    if asked["amount"] is not None:
        asked["amount"] = Decimal(asked["amount"])
    with pytest.raises(Invalid, match=words) as refusal:
        set_budget(actor=root, owner=team, now=at(0), **asked)
    assert refusal.value.field == field
    assert not Budget.objects.exists()
    assert not AuditEvent.objects.filter(action="budget.set").exists()


def test_a_budget_keeps_its_measure_and_its_period(root, team, money):
    money("10")
    asked = {"actor": root, "owner": team, "now": at(0)}
    with pytest.raises(Invalid, match="is in money") as refusal:
        set_budget(**asked, gpu_hours=5, valid_from=FROM, valid_until=UNTIL)
    assert refusal.value.field == "gpu_hours"
    with pytest.raises(Invalid, match="overlap") as refusal:
        set_budget(**asked, gpu_hours=5, valid_from=NOON, valid_until=UNTIL)
    assert refusal.value.field == "valid_from"


def test_a_forecast_of_a_thousand_years_is_made_in_few_steps(root, team, alice, project):
    scenes.build_cluster(root, nodes=1, gpus=1)
    far = set_budget(
        actor=root, owner=team, gpu_hours=10**6, valid_from=FROM,
        valid_until=LAST, now=at(0),
    )  # fmt: skip
    assert foresee(far, Standing(7, 5), now=at(0)) == Foresight(7, 12, None)


def test_the_audit_says_whose_budget_it_is_and_of_when(root, team, project):
    """In days of UTC, wherever whoever set it is."""
    lasting = datetime(2126, 1, 1, tzinfo=UTC)
    for owner, until in ((team, UNTIL), (project, lasting), (None, lasting)):
        budget = set_budget(
            actor=root, owner=owner, gpu_hours=5, valid_from=FROM.astimezone(EAST),
            valid_until=until, now=at(0),
        )  # fmt: skip
    remove_budget(actor=root, budget=budget)
    events = AuditEvent.objects.filter(subject_kind="budget").order_by("pk")
    assert list(events.values_list("action", "subject_label")) == [
        ("budget.set", f"{team.slug}, 19 Nov – 10 Dec 2026"),
        ("budget.set", f"{project.path}, 19 Nov 2026 – no end"),
        ("budget.set", "the organisation, 19 Nov 2026 – no end"),
        ("budget.remove", "the organisation, 19 Nov 2026 – no end"),
    ]
