"""What time does: reminders, escalation, expiry, notices of ends, renewal, mails."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from django.core import mail

from accounts.services import delegate
from scheduler.models import Grant, Job, OutboundMail, QuotaRequest, Session
from scheduler.services.errors import Conflict, Forbidden
from scheduler.services.mailing.ending import notify_of_ends
from scheduler.services.mailing.sending import MOST_TRIES, send_mails
from scheduler.services.requesting import reminding
from scheduler.services.requesting.policies import set_request_policy
from scheduler.services.requesting.reminding import renew_request, tend_requests
from scheduler.services.requesting.rights import may_decide
from scheduler.services.sharing.budgets import BudgetRules, set_budget
from scheduler.services.sharing.limits import set_quota
from scheduler.states import JobState
from tests import scenes
from tests.requesting import DAY_S, ask, decide
from tests.scenes import at

pytestmark = pytest.mark.django_db
HOUR_S = 3600


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=4)


@pytest.fixture
def granted(cluster, root, team, project, alice, lead) -> QuotaRequest:
    """Two GPUs for forty days."""
    set_quota(actor=root, owner=team, guaranteed=4)
    return decide(lead, ask(alice, project, valid_until=at(40 * DAY_S)), now=at(0))


def to(person) -> list[str]:
    return [one.subject for one in OutboundMail.objects.filter(person=person)]


def test_half_way_a_reminder_once_and_at_the_end_it_goes_up(cluster, root, project, alice, lead):
    asked = ask(alice, project)
    assert tend_requests(now=at(24 * HOUR_S - 1))["reminded"] == 0
    assert tend_requests(now=at(24 * HOUR_S))["reminded"] == 1
    assert tend_requests(now=at(30 * HOUR_S))["reminded"] == 0
    assert len(to(lead)) == 2
    assert tend_requests(now=at(48 * HOUR_S))["escalated"] == 1
    assert tend_requests(now=at(49 * HOUR_S))["escalated"] == 0
    asked.refresh_from_db()
    assert (asked.state, asked.route) == ("admin_review", ["admin"])
    assert any("waits for you" in subject for subject in to(root))
    # The administrator decides in the lead's stead: one person, and not the asker.
    assert decide(root, asked, now=at(50 * HOUR_S)).state == "approved"


def test_where_one_person_keeps_the_books_and_administers_they_decide_in_the_leads_stead(
    cluster, root, team, project, alice, lead
):
    set_quota(actor=root, owner=team, guaranteed=4)
    set_request_policy(actor=root, money_limit=Decimal(1), now=at(0))
    asked = ask(alice, project)
    assert asked.route == ["lead", "finance"]
    assert tend_requests(now=at(48 * HOUR_S))["escalated"] == 1
    asked.refresh_from_db()
    assert asked.route == ["admin"] and may_decide(root, asked)
    assert decide(root, asked, now=at(50 * HOUR_S)).state == "approved"


def test_what_the_only_administrator_asked_for_stays_with_the_lead(
    cluster, root, team, project, lead
):
    set_quota(actor=root, owner=team, guaranteed=4)
    asked = ask(root, project)
    assert asked.route == ["lead"]
    assert [tend_requests(now=at(hours * HOUR_S))["escalated"] for hours in (48, 49)] == [1, 0]
    asked.refresh_from_db()
    assert asked.route == ["lead"] and may_decide(lead, asked)
    assert sum("nobody else can decide" in subject for subject in to(lead)) == 1


def test_who_acts_for_the_lead_is_asked_before_an_administrator(
    cluster, root, project, alice, lead, carol
):
    """At the end of the lead's time, for half as long again; then as without anybody."""
    times = {"starts_at": at(0), "ends_at": at(90 * HOUR_S), "now": at(0)}
    asked = ask(alice, project)
    delegate(actor=lead, deputy=carol, scope="approve_requests", team=project.team, **times)
    assert tend_requests(now=at(48 * HOUR_S))["escalated"] == 1
    assert tend_requests(now=at(49 * HOUR_S))["escalated"] == 0
    asked.refresh_from_db()
    assert (asked.state, asked.due_at) == ("lead_review", at(72 * HOUR_S))
    # A reminder at half of it, and now that it is hers alone to answer.
    assert (len(to(carol)), to(root)) == (2, [])
    assert tend_requests(now=at(72 * HOUR_S))["escalated"] == 1
    asked.refresh_from_db()
    assert (asked.state, len(to(root))) == ("admin_review", 1)


