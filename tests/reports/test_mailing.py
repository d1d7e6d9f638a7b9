"""Reports by mail: when due, once, to each what they may see at that moment."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime

import pytest
from django.core import mail

from accounts.errors import Forbidden, NotFound
from accounts.models import AuditEvent
from portal.celery import mail_reports
from portal.reports.books import mailing
from portal.reports.books.mailing import mail_due_reports
from scheduler.models import ReportDelivery, ReportSchedule
from scheduler.services.errors import Conflict, Invalid
from scheduler.services.mailing import create_schedule, end_schedule
from tests.selectors.test_reports import closed
from tests.services.test_books import clerk, close, yard

pytestmark = pytest.mark.django_db
__all__ = ["clerk", "closed", "yard"]
MADE = datetime(2026, 11, 21, 9, tzinfo=UTC)
MONDAY = datetime(2026, 11, 23, 6, tzinfo=UTC)
FIRST = datetime(2026, 12, 1, 6, tzinfo=UTC)
LATER = datetime(2026, 12, 3, 6, tzinfo=UTC)


@pytest.fixture
def people(root, alice, lead):
    for person in (root, alice, lead):
        person.email = f"{person.username}@example.org"
        person.save(update_fields=["email"])
    return [root, alice, lead]


def schedule(actor, people, slug="job-cost", rhythm="monthly", **more):
    more = {"file_format": "csv", "now": MADE, **more}
    return create_schedule(actor=actor, slug=slug, rhythm=rhythm, recipients=people, **more)


def test_a_months_report_waits_for_the_close_and_goes_once(root, people, yard):
    schedule(root, people)
    assert mail_due_reports(now=MONDAY) == 0
    assert mail_due_reports(now=FIRST) == 0
    close(root)
    assert mail_due_reports(now=LATER) == 3
    assert mail_due_reports(now=LATER) == 0
    found = {message.to[0]: message for message in mail.outbox}
    assert set(found) == {"root@example.org", "alice@example.org", "lead@example.org"}
    message = found["alice@example.org"]
    assert message.subject == "Trainyard: Job cost, 2026-11"
    assert "/finance/reports/job-cost/?period=2026-11" in message.body
    ((name, text, kind),) = message.attachments
    assert (name, kind) == ("job-cost-2026-11.csv", "text/csv")
    (row,) = csv.DictReader(io.StringIO(text.lstrip("\ufeff")))
    assert (row["person"], row["amount"]) == ("alice", "7.2")
    rows = list(csv.DictReader(io.StringIO(found["root@example.org"].attachments[0][1][1:])))
    assert len(rows) == 2
    assert AuditEvent.objects.filter(action="export.mail").count() == 3


def test_what_is_lives_goes_every_monday(root, people, yard):
    schedule(root, people[:1], slug="capacity", rhythm="weekly", file_format="xlsx")
    assert mail_due_reports(now=MADE) == 0
    assert mail_due_reports(now=MONDAY) == 1
    assert mail_due_reports(now=FIRST) == 1
    assert [d.due_on.isoformat() for d in ReportDelivery.objects.order_by("pk")] == [
        "2026-11-23",
        "2026-11-30",
    ]


def test_who_lost_the_right_gets_a_note_and_no_figures(root, people, closed, lead):
    schedule(root, [lead], slug="period-summary")
    lead.memberships.all().delete()
    lead.groups.clear()
    assert mail_due_reports(now=LATER) == 0
    assert mail.outbox == []
    assert ReportDelivery.objects.get().outcome.startswith("not sent: This report is for")


def test_a_mail_that_failed_is_tried_again(root, people, closed, monkeypatch):
    schedule(root, people[:1])

    def refuse(*_, **__):
        raise OSError("no server")

    with monkeypatch.context() as patched:
        patched.setattr(mailing.EmailMessage, "send", refuse)
        assert mail_due_reports(now=LATER) == 0
    assert mail_due_reports(now=LATER) == 0
    assert mail_due_reports(now=LATER.replace(hour=7)) == 1
    assert ReportDelivery.objects.get().outcome == "sent"


def test_one_that_cannot_be_made_stops_no_other(root, people, closed, alice):
    """Such as one from before, whose filters nobody takes any more."""
    broken = schedule(root, people[:1])
    ReportSchedule.objects.filter(pk=broken.pk).update(filters={"colour": "red"})
    schedule(root, [alice])
    assert mail_due_reports(now=LATER) == 1
    assert [message.to for message in mail.outbox] == [["alice@example.org"]]
    # It is tried again later, as after a mail that failed.
    assert [one.outcome for one in ReportDelivery.objects.order_by("pk")] == ["", "sent"]
    assert mail_due_reports(now=LATER.replace(hour=7)) == 0


def test_a_large_file_is_a_link(root, people, closed, monkeypatch):
    schedule(root, people[:1])
    monkeypatch.setattr(mailing, "MOST_BYTES", 10)
    assert mail_due_reports(now=LATER) == 1
    assert mail.outbox[0].attachments == [] and "too large" in mail.outbox[0].body


def test_wrong_wishes_are_refused_and_nothing_is_kept(root, people, alice, lead, bob, other_team):
    bob.email = ""
    wrong = [
        {"rhythm": "daily"},
        {"rhythm": "every second"},
        {"rhythm": "* * * * * *"},
        {"file_format": "doc"},
        {"filters": {"sku": "x"}, "slug": "period-summary"},
        {"filters": {"from": "2026-11-01"}, "slug": "capacity"},
        {"filters": {"to": "2026-11-09"}, "slug": "capacity"},
        {"people": []},
        {"people": [bob]},
    ]
    for each in wrong:
        given = {"people": people, **each}
        with pytest.raises(Invalid):
            schedule(root, given.pop("people"), **given)
    with pytest.raises(Forbidden):
        schedule(alice, people, slug="period-summary")
    with pytest.raises(NotFound):
        schedule(lead, people, slug="period-summary", filters={"team": other_team.slug})
    assert not ReportSchedule.objects.exists()


def test_it_is_ended_by_who_made_it_or_keeps_the_books(root, people, alice, lead, yard):
    made = schedule(alice, people)
    with pytest.raises(Forbidden):
        end_schedule(actor=lead, schedule=made)
    end_schedule(actor=root, schedule=made)
    with pytest.raises(Conflict):
        end_schedule(actor=alice, schedule=made)
    close(root)
    assert mail_due_reports(now=LATER) == 0


def test_the_page_makes_and_ends_one(client, people, alice, carol, closed):
    client.force_login(alice)
    sent = {"slug": "job-cost", "rhythm": "monthly", "file_format": "csv"}
    page = client.post("/finance/schedules/", {**sent, "recipients": "alice, nobody-here"})
    assert "Nobody whom you may name is called nobody-here" in page.content.decode()
    # Of another team: whether there is such a person is not said.
    page = client.post("/finance/schedules/", {**sent, "recipients": "carol"})
    assert "Nobody whom you may name is called carol" in page.content.decode()
    often = client.post("/finance/schedules/", {**sent, "rhythm": "* * * * * *"})
    assert often.status_code in (200, 422) and "valid choice" in often.content.decode()
    assert client.post("/finance/schedules/", {**sent, "recipients": "alice"}).status_code == 302
    page = client.get("/finance/schedules/").content.decode()
    assert "every month" in page
    (pk,) = {s.pk for s, _ in client.get("/finance/schedules/").context["schedules"]}
    assert client.get(f"/finance/schedules/{pk}/end/").status_code == 405
    assert client.post(f"/finance/schedules/{pk}/end/").status_code == 302
    assert client.get("/finance/schedules/").context["schedules"].rows == []


def test_the_task_is_planned(closed):
    assert "portal.celery.mail_reports" in mail_reports.app.conf.beat_schedule
    assert mail_reports() == 0
