"""Programs are told what people are told: signed, once, again when they are away; by whom."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from accounts.models import AuditEvent
from scheduler.models import Delivery, Webhook
from scheduler.selectors.inbox import get_visible_delivery, get_visible_webhook, visible_webhooks
from scheduler.services.errors import Conflict, Forbidden, Invalid, NotFound
from scheduler.services.inbox import (
    News,
    add_webhook,
    change_webhook,
    pause_webhook,
    remove_webhook,
    resume_webhook,
    send_again,
    tell,
)
from scheduler.services.inbox.delivering import MOST_TRIES, deliver, prune_deliveries, signature
from scheduler.services.inbox.reaching import Answer
from scheduler.states import NoticeKind
from tests.scenes import at

pytestmark = pytest.mark.django_db


def told(*people: Any, key: str = "job:1:ended", kind: str = "job_failed", second: int = 1) -> None:
    tell(
        [
            News(one.pk, NoticeKind(kind), "job:1", "train has failed", "exit 1", "/jobs/1/", key)
            for one in people
        ],
        now=at(second),
    )


def test_what_two_people_are_told_is_sent_once_and_signed(root, alice, bob, receiver):
    _, secret = add_webhook(actor=root, url=receiver.url, now=at(0))
    told(alice, bob)
    assert deliver(now=at(5)) == 1
    assert deliver(now=at(6)) == 0
    [(path, headers, body)] = receiver.got
    assert path == "/hook?room=1" and headers["X-Trainyard-Event"] == "job_failed"
    sent = json.loads(body)
    assert sent["title"] == "train has failed" and sent["url"].endswith("/jobs/1/")
    assert "alice" not in body.decode()
    second = int(at(5).timestamp())
    assert headers["X-Trainyard-Signature"] == signature(secret.encode(), second, body)
    assert headers["X-Trainyard-Signature"] != signature(b"another", second, body)


def test_only_the_kinds_it_wants_and_nothing_of_before(root, alice, receiver):
    told(alice, key="old", second=-100)
    add_webhook(actor=root, url=receiver.url, kinds=["budget"], now=at(0))
    told(alice, key="a")
    told(alice, key="b", kind="budget")
    assert deliver(now=at(2)) == 1
    assert [row.key for row in Delivery.objects.all()] == ["b"]


def test_what_was_written_late_is_taken_up_all_the_same(root, alice, receiver):
    """Its transaction began before the last look and ended after it."""
    add_webhook(actor=root, url=receiver.url, now=at(0))
    told(alice, key="a", second=50)
    assert deliver(now=at(60)) == 1
    told(alice, key="b", second=40)
    assert deliver(now=at(61)) == 1


def test_a_refusal_or_redirect_is_tried_later_and_given_up_at_last(root, alice, receiver):
    add_webhook(actor=root, url=receiver.url, now=at(0))
    told(alice)
    receiver.answers = 307
    now = at(1)
    assert deliver(now=now) == deliver(now=now) == 0
    row = Delivery.objects.get()
    assert (row.tries, row.status, row.not_before) == (1, 307, now + timedelta(minutes=2))
    for _ in range(MOST_TRIES):
        now += timedelta(days=1)
        deliver(now=now)
    row.refresh_from_db()
    assert (row.tries, row.given_up_at is not None) == (MOST_TRIES, True)
    receiver.answers = 200
    send_again(actor=root, delivery=row, now=now)
    assert deliver(now=now) == 1
    assert prune_deliveries(now=now + timedelta(days=40)) == 1


def test_no_transaction_is_open_while_an_address_takes_its_time(
    root, alice, receiver, monkeypatch, transactional_db
):
    seen = []

    def posts(row, _at_s):
        seen.append(connection.in_atomic_block)
        # Another sender comes meanwhile and leaves it alone.
        assert deliver(now=at(2)) == 0
        return Answer(204)

    monkeypatch.setattr("scheduler.services.inbox.delivering._post", posts)
    add_webhook(actor=root, url=receiver.url, now=at(0))
    told(alice)
    assert deliver(now=at(2)) == 1
    assert seen == [False]


def test_an_address_that_is_away_keeps_nobody_waiting(root, alice, receiver):
    add_webhook(actor=root, url="http://127.0.0.1:9/", now=at(0))
    add_webhook(actor=root, url=receiver.url, now=at(0))
    for key in "abc":
        told(alice, key=key)
    assert deliver(now=at(2)) == 3
    away = Delivery.objects.filter(webhook__url="http://127.0.0.1:9/")
    assert sorted(away.values_list("tries", flat=True)) == [0, 0, 1]
    assert "refused" in away.get(tries=1).trouble.lower()


def test_a_choosy_address_gets_the_others_and_one_that_says_no_to_all_is_left(
    root, alice, receiver
):
    add_webhook(actor=root, url=receiver.url, now=at(0))
    for key in "abcde":
        told(alice, key=key)
    answers = [503, 200, 0, 503, 200]
    receiver.answers_in_turn = list(answers)
    assert deliver(now=at(2)) == 2
    assert [row.status or 0 for row in Delivery.objects.order_by("id")] == answers
    for key in "fghij":
        told(alice, key=key, second=3)
    receiver.answers = 503
    assert deliver(now=at(4)) == 0
    fresh = Delivery.objects.filter(key__in="fghij")
    assert sorted(fresh.values_list("tries", flat=True)) == [0, 0, 1, 1, 1]


def test_a_pause_sends_nothing_and_leaves_out_what_was_told_meanwhile(root, alice, receiver):
    hook, _ = add_webhook(actor=root, url=receiver.url, now=at(0))
    pause_webhook(actor=root, webhook=hook, now=at(1))
    told(alice, second=2)
    assert deliver(now=at(3)) == 0
    resume_webhook(actor=root, webhook=hook, now=at(2000))
    told(alice, key="b", second=2001)
    assert deliver(now=at(2002)) == 1
    assert [row.key for row in Delivery.objects.all()] == ["b"]


def test_a_short_pause_leaves_out_what_was_told_meanwhile_and_added_kinds_what_was_before(
    root, alice, receiver
):
    hook, _ = add_webhook(actor=root, url=receiver.url, kinds=["job_failed"], now=at(0))
    deliver(now=at(100))
    pause_webhook(actor=root, webhook=hook, now=at(101))
    told(alice, key="paused", second=150)
    resume_webhook(actor=root, webhook=hook, now=at(200))
    told(alice, key="after", second=201)
    told(alice, key="other", kind="budget", second=202)
    change_webhook(actor=root, webhook=hook, kinds=["budget", "job_failed"], now=at(230))
    told(alice, key="budget", kind="budget", second=240)
    for second in (250, 700, 900, 2000):
        deliver(now=at(second))
    assert sorted(row.key for row in Delivery.objects.all()) == ["after", "budget"]


def test_a_long_pause_gives_up_nothing_that_waited(root, alice, receiver):
    hook, _ = add_webhook(actor=root, url=receiver.url, now=at(0))
    receiver.answers = 503
    told(alice)
    deliver(now=at(2))
    pause_webhook(actor=root, webhook=hook, now=at(3))
    days = 5 * 86_400
    assert deliver(now=at(days)) == 0
    resume_webhook(actor=root, webhook=hook, now=at(days))
    receiver.answers = 204
    assert deliver(now=at(days + 1)) == 1


def test_an_address_that_is_away_for_days_keeps_none_of_the_others_waiting(root, alice, receiver):
    away, _ = add_webhook(actor=root, url="http://127.0.0.1:9/", kinds=["budget"], now=at(0))
    add_webhook(actor=root, url=receiver.url, kinds=["job_failed"], now=at(0))
    for number in range(201):
        told(alice, key=f"b{number}", kind="budget")
    deliver(now=at(2))
    told(alice, key="live", second=3)
    assert deliver(now=at(4)) == 1
    # And what was not so much as tried is given up after a while, then forgotten.
    later = at(4) + timedelta(days=4)
    deliver(now=later)
    assert not away.deliveries.filter(given_up_at=None).exists()
    assert prune_deliveries(now=later + timedelta(days=40)) == 202


def test_who_asks_decides_or_cancels_is_told_to_people_alone(root, alice, receiver):
    add_webhook(actor=root, url=receiver.url, now=at(0))
    for kind in "request_waiting request_decided job_cancelled job_preempted job_held".split():
        words = "train was cancelled" if kind.startswith("job") else "Zoe Zimmer asks"
        about = f"{kind}:1"
        news = News(alice.pk, NoticeKind(kind), about, words, "Says Zoe Zimmer.", "/", kind)
        tell([news], now=at(1))
    assert deliver(now=at(2)) == 5
    sent = [json.loads(body) for _, _, body in receiver.got]
    assert "Zimmer" not in str(sent)
    assert [one["title"] for one in sent] == [
        "A request waits for a decision",
        "A request was answered",
        *["train was cancelled"] * 3,
    ]


def test_this_machine_is_no_receiver_unless_it_is_said(root, alice, receiver, settings):
    add_webhook(actor=root, url=receiver.url, now=at(0))
    settings.WEBHOOK_NETWORKS = ()
    told(alice)
    assert deliver(now=at(2)) == 0
    assert "not of the open internet" in Delivery.objects.get().trouble and not receiver.got


@pytest.mark.parametrize(
    "url",
    ["", "chat.example.org", "ftp://x.example.org/", "https://", "https://me:pw@x.example.org/",
     "https://x.example.org:99999/", "https://x.example.org/a b", "https://x.example.org/\r\nX: 1",
     "https://x.example.org/höök", "https://x.example.org/?q=ö", "https://a..b/"],
)  # fmt: skip
def test_odd_addresses_are_refused_by_field(root, url):
    with pytest.raises(Invalid) as refused:
        add_webhook(actor=root, url=url)
    assert refused.value.field == "url" and not Webhook.objects.exists()


def test_they_are_for_administrators_and_leave_no_secret_behind(root, operator, alice):
    hook, secret = add_webhook(actor=root, url="https://chat.example.org/services/T0/secretpart")
    for person in (operator, alice):
        for act in (
            lambda one: add_webhook(actor=one, url="https://y.example.org/"),
            lambda one: pause_webhook(actor=one, webhook=hook),
            lambda one: remove_webhook(actor=one, webhook=hook),
        ):
            with pytest.raises(Forbidden):
                act(person)
        for look in (
            visible_webhooks,
            lambda one: get_visible_webhook(one, hook.pk),
            lambda one: get_visible_delivery(one, 1),
        ):
            with pytest.raises(NotFound):
                look(person)
    with pytest.raises(Conflict):
        add_webhook(actor=root, url=hook.url)
    with pytest.raises(Invalid):
        add_webhook(actor=root, url="https://z.example.org/", kinds=["gossip"])
    remove_webhook(actor=root, webhook=hook)
    texts = str(list(AuditEvent.objects.values_list("before", "after")))
    assert "chat.example.org" in texts
    assert "secretpart" not in texts and secret not in texts
