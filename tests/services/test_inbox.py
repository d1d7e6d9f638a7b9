"""What people are told: once, in the change's own transaction, and only what they want."""

from __future__ import annotations

import pytest
from django.core import mail
from django.db import transaction

from scheduler.models import Notification, OutboundMail
from scheduler.selectors.inbox import calls_for, grouped, visible_notifications
from scheduler.services import transitions
from scheduler.services.errors import NotFound
from scheduler.services.inbox import News, choose_kind, mark_read, mute, tell, unmute
from scheduler.services.inbox.mailing import prune_notifications, write_mails
from scheduler.services.jobs import cancel_job
from scheduler.services.mailing.sending import prune_mails, send_mails
from scheduler.services.requesting.reminding import tend_requests
from scheduler.services.sets import cancel_set
from scheduler.states import EndReason, NoticeKind
from tests import requesting
from tests.scenes import at, build_cluster, ended, running, start, submit, sync
from tests.seconding import WHY

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return build_cluster(root, nodes=1, gpus=8)


def told(person) -> list[tuple[str, str]]:
    rows = visible_notifications(person).order_by("pk")
    return [(row.kind, row.title) for row in rows]


def end(job, node, exit_code: int, s: int) -> None:
    attempt = start(job, node)
    sync(node, running(attempt), now=at(s))
    reason = EndReason.EXIT_CODE if exit_code else EndReason.COMPLETED
    sync(node, ended(attempt, reason=reason, exit_code=exit_code), now=at(s + 1))


class TestJobs:
    def test_the_owner_is_told_of_ends_and_failures(self, cluster, alice, bob, project):
        good, bad = (submit(alice, project, name=name) for name in ("good", "bad"))
        end(good, cluster.node(1), 0, 1)
        end(bad, cluster.node(1), 3, 5)
        assert told(alice) == [
            ("job_succeeded", "good has finished"),
            ("job_failed", "bad has failed"),
        ]
        row = Notification.objects.get(kind="job_failed")
        assert (row.subject, row.path) == (f"job:{bad.pk}", f"/jobs/{bad.pk}/")
        assert "exit code 3" in row.text
        assert told(bob) == []

    def test_what_one_did_oneself_is_no_news(self, cluster, alice, lead, project):
        mine, theirs = submit(alice, project), submit(alice, project, name="theirs")
        cancel_job(actor=alice, job=mine)
        cancel_job(actor=lead, reason=WHY, job=theirs)
        assert told(alice) == [("job_cancelled", "theirs was cancelled")]

    def test_a_namesake_is_somebody_else(self, cluster, alice, lead, project):
        type(alice).objects.filter(pk__in=[alice.pk, lead.pk]).update(display_name="Kim Lee")
        alice.refresh_from_db()
        lead.refresh_from_db()
        for actor, name in ((alice, "own"), (lead, "theirs")):
            waiting, runs = (submit(alice, project, name=f"{name}-{n}") for n in ("waits", "runs"))
            attempt = start(runs, cluster.node(1))
            sync(cluster.node(1), running(attempt), now=at(1))
            for job in (waiting, runs):
                cancel_job(actor=actor, job=job, reason=WHY, now=at(2))
            gone = ended(attempt, reason=EndReason.EXIT_CODE, exit_code=143)
            sync(cluster.node(1), gone, now=at(3))
        kinds = {kind for kind, _ in told(alice)}
        assert (kinds, {title for _, title in told(alice)}) == (
            {"job_cancelled"},
            {"theirs-waits was cancelled", "theirs-runs was cancelled"},
        )

    def test_of_an_array_its_first_failure_and_its_end(self, cluster, alice, project):
        tasks = list(submit(alice, project, name="sweep", array="0-2").job_set.tasks.order_by("pk"))
        for number, (task, code) in enumerate(zip(tasks, (1, 1, 0), strict=True)):
            end(task, cluster.node(1), code, 10 * number + 1)
        kinds = [kind for kind, _ in told(alice)]
        assert kinds == ["job_failed", "job_failed"]
        assert told(alice)[1][1].endswith("1 of 3 tasks succeeded")

    def test_an_array_cancelled_by_its_owner_is_no_news(self, cluster, alice, project):
        job_set = submit(alice, project, array="0-9").job_set
        cancel_set(actor=alice, job_set=job_set)
        assert told(alice) == []

    def test_nothing_is_told_of_what_did_not_happen(self, cluster, alice, lead, project):
        job = submit(alice, project)
        with transaction.atomic():
            cancel_job(actor=lead, reason=WHY, job=job)
            transaction.set_rollback(True)
        assert told(alice) == []

    def test_a_job_that_lost_its_node_waits_again_and_says_so(self, cluster, alice, project):
        job = submit(alice, project, name="long")
        job.state = "running"
        type(job).objects.filter(pk=job.pk).update(state="running")
        with transaction.atomic():
            transitions.move_job(job, transitions.JobState.QUEUED, now=at(5), kind="requeued")
        assert told(alice) == [("job_preempted", "long was interrupted and waits again")]


