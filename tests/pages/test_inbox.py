"""The inbox, the bell, and the settings of notifications."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.permissions import can
from accounts.services import change_role, remove_member
from scheduler.models import BulkCancel, Notification, NotificationMute
from scheduler.selectors.inbox import calls_for, visible_notifications
from scheduler.selectors.inbox.rules import WORDS
from scheduler.selectors.inbox.shown import shown_to
from scheduler.selectors.inbox.sight import seen_by
from scheduler.services.inbox import News, choose_kind, tell
from scheduler.services.sharing.budgets import set_budget
from scheduler.states import NoticeKind
from tests.pages.billed import billed
from tests.requesting import ask
from tests.scenes import build_cluster, submit

pytestmark = pytest.mark.django_db

HOSTILE = "<script>alert(1)</script>\u202e"


def tell_of(person, first: int, last: int, title: str = "train has failed") -> None:
    kind, now = NoticeKind.JOB_FAILED, timezone.now()
    tell(
        [
            News(person.pk, kind, f"thing:{n % 50}", title, "why", "/jobs/1/", f"k{n}")
            for n in range(first, last)
        ],
        now=now,
    )


def test_grouped_read_and_muted(client, alice):
    client.force_login(alice)
    tell_of(alice, 1, 4, HOSTILE)
    tell_of(alice, 51, 52)
    html = client.get("/notifications/").content.decode()
    assert "<script>alert" not in html and "1 earlier" in html
    assert html.count('class="new"') == 3
    bell = client.get("/notifications/?part=bell").content.decode()
    assert "4 unread" in bell and len(bell) < 700
    client.post("/notifications/read/", {"subject": "thing:1"})
    assert Notification.objects.filter(read_at__isnull=True).count() == 2
    client.post("/notifications/mute/", {"subject": "thing:2"})
    assert "thing:2" not in client.get("/notifications/").content.decode()
    assert client.post("/notifications/mute/", {"subject": "thing:49"}).status_code == 404
    client.post("/notifications/read/", {"up_to": "x"})
    assert "Everything is read" in client.get("/notifications/?show=unread").content.decode()


def test_a_button_leads_back_to_its_list_and_a_thing_stays_the_same(client, alice):
    client.force_login(alice)
    tell_of(alice, 1, 2)
    tell_of(alice, 51, 52)
    html = client.get("/notifications/?show=unread").content.decode()
    assert html.count('action="/notifications/read/?show=unread"') == 2
    assert '<li id="about-thing:1"' in html
    tell_of(alice, 101, 102)
    # What was opened in it stays open when there is news of it.
    assert '<li id="about-thing:1"' in client.get("/notifications/").content.decode()
    for what, subject in (("mute", "thing:1"), ("read", "thing:1")):
        for show, leads in (("?show=unread", "?show=unread"), ("", ""), ("?show=x", "")):
            answer = client.post(f"/notifications/{what}/{show}", {"subject": subject})
            assert answer.url == f"/notifications/{leads}", what


def test_all_are_marked_from_an_older_page_and_the_button_comes_with_the_news(client, alice):
    client.force_login(alice)
    assert "Mark all read" not in client.get("/notifications/?part=list").content.decode()
    tell_of(alice, 0, 102)
    part = client.get("/notifications/?part=list").content.decode()
    (cursor,) = re.findall(r"\?cursor=([^\"&]+)", part)
    older = client.get(f"/notifications/?cursor={cursor}").content.decode()
    newest = Notification.objects.order_by("-pk").values_list("pk", flat=True)[0]
    for page in (part, older):
        assert f'name="up_to" value="{newest}"><button class="btn sp">Mark all read' in page
    client.post("/notifications/read/", {"up_to": newest})
    assert "Mark all read" not in client.get("/notifications/?part=list").content.decode()


def test_choosing_kinds_and_hearing_again(client, alice):
    client.force_login(alice)
    tell_of(alice, 1, 2)
    client.post("/notifications/mute/", {"subject": "thing:1"})
    assert "train has failed" in client.get("/settings/notifications/").content.decode()
    client.post("/notifications/mute/", {"subject": "thing:1", "again": "yes"})
    assert not NotificationMute.objects.exists()
    client.post("/settings/notifications/", {"mail-job_failed": "on"})
    html = client.get("/settings/notifications/").content.decode()
    assert html.count(" checked") == 1
    assert "Nothing to tell you yet" in client.get("/notifications/").content.decode()


def test_wrong_addresses_are_named(client, alice):
    client.force_login(alice)
    html = client.get("/notifications/?cursor=x&show=all&colour=red").content.decode()
    assert "cursor: is" in html and "show: " in html and "<code>colour</code>" in html


def test_the_same_statements_for_many(
    client, alice, django_assert_max_num_queries, django_assert_num_queries
):
    client.force_login(alice)
    tell_of(alice, 1, 3)
    client.get("/notifications/")
    # Session, person, approvals, unread, the list, what of it may be seen.
    with django_assert_max_num_queries(6) as few:
        client.get("/notifications/")
    tell_of(alice, 3, 203)
    choose_kind(actor=alice, kind="budget", in_inbox=False, by_mail=False)
    with django_assert_num_queries(len(few)):
        page = client.get("/notifications/").content.decode()
    assert "Older" in page and "99+" in page


def test_nothing_is_shown_of_what_its_reader_may_not_see_any_more(
    client, root, alice, bob, team, project
):
    build_cluster(root)
    job = submit(alice, project, name="secret-plan")
    rows = (("job_failed", f"job:{job.pk}", "secret-plan has failed"), ("budget", "thing:1", "Low"))
    for kind, subject, title in rows:
        one = News(bob.pk, NoticeKind(kind), subject, title, "exit code 3", "/", subject)
        tell([one], now=timezone.now())
    client.force_login(bob)
    html = client.get("/notifications/").content.decode()
    assert "secret-plan" in html and "not shown" not in html and "2 unread" in html
    remove_member(actor=root, team=team, user=bob)
    html = client.get("/notifications/").content.decode()
    assert "1 unread" in html
    assert "secret-plan" not in html and f"job:{job.pk}" not in html and "Low" in html
    assert "1 more is not shown: about what is gone, or what you may not see any more." in html
    client.post("/notifications/read/", {"subject": "thing:1"})
    html = client.get("/notifications/?show=unread").content.decode()
    assert "1 is not shown" in html and "Everything is read" not in html
    assert "unread</span>" not in client.get("/notifications/?part=bell").content.decode()
    client.post("/notifications/mute/", {"subject": f"job:{job.pk}"})
    client.get("/notifications/")
    html = client.get("/settings/notifications/").content.decode()
    assert "secret-plan" not in html and "What is gone, or what you may not see any more" in html


def test_of_the_job_of_another_who_may_not_read_inside_has_no_text(
    client, root, alice, bob, team, project
):
    build_cluster(root)
    job = submit(alice, project)
    about = f"job:{job.pk}"
    tell(
        [News(bob.pk, NoticeKind.JOB_FAILED, about, "train has failed", "inside", "/", "k")],
        now=timezone.now(),
    )
    change_role(actor=root, team=team, user=bob, role="finance")
    client.force_login(bob)
    html = client.get("/notifications/").content.decode()
    assert "train has failed" in html and "inside" not in html


def test_the_bell_counts_what_the_list_shows_in_one_statement(
    client, root, alice, bob, team, project, other_project
):
    """Jobs that are seen, that are another team's, and that are gone."""
    build_cluster(root)
    for number in range(1, 4):
        mine, theirs = submit(bob, project), submit(root, other_project)
        for subject in (f"job:{mine.pk}", f"job:{theirs.pk}", f"job:{10**6 + number}"):
            one = News(bob.pk, NoticeKind.JOB_FAILED, subject, "train", "", "/", subject)
            tell([one], now=timezone.now())
        viewer = type(bob).objects.get(pk=bob.pk)
        can(viewer, "operate", None)
        with CaptureQueriesContext(connection) as asked:
            assert calls_for(viewer).unread == number
        assert len(asked) == 1
        client.force_login(bob)
        html = client.get("/notifications/?show=unread").content.decode()
        assert html.count('class="new"') == number and f"{number} unread" in html


