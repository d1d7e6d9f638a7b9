"""What cannot be asked for, and decisions that say nothing: refused by field, nothing written."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from accounts.models import User
from accounts.services import appoint_bookkeeper, archive_project, remove_member
from scheduler.models import Budget, QuotaRequest, RequestDecision
from scheduler.services.errors import Conflict, Forbidden, Invalid
from scheduler.services.requesting.asking import (
    answer_request,
    comment_on_request,
    revise_request,
    submit_request,
    withdraw_request,
)
from scheduler.services.requesting.foreseeing.whatif import ask_whatif
from scheduler.services.requesting.granting import may_revoke, revoke_granted
from scheduler.services.requesting.policies import set_request_policy
from scheduler.services.sharing.budgets import set_budget
from scheduler.services.sharing.limits import set_quota
from tests import factories, scenes
from tests.requesting import DAY_S, WORDS, ask, decide
from tests.scenes import MODEL, at

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=4)


FOREVER = {"valid_until": at(0) + timedelta(days=4000)}


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ({"amount": 0}, "amount"),
        ({"amount": -3}, "amount"),
        ({"amount": 10**7}, "amount"),
        ({"valid_until": at(0)}, "valid_until"),
        ({"valid_from": at(10), "valid_until": at(5)}, "valid_until"),
        ({"valid_from": at(-2 * DAY_S)}, "valid_from"),
        ({"valid_from": at(0).replace(tzinfo=None)}, "valid_from"),
        (FOREVER, "valid_until"),
        ({"justification": "please"}, "justification"),
        ({"justification": "x" * 5000}, "justification"),
        ({"gpu_model": "B9000"}, "gpu_model"),
        ({"kind": "everything"}, "kind"),
        ({"kind": "maximum"}, "kind"),
        ({"kind": "borrow"}, "kind"),
        ({"kind": "budget"}, "kind"),
        ({"kind": "budget", "gpu_model": MODEL}, "gpu_model"),
        ({"kind": "access"}, "gpu_model"),
    ],
)
def test_what_cannot_be_granted_is_refused_by_field(
    cluster, root, project, alice, lead, wish, field
):
    with pytest.raises(Invalid) as refused:
        ask(alice, project, **wish)
    assert refused.value.field == field
    assert len(refused.value.detail) > 20
    assert not QuotaRequest.objects.exists()


def test_the_same_twice_is_refused(cluster, root, project, alice, lead):
    ask(alice, project)
    with pytest.raises(Invalid, match="Revise that one"):
        ask(alice, project)


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"outcome": "perhaps"}, "outcome"),
        ({"outcome": "less", "amount": 5}, "amount"),
        ({"outcome": "less", "amount": 0}, "amount"),
        ({"outcome": "less"}, "amount"),
        ({"outcome": "less", "valid_until": at(31 * DAY_S)}, "valid_until"),
        ({"outcome": "less", "valid_until": at(-5)}, "valid_until"),
        ({"outcome": "ask"}, "comment"),
        ({"outcome": "deny", "reason_code": "mood"}, "reason_code"),
        ({"outcome": "deny", "reason_code": "other"}, "comment"),
    ],
)
def test_a_decision_that_says_nothing_is_refused(cluster, root, project, alice, lead, said, field):
    asked = ask(alice, project, amount=4)
    with pytest.raises(Invalid) as refused:
        decide(lead, asked, **said)
    assert refused.value.field == field
    assert not RequestDecision.objects.exists()


def test_another_figure_on_the_same_version_is_not_the_same_again(
    cluster, root, project, alice, lead
):
    asked = ask(alice, project, amount=5)
    version = asked.version
    done = decide(lead, asked, "less", amount=4, version=version)
    assert decide(lead, asked, "less", amount=4, version=version).version == done.version
    for other in ({"amount": 2}, {"amount": 4, "valid_until": at(DAY_S)}, {"comment": "Why."}):
        with pytest.raises(Conflict):
            decide(lead, asked, "less", **{"amount": 4, **other}, version=version)
    assert RequestDecision.objects.get().amount == 4


def test_a_limit_that_was_taken_away_cannot_be_added_to(cluster, root, team, project, alice, lead):
    quota = set_quota(actor=root, owner=team, maximum=2)
    after = decide(lead, ask(alice, team, kind="maximum"))
    quota.delete()
    with pytest.raises(Conflict) as refused:
        decide(root, after)
    assert refused.value.code == "no_limit"
    after.refresh_from_db()
    assert after.state == "admin_review"


def test_only_administrators_say_who_decides(cluster, root, lead, operator):
    for person in (lead, operator):
        with pytest.raises(Forbidden):
            set_request_policy(actor=person, sla_hours=1)
    for wrong in ({"sla_hours": 0}, {"most_days": 0}, {"kind": "x"}, {"money_limit": Decimal(-1)}):
        with pytest.raises(Invalid):
            set_request_policy(actor=root, **wrong)


def test_budgets_are_untouched_by_a_denial(cluster, root, project, alice, lead):
    set_budget(
        actor=root, owner=project, gpu_hours=1, valid_from=at(-1), valid_until=at(99 * DAY_S),
        now=at(0),
    )  # fmt: skip
    asked = ask(alice, project, kind="budget", amount=5)
    decide(lead, asked, "deny", reason_code="no_budget")
    assert Budget.objects.get().gpu_seconds == 3600


class TestWhoHasLeftTheTeam:
    """Reads and takes back their own words, and has none of an asker's other rights."""

    @pytest.fixture
    def leave(self, root, team, alice):
        def gone():
            remove_member(actor=root, team=team, user=alice)
            return User.objects.get(pk=alice.pk)

        return gone

    def test_a_draft_goes_nowhere_and_a_question_stays_open(
        self, cluster, project, alice, lead, leave
    ):
        draft = ask(alice, project, is_draft=True)
        asked = decide(lead, ask(alice, project, gpu_model=MODEL), "ask", comment="Why?")
        gone = leave()
        wish = {"valid_from": at(0), "valid_until": at(DAY_S), "justification": WORDS}
        with pytest.raises(Forbidden, match="vision/digits"):
            submit_request(actor=gone, request_id=draft.pk, version=draft.version, now=at(1))
        with pytest.raises(Forbidden):
            revise_request(
                actor=gone, request_id=asked.pk, version=asked.version, amount=3, now=at(1), **wish
            )
        with pytest.raises(Forbidden):
            answer_request(actor=gone, request_id=asked.pk, version=asked.version, text="So.")
        with pytest.raises(Forbidden):
            comment_on_request(actor=gone, request=asked, text="Please.")
        with pytest.raises(Forbidden):
            ask_whatif(actor=gone, request=asked)
        done = withdraw_request(actor=gone, request_id=asked.pk, version=asked.version, now=at(1))
        assert done.state == "withdrawn"

    def test_nor_does_a_draft_of_an_archived_project(self, cluster, root, project, alice, lead):
        draft = ask(alice, project, is_draft=True)
        archive_project(actor=root, project=project)
        with pytest.raises(Forbidden):
            submit_request(actor=alice, request_id=draft.pk, version=draft.version, now=at(1))

    def test_nothing_is_granted_to_an_archived_project(self, cluster, root, project, alice, lead):
        asked = ask(alice, project)
        archive_project(actor=root, project=project)
        with pytest.raises(Conflict, match="archived") as refused:
            decide(lead, asked)
        assert refused.value.code == "archived" and not RequestDecision.objects.exists()
        assert decide(lead, asked, "deny", reason_code="no_budget").state == "denied"

    def test_a_booking_of_the_team_goes_on(self, cluster, root, team, project, alice, lead, leave):
        set_quota(actor=root, owner=team, guaranteed=4)
        hours = {"valid_from": at(7200), "valid_until": at(9000), "pool": cluster.pool}
        done = decide(lead, ask(alice, project, kind="reservation", amount=4, **hours))
        assert done.booking is not None
        gone = leave()
        assert not may_revoke(gone, done)
        with pytest.raises(Forbidden):
            revoke_granted(actor=gone, request_id=done.pk, version=done.version, now=at(100))

    def test_the_page_shows_their_words_and_not_the_teams_figures(
        self, client, cluster, root, team, project, alice, lead, leave
    ):
        set_quota(actor=root, owner=team, guaranteed=4)
        asked = ask(alice, project, now=timezone.now())
        client.force_login(alice)
        said = ("GPU-hours", "used in 90 days", "What happens then", "A new version", "Comment<")
        page = client.get(f"/requests/{asked.pk}/").content.decode()
        assert all(words in page for words in said)
        leave()
        page = client.get(f"/requests/{asked.pk}/").content.decode()
        assert WORDS in page and "Withdraw" in page
        assert not [words for words in said if words in page]
        part = client.get(f"/requests/{asked.pk}/?part=whatif").content.decode()
        assert "simulated" not in part

    def test_who_once_decided_reads_what_was_then_and_no_figures_of_today(
        self, client, cluster, root, team, project, alice, bob, lead
    ):
        now = timezone.now()
        agreed = decide(lead, ask(alice, project, now=now), now=now)
        later = now + timedelta(seconds=1)
        comment_on_request(actor=alice, request=agreed, text="Said to those here.", now=later)
        decide(root, agreed, "deny", reason_code="no_budget", comment="Not now.", now=later)
        here = f"/requests/{agreed.pk}/"
        said = ("used in 90 days", "What happens then", "Comment<", "Said to those", "Not now")
        client.force_login(lead)
        assert all(words in client.get(here).content.decode() for words in said)
        remove_member(actor=root, team=team, user=lead)
        page = client.get(here).content.decode()
        assert WORDS in page and "Agreed" in page
        assert not [words for words in said if words in page]
        # Who keeps the books reads whatever is asked for.
        reader = factories.person("reader")
        appoint_bookkeeper(actor=root, user=reader)
        client.force_login(reader)
        assert "used in 90 days" in client.get(here).content.decode()


def test_the_same_sent_again_is_granted_once(cluster, root, team, project, alice, lead):
    """A rule granted it, and its reply was lost. Once it is revoked, this is another ask."""
    set_quota(actor=root, owner=team, guaranteed=2)
    set_request_policy(actor=root, kind="guaranteed", auto_up_to=2, now=at(0))
    done = ask(alice, project, amount=2)
    assert done.state == "approved"
    with pytest.raises(Conflict, match=rf"{done} asked for just this") as refused:
        ask(alice, project, amount=2, now=at(60))
    assert refused.value.facts == {"request": done.pk}
    assert QuotaRequest.objects.count() == 1
    revoke_granted(actor=root, request_id=done.pk, version=done.version, now=at(90))
    # What a rule gave away lately counts for it, given back or not.
    assert ask(alice, project, amount=2, now=at(120)).state == "lead_review"