def test_a_booking_that_has_begun_waits_for_nobody_who_acts(
    cluster, root, project, alice, lead, carol
):
    times = {"starts_at": at(0), "ends_at": at(90 * HOUR_S), "now": at(0)}
    begins, ends = at(20 * HOUR_S), at(30 * HOUR_S)
    asked = ask(
        alice, project, kind="reservation", pool=cluster.pool, valid_from=begins, valid_until=ends
    )
    delegate(actor=lead, deputy=carol, scope="approve_requests", team=project.team, **times)
    assert asked.due_at == begins
    assert tend_requests(now=begins)["escalated"] == 1
    asked.refresh_from_db()
    assert asked.state == "admin_review"


def test_a_late_administrator_is_told_once(cluster, root, project, alice):
    asked = ask(alice, project)
    assert tend_requests(now=at(49 * HOUR_S))["escalated"] == 1
    assert tend_requests(now=at(99 * HOUR_S))["escalated"] == 0
    asked.refresh_from_db()
    assert asked.state == "admin_review"
    assert any("is late" in subject for subject in to(root))


def test_what_nobody_touches_for_thirty_days_expires(cluster, project, alice, lead):
    question = decide(lead, ask(alice, project), "ask", comment="For how long?")
    assert tend_requests(now=at(30 * DAY_S))["expired"] == 0
    assert tend_requests(now=at(30 * DAY_S + 61))["expired"] == 1
    question.refresh_from_db()
    assert (question.state, question.route) == ("expired", [])
    assert any("expired" in subject for subject in to(alice))


def test_what_somebody_touches_just_then_does_not_expire(
    cluster, root, project, alice, lead, monkeypatch
):
    """Somebody decides between the list of what is old and the lock."""
    asked, with_row = ask(alice, project), reminding._with_row
    assert tend_requests(now=at(3 * DAY_S))["escalated"] == 1

    def after_a_decision(pk, act, now):
        if act is reminding._expire:
            asked.refresh_from_db()
            decide(root, asked, "ask", comment="For how long?", now=now)
        return with_row(pk, act, now)

    monkeypatch.setattr(reminding, "_with_row", after_a_decision)
    assert tend_requests(now=at(30 * DAY_S + 1))["expired"] == 0
    asked.refresh_from_db()
    assert asked.state == "needs_info"


def test_an_end_is_told_at_each_threshold_in_one_digest_a_day(granted, alice, lead):
    told = {}
    for hour in range(0, 41 * 24, 6):
        count = notify_of_ends(now=at(hour * HOUR_S + 1))
        assert notify_of_ends(now=at(hour * HOUR_S + 2)) == 0
        if count:
            told[hour / 24] = count
    # Forty days: 30, 14, 7, 1 and 0 days before the end, to the asker and the lead.
    assert list(told) == [10, 26, 33, 39, 40]
    assert set(told.values()) == {2}
    assert len([subject for subject in to(alice) if "comes to its end" in subject]) == 5


def test_a_threshold_that_nobody_looked_at_is_made_good_once(granted, alice):
    assert notify_of_ends(now=at(29 * DAY_S)) == 2
    assert notify_of_ends(now=at(30 * DAY_S)) == 0


def test_two_ends_are_one_mail(granted, cluster, root, project, alice, lead):
    other = ask(alice, project, pool=cluster.pool, valid_until=at(40 * DAY_S))
    decide(root, decide(lead, other, now=at(1)), now=at(2))
    assert notify_of_ends(now=at(11 * DAY_S)) == 2
    assert "2 grants of quota come to their end" in to(alice)


def test_revoked_grants_are_not_told_of(granted):
    Grant.objects.update(revoked_at=at(5))
    assert notify_of_ends(now=at(39 * DAY_S)) == 0