def news(person, number: int = 1, kind=NoticeKind.JOB_FAILED, **more) -> News:
    subject = more.pop("subject", f"thing:{number}")
    return News(person.pk, kind, subject, f"job {number}", "", "/jobs/1/", f"k{number}", **more)


class TestInbox:
    def test_a_key_is_told_once(self, alice, bob):
        tell([news(alice), news(bob)], now=at(1))
        tell([news(alice), news(alice, 2)], now=at(2))
        assert (len(told(alice)), len(told(bob))) == (2, 1)

    def test_mute_a_thing_then_a_kind_and_hear_again(self, alice):
        tell([news(alice), news(alice, 2), news(alice, 3, subject="thing:1")], now=at(1))
        assert calls_for(alice).unread == 3
        mute(actor=alice, subject="thing:1")
        assert [group.subject for group in grouped(visible_notifications(alice))] == ["thing:2"]
        choose_kind(actor=alice, kind="job_failed", in_inbox=False, by_mail=False)
        assert calls_for(alice).unread == 0
        unmute(actor=alice, subject="thing:1")
        choose_kind(actor=alice, kind="job_failed", in_inbox=True, by_mail=False)
        assert len(told(alice)) == 3

    def test_one_reads_and_mutes_ones_own_alone(self, alice, bob):
        tell([news(alice), news(bob, 2)], now=at(1))
        with pytest.raises(NotFound):
            mute(actor=alice, subject="thing:2")
        assert mark_read(actor=alice, now=at(2)) == 1
        assert (calls_for(alice).unread, calls_for(bob).unread) == (0, 1)

    def test_what_came_meanwhile_stays_unread(self, alice):
        tell([news(alice)], now=at(1))
        seen = visible_notifications(alice).get().pk
        tell([news(alice, 2)], now=at(2))
        assert mark_read(actor=alice, up_to=seen) == 1
        assert calls_for(alice).unread == 1

    def test_old_ones_go(self, alice):
        day = 86_400
        tell([news(alice), news(alice, 2)], now=at(0))
        write_mails(now=at(1))
        mark_read(actor=alice, subject="thing:1", now=at(1))
        assert prune_notifications(now=at(31 * day)) == 1
        assert prune_notifications(now=at(91 * day)) == 1

    def test_what_programs_are_told_stays_until_webhooks_had_time(self, alice, team):
        type(alice).objects.filter(pk=alice.pk).update(kind="service", service_team=team, email="")
        tell([news(alice)], now=at(0))
        write_mails(now=at(1))
        assert prune_notifications(now=at(3500)) == 0
        assert prune_notifications(now=at(3700)) == 1


class TestMails:
    def test_all_that_wait_are_written_and_sent_in_one_look_and_forgotten_after_a_while(
        self, alice, monkeypatch
    ):
        for place in (
            "inbox.mailing.BATCH",
            "mailing.sending._BATCH",
            "mailing.sending._PRUNED_AT_ONCE",
        ):
            monkeypatch.setattr(f"scheduler.services.{place}", 2)
        choose_kind(actor=alice, kind="job_failed", in_inbox=True, by_mail=True)
        tell([news(alice, number) for number in range(5)], now=at(1))
        assert write_mails(now=at(2)) == 5
        assert send_mails(now=at(3)) == 5
        assert prune_mails(now=at(89 * 86_400)) == 0
        tell([news(alice, 9)], now=at(4))
        write_mails(now=at(5))
        assert prune_mails(now=at(91 * 86_400)) == 5
        assert OutboundMail.objects.get().sent_at is None

    def test_who_opted_in_gets_each_once(self, alice, bob):
        choose_kind(actor=alice, kind="job_failed", in_inbox=True, by_mail=True)
        tell([news(alice), news(bob)], now=at(1))
        assert write_mails(now=at(2)) == 1
        assert write_mails(now=at(3)) == 0
        assert send_mails(now=at(4)) == 1
        assert send_mails(now=at(5)) == 0
        (letter,) = mail.outbox
        assert letter.to == [alice.email]
        assert "/jobs/1/" in letter.body and "/settings/notifications/" in letter.body

    def test_a_request_tells_its_deciders_and_its_asker(self, alice, lead, project):
        choose_kind(actor=alice, kind="request_decided", in_inbox=True, by_mail=False)
        request = requesting.ask(alice, project, now=at(1))
        assert [kind for kind, _ in told(lead)] == ["request_waiting"]
        requesting.decide(lead, request, outcome="deny", now=at(2), reason_code="no_budget")
        assert [kind for kind, _ in told(alice)] == ["request_decided"]
        assert not OutboundMail.objects.filter(person=alice).exists()
        assert OutboundMail.objects.filter(person=lead).count() == 1
        assert write_mails(now=at(3)) == 0

    def test_of_a_muted_request_come_no_mails_any_more(self, alice, lead, project):
        request = requesting.ask(alice, project, now=at(1))
        mute(actor=lead, subject=f"request:{request.pk}")
        assert request.step_at and request.due_at
        half = request.step_at + (request.due_at - request.step_at) / 2
        assert tend_requests(now=half)["reminded"] == 1
        assert OutboundMail.objects.filter(person=lead).count() == 1
        assert Notification.objects.filter(person=lead).count() == 2
