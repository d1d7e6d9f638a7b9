"""Asking for a longer time limit, and for money on top of a budget."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from accounts.services import appoint_bookkeeper
from scheduler.models import Budget, OutboundMail
from scheduler.money import MOST_MONEY, from_steps
from scheduler.services.budgets.renewing import renew_budget
from scheduler.services.errors import Conflict, Forbidden, Invalid
from scheduler.services.requesting.asking import submit_request, withdraw_request
from scheduler.services.requesting.foreseeing.whatif import ask_whatif, simulate
from scheduler.services.requesting.granting import revoke_granted
from scheduler.services.requesting.reminding import renew_request, tend_requests
from scheduler.services.sharing.budgets import BudgetRules, set_budget
from scheduler.services.sharing.grants import revoke_grant
from scheduler.services.sharing.limits import set_quota
from scheduler.spec import SpecInvalid
from tests import factories, scenes
from tests.requesting import DAY_S, ask, decide
from tests.scenes import at

pytestmark = pytest.mark.django_db
MONTH = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=4)


def submit(actor, project, hours, second=0):
    return scenes.submit(actor, project, time_limit=f"{hours}h", now=at(second))


class TestTheLongestTime:
    def test_a_longer_job_is_refused_by_name_with_the_way_out(self, cluster, root, team, project):
        set_quota(actor=root, owner=team, max_hours=24)
        submit(root, project, 24)
        with pytest.raises(SpecInvalid) as refused:
            submit(root, project, 25)
        (problem,) = refused.value.problems
        assert problem.field == "time_limit"
        assert "at most for your team" in str(refused.value)
        assert "trainyard requests ask --kind walltime" in str(refused.value)

    def test_the_shortest_on_the_way_holds_and_a_pool_may_have_its_own(
        self, cluster, root, team, project, other_project
    ):
        set_quota(actor=root, owner=None, max_hours=100)
        set_quota(actor=root, owner=team, pool=cluster.pool, max_hours=48)
        set_quota(actor=root, owner=project, max_hours=50)
        with pytest.raises(SpecInvalid) as refused:
            submit(root, project, 49)
        assert f"at most for your team in pool {cluster.pool.name}" in str(refused.value)
        with pytest.raises(SpecInvalid, match="the organisation"):
            submit(root, other_project, 101)
        submit(root, other_project, 100)

    def test_what_makes_no_sense_is_refused(self, cluster, root, team):
        for hours, model in ((0, ""), (1441, ""), (5, scenes.MODEL)):
            with pytest.raises(Invalid) as refused:
                set_quota(actor=root, owner=team, max_hours=hours, gpu_model=model)
            assert refused.value.field == "max_hours"

    def test_jobs_that_wait_keep_their_limit(self, cluster, root, team, project):
        job = submit(root, project, 30)
        set_quota(actor=root, owner=team, max_hours=24)
        job.refresh_from_db()
        assert (job.state, job.time_limit_s) == ("queued", 30 * 3600)


class TestAskingForLonger:
    def test_it_lifts_the_limit_until_its_end_and_no_longer(
        self, cluster, root, team, alice, project, lead
    ):
        set_quota(actor=root, owner=project, max_hours=24)
        request = ask(alice, project, kind="walltime", amount=48, now=at(0))
        # No account above limits it, so the lead may give it; it costs nothing by itself.
        assert request.route == ["lead"]
        done = decide(lead, request)
        assert (done.state, done.granted.max_hours) == ("approved", 48)
        assert done.decisions.get().monthly_cost == 0
        submit(alice, project, 72, second=100)
        with pytest.raises(SpecInvalid):
            submit(alice, project, 73, second=100)
        with pytest.raises(SpecInvalid, match="at most for this project"):
            submit(alice, project, 25, second=30 * DAY_S)
        renewal = renew_request(actor=alice, request=done, now=at(29 * DAY_S))
        assert renewal.versions.get().amount == 48
        revoke_grant(actor=root, grant_id=done.granted_id, now=at(200))
        with pytest.raises(SpecInvalid):
            submit(alice, project, 25, second=201)

    def test_a_team_asks_an_administrator_too(self, cluster, root, team, alice, project, lead):
        set_quota(actor=root, owner=team, max_hours=24)
        request = ask(alice, team, kind="walltime", amount=24)
        assert request.route == ["lead", "admin"]
        with pytest.raises(Forbidden):
            decide(alice, request)
        decide(root, decide(lead, request))
        submit(alice, project, 48, second=100)

    def test_what_would_have_no_effect_is_refused(self, cluster, root, team, project, alice):
        with pytest.raises(Invalid, match="No longest time of just this account"):
            ask(alice, project, kind="walltime", amount=1)
        set_quota(actor=root, owner=team, max_hours=24)
        set_quota(actor=root, owner=project, max_hours=20)
        with pytest.raises(Invalid, match="ask for 4 at most") as refused:
            ask(alice, project, kind="walltime", amount=5)
        assert refused.value.field == "amount"
        for fields in ({"amount": 1441}, {"gpu_model": scenes.MODEL}):
            with pytest.raises(Invalid):
                ask(alice, project, kind="walltime", **{"amount": 4, **fields})

    def test_the_what_if_says_that_nothing_is_replayed(self, cluster, root, project, alice):
        set_quota(actor=root, owner=project, max_hours=20)
        request = ask(alice, project, kind="walltime", amount=4)
        row = simulate(ask_whatif(actor=alice, request=request, now=at(1)), now=at(1))
        assert row.progress == "done"
        assert row.answer["monthly_cost"] == ["0", "0", "0"]


class TestAskingForMoney:
    @pytest.fixture
    def books(self, root, cluster):
        person = factories.person("books")
        appoint_bookkeeper(actor=root, user=person)
        return person

    def purse(self, actor, owner, amount):
        return set_budget(
            actor=actor,
            owner=owner,
            amount=Decimal(amount),
            valid_from=at(-DAY_S),
            valid_until=at(60 * DAY_S),
            now=at(0),
        )

    def left(self, budget) -> Decimal:
        return from_steps(Budget.objects.get(pk=budget.pk).limit)

    def test_no_budget_grows_beyond_what_it_can_count(self, books, project, alice, bob, lead):
        most = int(MOST_MONEY)
        budget = self.purse(books, project, most - 30)
        self.purse(books, project.team, most)
        with pytest.raises(Invalid, match="ask for 30 or less") as refusal:
            ask(alice, project, kind="money", amount=31)
        assert refusal.value.field == "amount"
        first, second = (ask(one, project, kind="money", amount=20) for one in (alice, bob))
        assert decide(lead, first).state == "approved"
        # The team has less left than that now, so it goes to finance.
        waits = decide(lead, second)
        with pytest.raises(Conflict, match="approve less"):
            decide(books, waits)
        assert self.left(budget) == most - 10
        with pytest.raises(Invalid, match="carried over and granted") as refusal:
            self.purse(books, project, most - 19)
        assert refusal.value.field == "amount"

    def test_above_what_the_team_has_finance_decides(self, root, books, project, alice, lead):
        budget = self.purse(books, project, 100)
        self.purse(books, project.team, 120)
        first = ask(alice, project, kind="money", amount=20)
        assert first.route == ["lead"]
        withdraw_request(actor=alice, request_id=first.pk, version=first.version, now=at(1))
        request = ask(alice, project, kind="money", amount=50)
        assert request.route == ["lead", "finance"]
        with pytest.raises(Forbidden):
            decide(alice, request)
        waits = decide(lead, request)
        assert (waits.state, self.left(budget)) == ("finance_review", 100)
        done = decide(books, waits)
        assert (done.state, done.budget_id, done.granted) == ("approved", budget.pk, None)
        assert self.left(budget) == 150
        assert done.decisions.last().monthly_cost == 50
        assert Budget.objects.get(pk=budget.pk).version == budget.version + 1

    def test_a_team_goes_to_finance_and_less_is_less(self, root, books, team, lead):
        budget = self.purse(books, team, 100)
        request = ask(lead, team, kind="money", amount=50)
        # Nobody else leads, so an administrator takes that step; finance has the last word.
        assert request.route == ["admin", "finance"]
        done = decide(books, decide(root, request), "less", amount=30)
        assert (done.state, self.left(budget)) == ("partly_approved", 130)

    def test_what_is_not_used_is_taken_back_at_its_end_once(
        self, root, books, alice, project, lead
    ):
        budget = self.purse(books, project, 100)
        done = decide(lead, ask(alice, project, kind="money", amount=50))
        assert done.returns_at == at(0) + timedelta(days=30)
        spent = Budget.objects.get(pk=budget.pk).limit * 4 // 5
        Budget.objects.filter(pk=budget.pk).update(spent_money=spent)
        assert tend_requests(now=at(29 * DAY_S))["returned"] == 0
        assert tend_requests(now=at(30 * DAY_S))["returned"] == 1
        # 120 of 150 are spent: 30 go back.
        assert self.left(budget) == 120
        assert tend_requests(now=at(31 * DAY_S))["returned"] == 0
        assert OutboundMail.objects.filter(person=alice, text__contains="30.00 EUR").exists()
        assert done.events.last().words == "Its time is over"

    def test_hours_are_taken_back_too_and_a_raise_is_not_renewed_with_its_budget(
        self, root, cluster, alice, project, lead
    ):
        period = {"valid_from": MONTH, "valid_until": MONTH.replace(month=12)}
        budget = set_budget(
            actor=root, owner=project, gpu_hours=100, now=at(0), **period,
            rules=BudgetRules(renewal="monthly"),
        )  # fmt: skip
        until = {"valid_until": at(5 * DAY_S)}
        first = decide(lead, ask(alice, project, kind="budget", amount=50, **until))
        assert first.returns_at == at(5 * DAY_S)
        second = decide(lead, ask(alice, project, kind="budget", amount=8))
        # What was asked for longer ends with the budget it was added to.
        assert second.returns_at == budget.valid_until
        Budget.objects.filter(pk=budget.pk).update(spent_s=130 * 3600)
        tend_requests(now=at(5 * DAY_S))
        budget.refresh_from_db()
        assert (budget.limit, budget.granted) == (130 * 3600, 30 * 3600)
        # What is set by hand is the usual limit; what was granted stays on top.
        set_budget(
            actor=root, owner=project, gpu_hours=90, now=at(6 * DAY_S), **period,
            rules=BudgetRules(renewal="monthly"),
        )  # fmt: skip
        budget.refresh_from_db()
        assert (budget.limit, budget.usual) == (120 * 3600, 90 * 3600)
        renew_budget(budget, now=budget.valid_until)
        following = Budget.objects.get(valid_from=budget.valid_until)
        assert (following.limit, following.granted) == (90 * 3600, 0)
        assert tend_requests(now=following.valid_from)["returned"] == 1
        assert Budget.objects.get(pk=budget.pk).limit == 120 * 3600

    def test_it_is_renewed_for_the_time_afterwards(self, root, books, alice, project, lead):
        self.purse(books, project, 100)
        until = {"valid_until": at(25 * DAY_S)}
        done = decide(lead, ask(alice, project, kind="money", amount=50, **until))
        with pytest.raises(Forbidden):
            renew_request(actor=lead, request=done, now=at(10 * DAY_S))
        made = renew_request(actor=alice, request=done, now=at(10 * DAY_S))
        text = made.versions.get()
        assert (made.state, made.kind, text.amount, made.renews) == ("draft", "money", 50, done)
        assert (text.valid_from, text.valid_until) == (at(25 * DAY_S), at(50 * DAY_S - 60))
        # The budget ends before as many days again are over, so the next renewal does too.
        made = submit_request(actor=alice, request_id=made.pk, version=made.version, now=at(60))
        late = renew_request(actor=alice, request=decide(lead, made), now=at(49 * DAY_S))
        assert late.versions.get().valid_until == at(60 * DAY_S)

    def test_it_is_revoked_by_who_may_set_the_budget(self, root, books, alice, project, lead):
        budget = self.purse(books, project, 100)
        done = decide(lead, ask(alice, project, kind="money", amount=50))
        with pytest.raises(Forbidden):
            revoke_granted(actor=alice, request_id=done.pk, version=done.version, now=at(90))
        with pytest.raises(Conflict):
            revoke_granted(actor=books, request_id=done.pk, version=1, now=at(90))
        gone = revoke_granted(actor=books, request_id=done.pk, version=done.version, now=at(90))
        assert (gone.returns_at, self.left(budget)) == (None, 100)
        assert gone.events.last().actor == books
        with pytest.raises(Conflict, match="come to its end"):
            revoke_granted(actor=books, request_id=done.pk, version=gone.version, now=at(91))
        assert tend_requests(now=at(31 * DAY_S))["returned"] == 0

    def test_it_needs_a_budget_and_ends_with_it(self, root, books, project, alice):
        with pytest.raises(Invalid, match="No budget limits this"):
            ask(alice, project, kind="money", amount=5)
        self.purse(books, project, 100)
        with pytest.raises(Invalid, match="This budget ends on") as refused:
            ask(alice, project, kind="money", amount=5, valid_until=at(61 * DAY_S))
        assert refused.value.field == "valid_until"
        with pytest.raises(Invalid, match="all GPU models"):
            ask(alice, project, kind="money", amount=5, gpu_model=scenes.MODEL)

    def test_the_what_if_shows_cost_and_what_is_left(self, root, books, project, alice):
        self.purse(books, project, 100)
        request = ask(alice, project, kind="money", amount=50)
        row = simulate(ask_whatif(actor=alice, request=request, now=at(1)), now=at(1))
        assert row.answer["budget_money_left"] == ["100.00", "125.00", "150.00"]
        assert [Decimal(one) for one in row.answer["monthly_cost"]] == [0, 25, 50]