def test_the_end_of_hours_in_a_budget_is_told_too(cluster, root, team, project, alice, lead):
    """Thirty and fourteen days before it; at the end the mail says how much went back."""
    for owner, hours in ((team, 100), (project, 10)):
        set_budget(
            actor=root, owner=owner, gpu_hours=hours, valid_from=at(0),
            valid_until=at(60 * DAY_S), rules=BudgetRules(), now=at(0),
        )  # fmt: skip
    asked = ask(alice, project, kind="budget", amount=20, valid_until=at(40 * DAY_S))
    decide(lead, asked, now=at(1))
    assert notify_of_ends(now=at(9 * DAY_S)) == 0
    assert notify_of_ends(now=at(10 * DAY_S + 1)) == 2
    assert notify_of_ends(now=at(27 * DAY_S)) == 2
    assert notify_of_ends(now=at(28 * DAY_S)) == 0
    (one, _) = [s for s in to(alice) if "comes to its end" in s]
    assert one.startswith("GPU-hours of budget for vision/digits")


def test_the_last_day_is_told_to_whose_session_runs_on_it(granted, project, bob):
    job = scenes.submit(bob, project)
    Session.objects.create(job=job, app="shell", idle_stop_s=600)
    Job.objects.filter(pk=job.pk).update(state=JobState.RUNNING)
    assert notify_of_ends(now=at(33 * DAY_S + 1)) == 2
    assert notify_of_ends(now=at(39 * DAY_S + 1)) == 3
    text = OutboundMail.objects.get(person=bob).text
    assert "you have a session there" in text and "/requests/" not in text


def test_a_renewal_is_a_draft_that_begins_where_the_grant_ends(granted, alice, lead):
    with pytest.raises(Forbidden):
        renew_request(actor=lead, request=granted, now=at(35 * DAY_S))
    made = renew_request(actor=alice, request=granted, now=at(35 * DAY_S))
    text = made.versions.get()
    assert (made.state, text.amount, made.renews) == ("draft", 2, granted)
    assert text.valid_from == granted.granted.valid_until
    assert text.valid_until - text.valid_from == timedelta(days=40)
    assert renew_request(actor=alice, request=granted, now=at(36 * DAY_S)).pk == made.pk
    with pytest.raises(Conflict):
        renew_request(actor=alice, request=made, now=at(36 * DAY_S))
    # Who may not is told so, whether there is anything to renew or not.
    with pytest.raises(Forbidden):
        renew_request(actor=lead, request=made, now=at(36 * DAY_S))


class TestMails:
    def test_each_is_sent_once(self, cluster, project, alice, lead):
        ask(alice, project)
        assert send_mails(now=at(1)) == 1
        assert send_mails(now=at(2)) == 0
        assert mail.outbox[0].to == ["lead@example.org"]
        assert "/requests/" in mail.outbox[0].body

    def test_a_server_that_is_away_is_tried_again_later_and_given_up_at_last(
        self, cluster, project, alice, lead, monkeypatch
    ):
        ask(alice, project)

        def away(*_args, **_more):
            raise ConnectionRefusedError("no server of mails")

        monkeypatch.setattr("scheduler.services.mailing.sending.send_mail", away)
        now = at(1)
        assert send_mails(now=now) == send_mails(now=now) == 0
        row = OutboundMail.objects.get()
        assert (row.tries, row.not_before) == (1, now + timedelta(minutes=2))
        for _ in range(MOST_TRIES):
            now += timedelta(days=1)
            send_mails(now=now)
        row.refresh_from_db()
        assert (row.tries, row.given_up_at is not None) == (MOST_TRIES, True)

    def test_one_that_cannot_be_sent_stops_no_other(self, alice, lead):
        for person, subject in ((alice, "of two\nlines"), (lead, "of one")):
            OutboundMail.objects.create(
                key=subject, person=person, subject=subject, text="", created_at=at(0),
                not_before=at(0),
            )  # fmt: skip
        assert send_mails(now=at(1)) == 1
        assert [one.to for one in mail.outbox] == [["lead@example.org"]]
        assert OutboundMail.objects.get(person=alice).tries == 1

    def test_people_who_left_get_none(self, cluster, project, alice, lead):
        ask(alice, project)
        type(lead).objects.filter(pk=lead.pk).update(is_active=False)
        assert send_mails(now=at(1)) == 0
        assert OutboundMail.objects.get().given_up_at == at(1)
