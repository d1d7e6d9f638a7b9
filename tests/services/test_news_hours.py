"""Quiet hours and digests: when mails come, what they hold, each thing once."""

from __future__ import annotations

from datetime import UTC, datetime, time

import pytest
from django.core import mail

from scheduler.models import NewsHours, OutboundMail, WaitingNews
from scheduler.services.errors import Invalid
from scheduler.services.inbox import News, choose_kind, mute, set_hours, tell
from scheduler.services.inbox.digesting import write_digests
from scheduler.services.inbox.mailing import write_mails
from scheduler.services.mailing.sending import send_mails
from scheduler.states import (
    EndReason,
    Hours,
    JobState,
    MailRhythm,
    NoticeKind,
    chat_due_at,
    mail_due_at,
)
from tests import requesting, scenes
from tests.scenes import NOON, at

NIGHT = Hours(zone="Europe/Berlin", quiet_from=time(22), quiet_until=time(7))


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


class TestWhen:
    @pytest.mark.parametrize(
        ("now", "due"),
        [
            ("2026-11-27T20:59", "2026-11-27T20:59"),
            ("2026-11-27T21:00", "2026-11-28T06:00"),
            ("2026-11-28T05:59", "2026-11-28T06:00"),
            ("2026-11-28T06:00", "2026-11-28T06:00"),
            # The nights in which clocks change: 22:00 to 07:00 is 8 and 10 hours.
            ("2026-03-28T21:00", "2026-03-29T05:00"),
            ("2026-10-24T20:00", "2026-10-25T06:00"),
        ],
    )
    def test_chats_wait_for_the_morning_where_the_person_is(self, now, due):
        assert chat_due_at(NIGHT, "job_failed", utc(now)) == utc(due)

    @pytest.mark.parametrize(
        ("until", "now", "due"),
        [
            # 02:30 is left out in spring, and comes twice in autumn.
            (time(2, 30), "2026-03-29T00:10", "2026-03-29T01:30"),
            (time(2, 30), "2026-10-25T00:10", "2026-10-25T00:30"),
            (time(2, 30), "2026-10-25T01:10", "2026-10-25T01:30"),
        ],
    )
    def test_an_end_in_an_hour_that_clocks_leave_out_or_have_twice(self, until, now, due):
        hours = Hours(zone="Europe/Berlin", quiet_from=time(22), quiet_until=until)
        assert chat_due_at(hours, "job_failed", utc(now)) == utc(due)

    @pytest.mark.parametrize(
        ("rhythm", "due"),
        [
            (MailRhythm.AT_ONCE, "2026-11-27T12:34"),
            (MailRhythm.HOURLY, "2026-11-27T13:00"),
            (MailRhythm.DAILY, "2026-11-28T07:00"),
            (MailRhythm.WEEKLY, "2026-11-30T07:00"),
        ],
    )
    def test_digests_come_at_their_time_of_day(self, rhythm, due):
        hours = Hours(mail=rhythm, zone="Europe/Berlin")
        assert mail_due_at(hours, "job_failed", utc("2026-11-27T12:34")) == utc(due)

    def test_a_digest_waits_for_the_end_of_the_quiet_and_what_is_urgent_for_nothing(self):
        hours = Hours(
            mail=MailRhythm.DAILY,
            digest_at=time(6),
            quiet_from=time(22),
            quiet_until=time(9),
            urgent=frozenset({"job_preempted"}),
        )
        now = utc("2026-11-27T23:00")
        assert mail_due_at(hours, "job_failed", now) == utc("2026-11-28T09:00")
        assert mail_due_at(hours, "job_preempted", now) == now


def told(person, key="a", *, kind="job_failed", second=1, subject="thing:1"):
    tell(
        [News(person.pk, NoticeKind(kind), subject, key, "exit 1", "/jobs/1/", key)], now=at(second)
    )


