"""Asking for quota and deciding on it: the way through, who may what, and only once."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from accounts.models import Role
from accounts.services import appoint_bookkeeper
from scheduler.models import Grant, Quota, QuotaRequest, RequestDecision
from scheduler.services.errors import Conflict, Forbidden, Invalid, NotFound
from scheduler.services.requesting.asking import (
    answer_request,
    comment_on_request,
    revise_request,
    submit_request,
    withdraw_request,
)
from scheduler.services.requesting.policies import set_request_policy
from scheduler.services.sharing.budgets import set_budget
from scheduler.services.sharing.effective import effective_of
from scheduler.services.sharing.limits import set_quota
from tests import factories, scenes
from tests.requesting import DAY_S, WORDS, ask, decide
from tests.scenes import MODEL, at

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=4)


@pytest.fixture
def second_admin(db):
    return factories.person("second", is_superuser=True)


def team_quota(root, team, **figures):
    return set_quota(actor=root, owner=team, **figures)


def guaranteed_of(owner_key: str, now) -> int:
    quota = Quota.objects.get(account__key=owner_key)
    return effective_of([quota], now=now)[quota.pk].guaranteed


class TestTheWayThrough:
    def test_within_what_the_team_has_free_its_lead_alone_decides(
        self, cluster, root, team, project, alice, lead
    ):
        team_quota(root, team, guaranteed=4)
        request = ask(alice, project)
        assert (request.state, request.route) == ("lead_review", ["lead"])
        done = decide(lead, request)
        assert done.state == "approved"
        assert guaranteed_of(f"project:{project.pk}", at(61)) == 2
        assert guaranteed_of(f"project:{project.pk}", at(30 * DAY_S)) == 0

    def test_above_it_an_administrator_decides_too(self, cluster, root, project, alice, lead):
        request = ask(alice, project)
        assert request.route == ["lead", "admin"]
        after_lead = decide(lead, request)
        assert (after_lead.state, after_lead.route) == ("admin_review", ["admin"])
        assert not Grant.objects.exists()
        done = decide(root, after_lead, now=at(120))
        assert done.state == "approved"
        assert done.granted.granted_by == root
        assert [one.decided_by for one in done.decisions.all()] == [lead, root]

    def test_what_is_dear_goes_to_finance_too(self, cluster, root, project, alice, lead):
        books = factories.person("books")
        appoint_bookkeeper(actor=root, user=books)
        # Two GPUs for 30 days at 3.60 an hour.
        set_request_policy(actor=root, money_limit=Decimal("5184"), now=at(0))
        cheap = ask(alice, project)
        assert cheap.route == ["lead", "admin"]
        withdraw_request(actor=alice, request_id=cheap.pk, version=cheap.version, now=at(1))
        set_request_policy(actor=root, money_limit=Decimal("5183.99"), now=at(0))
        request = ask(alice, project)
        assert request.route == ["lead", "admin", "finance"]
        done = decide(books, decide(root, decide(lead, request)))
        assert done.state == "approved"
        assert done.decisions.last().monthly_cost == Decimal("5184")

    def test_less_and_shorter_is_approved_in_part(self, cluster, root, project, alice, lead):
        request = ask(alice, project, amount=4)
        cut = decide(lead, request, "less", amount=3, valid_until=at(10 * DAY_S))
        done = decide(root, cut)
        assert done.state == "partly_approved"
        assert done.granted.guaranteed == 3
        assert done.granted.valid_until == at(10 * DAY_S)

    def test_a_question_stops_the_clock_and_an_answer_goes_back_to_who_asked(
        self, cluster, root, project, alice, lead
    ):
        asked = decide(lead, ask(alice, project), "ask", comment="For how many runs?")
        assert (asked.state, asked.due_at) == ("needs_info", None)
        back = answer_request(
            actor=alice, request_id=asked.pk, version=asked.version, text="Two.", now=at(500)
        )
        assert back.state == "lead_review"
        assert back.due_at == at(500) + timedelta(hours=48)

    def test_a_denial_needs_a_reason_and_says_it(self, cluster, root, project, alice, lead):
        request = ask(alice, project)
        with pytest.raises(Invalid) as refused:
            decide(lead, request, "deny")
        assert refused.value.field == "reason_code"
        done = decide(lead, request, "deny", reason_code="no_capacity", comment="Next month.")
        assert done.state == "denied"
        assert "There is no capacity" in done.events.last().text
        assert not Grant.objects.exists()

    def test_a_draft_is_edited_freely_and_a_submitted_text_never(
        self, cluster, root, project, alice, lead
    ):
        draft = ask(alice, project, is_draft=True)
        assert draft.state == "draft"
        wish = {"valid_from": at(0), "valid_until": at(5 * DAY_S), "justification": WORDS}
        who = {"actor": alice, "request_id": draft.pk}
        draft = revise_request(**who, version=draft.version, amount=3, **wish, now=at(1))
        assert draft.versions.get().amount == 3
        sent = submit_request(**who, version=draft.version, now=at(2))
        revised = revise_request(**who, version=sent.version, amount=1, **wish, now=at(3))
        assert [one.amount for one in revised.versions.all()] == [3, 1]
        assert (revised.revision, revised.state) == (2, "lead_review")

    def test_a_revision_voids_what_was_agreed(self, cluster, root, project, alice, lead):
        agreed = decide(lead, ask(alice, project))
        wish = {"valid_from": at(90), "valid_until": at(5 * DAY_S), "justification": WORDS}
        revised = revise_request(
            actor=alice, request_id=agreed.pk, version=agreed.version, amount=4, **wish, now=at(90)
        )
        assert (revised.state, revised.route) == ("lead_review", ["lead", "admin"])

    def test_gpu_hours_are_added_to_the_budget(self, cluster, root, team, project, alice, lead):
        month = {"valid_from": at(-1), "valid_until": at(60 * DAY_S)}
        set_budget(actor=root, owner=project, gpu_hours=10, **month, now=at(0))
        set_budget(actor=root, owner=team, gpu_hours=100, **month, now=at(0))
        request = ask(alice, project, kind="budget", amount=50)
        assert request.route == ["lead"]
        done = decide(lead, request)
        assert done.state == "approved"
        assert done.budget.gpu_seconds == 60 * 3600
        assert ask(alice, project, kind="budget", amount=41).route == ["lead", "admin"]

    def test_access_to_a_closed_model_is_a_maximum_for_a_time(
        self, cluster, root, team, project, alice, lead
    ):
        set_quota(actor=root, owner=team, gpu_model=MODEL, maximum=0)
        request = ask(alice, team, kind="access", gpu_model=MODEL, amount=4)
        assert request.route == ["lead", "admin"]
        done = decide(root, decide(lead, request))
        assert done.granted.maximum == 4

    def test_a_guarantee_raises_a_maximum_that_would_cut_it_off(
        self, cluster, root, team, project, alice, lead
    ):
        team_quota(root, team, guaranteed=2, maximum=3)
        done = decide(root, decide(lead, ask(alice, team, amount=4)))
        assert (done.granted.guaranteed, done.granted.maximum) == (4, 3)

    def test_room_that_was_given_away_meanwhile_brings_an_administrator_in(
        self, cluster, root, team, project, alice, bob, lead
    ):
        team_quota(root, team, guaranteed=3)
        first, second = ask(alice, project), ask(bob, project)
        assert first.route == second.route == ["lead"]
        assert decide(lead, first).state == "approved"
        after = decide(lead, QuotaRequest.objects.get(pk=second.pk))
        assert (after.state, after.route) == ("admin_review", ["admin"])


class TestWhoMay:
    def test_nobody_decides_on_their_own_and_a_leads_own_goes_up(
        self, cluster, root, second_admin, team, project, lead
    ):
        team_quota(root, team, guaranteed=4)
        own = ask(lead, project)
        assert own.route == ["admin"]
        mine = ask(root, team)
        # There is another lead: it begins with that one.
        assert mine.route == ["lead", "admin"]
        with pytest.raises(Forbidden, match="You asked"):
            decide(root, mine)
        assert decide(second_admin, decide(lead, mine)).state == "approved"

    def test_one_person_takes_one_step(self, cluster, root, second_admin, project, alice, lead):
        request = ask(alice, project)
        after = decide(root, request)
        with pytest.raises(Forbidden, match="earlier step"):
            decide(root, after)
        assert decide(second_admin, after).state == "approved"

    def test_the_only_administrator_leaves_the_leads_step_to_a_lead(
        self, cluster, root, project, alice, lead
    ):
        request = ask(alice, project)
        with pytest.raises(Forbidden, match="decides first, a lead of the team, until "):
            decide(root, request)

    def test_without_another_lead_it_begins_with_an_administrator(
        self, cluster, root, project, alice
    ):
        assert ask(alice, project).route == ["admin"]

    def test_who_is_alone_cannot_ask(self, cluster, root, project):
        with pytest.raises(Invalid, match="Nobody besides you"):
            ask(root, project)

    @pytest.mark.parametrize("who", ["bob", "finance", "operator", "carol"])
    def test_others_do_not_decide(self, request, cluster, root, project, alice, lead, who):
        asked = ask(alice, project)
        with pytest.raises(Forbidden):
            decide(request.getfixturevalue(who), asked)
        assert not RequestDecision.objects.exists()

    def test_a_foreign_project_looks_missing(self, cluster, root, other_project, alice):
        with pytest.raises(NotFound):
            ask(alice, other_project)

    def test_a_lead_of_another_team_is_no_lead_here(
        self, cluster, root, other_team, project, alice
    ):
        stranger = factories.member("stranger", other_team, Role.LEAD, by=root)
        asked = ask(alice, project)
        with pytest.raises(Forbidden):
            decide(stranger, asked)


class TestOnce:
    def test_a_second_decision_is_shown_the_winner(
        self, cluster, root, second_admin, project, alice, lead
    ):
        asked = ask(alice, project)
        decide(lead, asked)
        with pytest.raises(Conflict) as refused:
            decide(second_admin, asked, "deny", reason_code="no_budget", version=2)
        assert "Lead was faster" in refused.value.detail
        assert refused.value.facts["outcome"] == "approve"

    def test_sending_the_same_again_changes_nothing(self, cluster, root, project, alice, lead):
        asked = ask(alice, project)
        seen = asked.version
        first = decide(lead, asked, version=seen)
        again = decide(lead, asked, version=seen)
        assert (again.version, again.state) == (first.version, "admin_review")
        assert RequestDecision.objects.count() == 1
        last = decide(root, first)
        assert decide(root, first, version=first.version - 0).granted == last.granted
        assert Grant.objects.count() == 1

    def test_a_stale_version_is_refused_for_every_change(self, cluster, root, project, alice, lead):
        asked = ask(alice, project)
        who = {"actor": alice, "request_id": asked.pk, "version": asked.version - 1}
        with pytest.raises(Conflict):
            withdraw_request(**who)
        with pytest.raises(Conflict):
            submit_request(**who)
        taken = withdraw_request(**{**who, "version": asked.version}, now=at(9))
        assert taken.state == "withdrawn"
        with pytest.raises(Conflict):
            decide(lead, taken)
        with pytest.raises(Conflict):
            withdraw_request(**{**who, "version": taken.version})

    def test_a_comment_moves_nothing(self, cluster, root, project, alice, lead):
        asked = ask(alice, project)
        comment_on_request(actor=lead, request=asked, text="I will look tomorrow.", now=at(5))
        before = asked.version
        asked.refresh_from_db()
        assert (asked.version, asked.touched_at) == (before, at(5))
