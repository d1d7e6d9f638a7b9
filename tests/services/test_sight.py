"""What goes out later is left out for who may not see it any more then; a few statements a look."""

from __future__ import annotations

import json

import pytest
from django.core import mail

from accounts.models import Role
from accounts.services import change_role, remove_member
from scheduler.models import BulkCancel, Delivery, Notification
from scheduler.selectors.inbox.sight import seen_by, still_seen
from scheduler.services.inbox import News, add_channel, choose_kind, set_hours, tell
from scheduler.services.inbox.chat.gathering import take_up_channels, write_messages
from scheduler.services.inbox.digesting import write_digests
from scheduler.services.inbox.mailing import write_mails
from scheduler.services.inbox.watching import watch_job
from scheduler.services.jobs import cancel_job
from scheduler.services.mailing.sending import send_mails
from scheduler.states import NoticeKind
from tests import requesting, scenes
from tests.scenes import at

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(root, alice, project):
    scenes.build_cluster(root)
    return scenes.submit(alice, project)


def look(second: float) -> int:
    now = at(second)
    write_mails(now=now)
    write_digests(now=now)
    return send_mails(now=now)


def about(person, subject, key="a", kind="job_failed"):
    tell([News(person.pk, NoticeKind(kind), subject, f"of {key}", "why", "/", key)], now=at(1))


def test_owner_and_watcher_who_left_find_nothing_of_it_in_their_mails(
    root, alice, bob, lead, team, job
):
    for person in (alice, bob, lead):
        choose_kind(actor=person, kind="job_cancelled", in_inbox=True, by_mail=True)
        set_hours(actor=person, mail="hourly", now=at(0))
    for person in (bob, lead):
        watch_job(actor=person, pk=job.pk, now=at(0))
    cancel_job(actor=root, job=job, reason="the node is needed", now=at(1))
    about(bob, "other:1", "budget", kind="budget")
    assert look(5) == 0
    for person in (alice, bob):
        remove_member(actor=root, team=team, user=person)
    assert look(3601) == 2
    letters = {one.to[0]: one.body for one in mail.outbox}
    assert set(letters) == {bob.email, lead.email}
    assert "train" in letters[lead.email] and "train" not in letters[bob.email]
    assert look(7201) == 0


def test_a_mail_that_nobody_wrote_for_a_while_is_asked_about(root, alice, bob, team, job):
    for person in (alice, bob):
        choose_kind(actor=person, kind="job_failed", in_inbox=True, by_mail=True)
        about(person, f"job:{job.pk}")
    remove_member(actor=root, team=team, user=bob)
    assert look(600) == 1
    assert [one.to[0] for one in mail.outbox] == [alice.email]


def test_ones_own_chat_leaves_it_out_and_the_teams_has_it(root, alice, bob, lead, team, job):
    slack = "https://hooks.slack.com/services/T0/B1/"
    add_channel(actor=bob, url=slack + "own", dialect="slack", now=at(0))
    add_channel(actor=lead, url=slack + "team", dialect="slack", team=team, now=at(0))
    watch_job(actor=bob, pk=job.pk, now=at(0))
    about(bob, f"job:{job.pk}", "job")
    about(bob, "other:1", "other", kind="budget")
    take_up_channels(now=at(2))
    remove_member(actor=root, team=team, user=bob)
    assert write_messages(now=at(3)) == 2
    found = {row.webhook.team_id: json.loads(row.body)["text"] for row in Delivery.objects.all()}
    assert "of other" in found[None] and "of job" not in found[None]
    assert "of job" in found[team.pk]


def test_who_may_not_read_inside_any_more_has_no_text(root, alice, bob, team, job):
    for person in (alice, bob):
        about(person, f"job:{job.pk}")
        change_role(actor=root, team=team, user=person, role=Role.FINANCE)
    found = {one.person_id: one.text for one in still_seen(list(Notification.objects.all()))}
    assert found == {alice.pk: "why", bob.pk: ""}


def test_all_words_are_asked_about_in_a_few_statements(
    root, alice, bob, carol, lead, project, job, django_assert_num_queries
):
    request = requesting.ask(alice, project, now=at(1))
    Notification.objects.all().delete()
    words = {
        f"job:{job.pk}": {alice, bob, lead, root},
        "job:99999": set(),
        "job:x": set(),
        f"request:{request.pk}": {alice, lead, root},
        "budget:99999": set(),
        "node:1": {root},
        "month:2026-11": {root},
        "statement:99999": set(),
        "other:1": {alice, bob, carol, lead, root},
    }
    for number, word in enumerate(words):
        for person in (alice, bob, carol, lead, root):
            about(person, word, str(number))
    rows = list(Notification.objects.all())
    # People, rights, and statements of the books apart.
    with django_assert_num_queries(4):
        found = still_seen(rows)
    names = {one.username: one for one in (alice, bob, carol, lead, root)}
    seen = {word: set() for word in words}
    for one in found:
        seen[one.subject].add(next(who for who in names.values() if who.pk == one.person_id))
    assert seen == words


def test_a_reader_finds_in_the_inbox_what_they_may_see_now_by_one_statement(
    root, alice, bob, team, project, job, django_assert_num_queries
):
    task = scenes.submit(alice, project, array="0-1")
    request = requesting.ask(alice, project, now=at(1))
    Notification.objects.all().delete()
    words = (f"job:{job.pk}", f"set:{task.job_set_id}", f"request:{request.pk}", "node:1", "x:1")
    for number, word in enumerate(words):
        about(bob, word, str(number))
    told = list(Notification.objects.filter(person=bob).order_by("pk"))
    reader = type(bob).objects.get(pk=bob.pk)
    assert reader.is_active and not reader.is_superuser
    seen_by(reader, [])
    with django_assert_num_queries(2):  # the rights, which a request has read before
        assert [one.subject for one in seen_by(reader, told)] == [*words[:2], "x:1"]
    remove_member(actor=root, team=team, user=bob)
    left = type(bob).objects.get(pk=bob.pk)
    assert [one.subject for one in seen_by(left, told)] == ["x:1"]


def test_who_has_decided_on_a_request_goes_on_seeing_it(root, alice, lead, team, project):
    scenes.build_cluster(root)
    request = requesting.ask(alice, project, now=at(1))
    requesting.decide(lead, request, outcome="deny", now=at(2), reason_code="no_budget")
    Notification.objects.all().delete()
    about(lead, f"request:{request.pk}", kind="request_decided")
    change_role(actor=root, team=team, user=lead, role=Role.MEMBER)
    assert len(still_seen(list(Notification.objects.all()))) == 1


def test_a_proposal_to_cancel_is_seen_by_who_might_agree(root, alice, bob, lead, team, job):
    proposal = BulkCancel.objects.create(
        proposed_by=bob, about="jobs:x", reason="why", named=1,
        proposed_at=at(0), lapses_at=at(9),
    )  # fmt: skip
    proposal.jobs.add(job)
    for person in (alice, bob, lead):
        about(person, f"bulk_cancel:{proposal.pk}", kind="request_waiting")
    remove_member(actor=root, team=team, user=alice)
    found = still_seen(list(Notification.objects.all()))
    assert {one.person_id for one in found} == {bob.pk, lead.pk}