@pytest.mark.django_db
class TestDigests:
    def look(self, second: float) -> int:
        """One run of the task; how many mails were sent."""
        now = at(second)
        write_mails(now=now)
        write_digests(now=now)
        return send_mails(now=now)

    def test_one_mail_an_hour_holds_all_of_it_and_without_news_none_comes(self, alice, bob):
        for person in (alice, bob):
            choose_kind(actor=person, kind="job_failed", in_inbox=True, by_mail=True)
        set_hours(actor=alice, mail="hourly", now=at(0))
        for person in (alice, bob):
            told(person, "first")
            told(person, "second")
        assert self.look(5) == 2 and {one.to[0] for one in mail.outbox} == {bob.email}
        assert self.look(3599) == 0
        assert self.look(3601) == 1
        letter = mail.outbox[-1]
        assert letter.to == [alice.email] and letter.subject == "Trainyard: 2 pieces of news"
        assert "Ended (2)" in letter.body and letter.body.count("/jobs/1/") == 2
        assert "/settings/notifications/when/" in letter.body
        assert self.look(7201) == 0

    def test_it_says_what_a_job_has_cost_to_who_is_in_its_team(self, root, alice, project):
        cluster = scenes.build_cluster(root)
        choose_kind(actor=alice, kind="job_succeeded", in_inbox=True, by_mail=True)
        set_hours(actor=alice, mail="hourly", now=at(0))
        job = scenes.submit(alice, project)
        attempt = scenes.start(job, cluster.node(1))
        scenes.sync(cluster.node(1), scenes.running(attempt))
        scenes.sync(cluster.node(1), scenes.ended(attempt), now=at(1800))
        job.refresh_from_db()
        assert job.state == JobState.SUCCEEDED and job.end_reason == EndReason.COMPLETED
        assert self.look(1801) == 0
        assert self.look(3601) == 1
        assert "EUR)" in mail.outbox[-1].body

    def test_what_waits_is_named_while_it_waits(self, alice, bob, lead, project):
        set_hours(actor=lead, mail="daily", now=at(0))
        request = requesting.ask(alice, project, now=at(1))
        other = requesting.ask(bob, project, now=at(2))
        assert self.look(5) == 0 and WaitingNews.objects.count() == 2
        requesting.decide(lead, other, outcome="deny", now=at(6), reason_code="no_budget")
        self.look(86_400)
        (letter,) = [one for one in mail.outbox if one.to == [lead.email]]
        assert "Waits for you to decide (1)" in letter.body
        assert f"/requests/{request.pk}/" in letter.body
        assert f"/requests/{other.pk}/" not in letter.body

    def test_what_was_muted_meanwhile_is_left_out_and_a_zone_that_is_gone_keeps_nothing(
        self, alice
    ):
        choose_kind(actor=alice, kind="job_failed", in_inbox=True, by_mail=True)
        set_hours(actor=alice, mail="daily", now=at(0))
        NewsHours.objects.update(zone="Gone/Away")
        told(alice, "first")
        told(alice, "second", subject="job:2")
        assert self.look(5) == 0
        mute(actor=alice, subject="job:2", now=at(6))
        assert self.look(86_400) == 1
        assert "first" in mail.outbox[-1].body and "second" not in mail.outbox[-1].body

    def test_urgent_kinds_come_by_themselves(self, alice, lead, project):
        set_hours(actor=lead, mail="daily", urgent=["request_waiting"], now=at(0))
        requesting.ask(alice, project, now=at(1))
        assert self.look(5) == 1

    def test_who_wants_mails_at_once_again_has_what_waited_at_once(self, alice):
        choose_kind(actor=alice, kind="job_failed", in_inbox=True, by_mail=True)
        set_hours(actor=alice, mail="weekly", now=at(0))
        told(alice)
        assert self.look(5) == 0
        set_hours(actor=alice, mail="at_once", now=at(6))
        assert self.look(7) == 1

    def test_quiet_hours_hold_mails_too_and_two_tasks_write_one(self, alice):
        choose_kind(actor=alice, kind="job_failed", in_inbox=True, by_mail=True)
        set_hours(actor=alice, quiet=(time(11), time(13)), now=at(0))
        told(alice)
        assert self.look(5) == 0
        write_digests(now=at(3601))
        write_digests(now=at(3601))
        assert OutboundMail.objects.count() == 1 and self.look(3602) == 1

    def test_statements_do_not_grow_with_people(
        self, alice, bob, carol, django_assert_num_queries, django_assert_max_num_queries
    ):
        def due(*people, second):
            for person in people:
                choose_kind(actor=person, kind="job_failed", in_inbox=True, by_mail=True)
                set_hours(actor=person, mail="hourly", now=at(second))
                told(person, f"k{second}", second=second)
            write_mails(now=at(second + 1))

        due(alice, second=0)
        with django_assert_max_num_queries(24) as few:
            write_digests(now=at(3600))
        due(alice, bob, carol, second=3601)
        with django_assert_num_queries(len(few)):
            assert write_digests(now=at(7200)) == 3

    @pytest.mark.parametrize(
        ("fields", "field"),
        [
            ({"mail": "yearly"}, "mail"),
            ({"zone": "../etc/passwd"}, "zone"),
            ({"urgent": ["gossip"]}, "urgent"),
            ({"quiet": (time(7), time(7))}, "quiet_until"),
        ],
    )
    def test_what_is_wrong_is_named(self, alice, fields, field):
        with pytest.raises(Invalid) as refused:
            set_hours(actor=alice, now=NOON, **fields)
        assert refused.value.field == field