def test_it_does_so_for_every_word_of_news_and_whoever_looks(
    root, alice, bob, lead, carol, finance, operator, project, other_project
):
    """Each rule of `rules.py` is a condition and a question."""
    bill = billed(root, alice, project, build_cluster(root, now=timezone.now()))
    now = timezone.now()
    jobs = [submit(bob, project, array="0-1"), submit(carol, other_project)]
    asked = [ask(alice, project, now=now), ask(carol, other_project, now=now)]
    subjects = ["node:1", "invariants", "month:2026-10", "thing:1", f"statement:{bill}"]
    subjects += [f"{word}:999999" for word in WORDS]
    subjects += [f"job:{job.pk}" for job in jobs] + [f"set:{jobs[0].job_set_id}"]
    subjects += [f"request:{one.pk}" for one in asked]
    days = {"valid_from": now, "valid_until": now + timedelta(days=30)}
    for owner in (project, other_project, project.team):
        subjects.append(f"budget:{set_budget(actor=root, owner=owner, gpu_hours=9, **days).pk}")
    for number, (who, job) in enumerate([(lead, jobs[0]), (root, jobs[1]), (root, jobs[0])]):
        named = BulkCancel.objects.create(
            about=f"jobs:{number}", named=1, reason="x", proposed_by=who, proposed_at=now,
            lapses_at=now,
        )  # fmt: skip
        named.jobs.add(job)
        subjects.append(f"bulk_cancel:{named.pk}")
    for person in (root, alice, bob, lead, carol, finance, operator):
        Notification.objects.filter(person=person).delete()
        tell(
            [News(person.pk, NoticeKind.BUDGET, one, "x", "", "/", one) for one in subjects],
            now=now,
        )
        viewer = type(person).objects.get(pk=person.pk)
        mine = visible_notifications(viewer)
        listed = sorted(one.subject for one in seen_by(viewer, list(mine)))
        counted = sorted(mine.filter(shown_to(viewer)).values_list("subject", flat=True))
        assert counted == listed, person.username
        assert calls_for(viewer).unread == len(listed)
        assert (f"statement:{bill}" in listed) == (person in (root, lead, finance))
