"""Addresses that answer 429: all that waits for one rests with what it was said to."""

from __future__ import annotations

import sys
from email.utils import format_datetime

import pytest

from scheduler.models import Delivery
from scheduler.services.inbox import (
    News,
    add_channel,
    add_webhook,
    change_channel,
    delivering,
    pause_webhook,
    resume_webhook,
    tell,
)
from scheduler.services.inbox.delivering import deliver
from scheduler.states import NoticeKind
from tests.scenes import at
from tests.services.test_webhooks import told

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("said", "rest_s"),
    [
        ("90", 90),
        (format_datetime(at(302), usegmt=True), 300),
        ("1", 30),
        ("7200", 3600),
        ("", 120),
        ("soon", 120),
    ],
)
def test_a_busy_address_is_left_alone_until_it_says_and_told_in_order(
    root, alice, receiver, said, rest_s
):
    add_webhook(actor=root, url=receiver.url, now=at(0))
    for key in "ab":
        told(alice, key=key)
    receiver.answers, receiver.retry_after = 429, said
    assert deliver(now=at(2)) == 0 and len(receiver.got) == 1
    told(alice, key="c", second=3)
    receiver.answers = 200
    assert deliver(now=at(2 + rest_s - 1)) == 0 and len(receiver.got) == 1
    assert deliver(now=at(2 + rest_s)) == 3
    ids = [int(headers["X-Trainyard-Delivery"]) for _, headers, _ in receiver.got[1:]]
    assert ids == sorted(ids)


def test_who_dies_in_the_try_after_a_rest_leaves_no_other_rest(root, alice, receiver, monkeypatch):
    add_webhook(actor=root, url=receiver.url, now=at(0))
    for key in "ab":
        told(alice, key=key)
    receiver.answers, receiver.retry_after = 429, "90"
    assert deliver(now=at(2)) == 0
    receiver.answers = 200
    with monkeypatch.context() as killed, pytest.raises(SystemExit):
        killed.setattr(delivering, "_post", lambda *_: sys.exit())
        deliver(now=at(92))
    assert deliver(now=at(93)) == 1
    assert [row.key for row in Delivery.objects.filter(sent_at=None)] == ["a"]


def test_one_that_was_tried_often_keeps_the_others_no_longer_than_the_address_says(
    root, alice, receiver
):
    """Half an hour for the half minute that a chat asks for: nobody would hear of anything."""
    add_webhook(actor=root, url=receiver.url, now=at(0))
    told(alice, key="a")
    receiver.answers = 500
    assert deliver(now=at(2)) == 0
    Delivery.objects.update(tries=6, not_before=at(10))
    receiver.answers, receiver.retry_after = 429, "30"
    assert deliver(now=at(10)) == 0
    told(alice, key="b", second=11)
    receiver.answers = 204
    assert deliver(now=at(39)) == 0
    assert deliver(now=at(40)) == 1
    (left,) = Delivery.objects.filter(sent_at=None)
    assert (left.key, left.not_before) == ("a", at(10 + 32 * 60))


def test_who_resumes_a_webhook_does_not_wait_for_the_rest_it_asked_for(root, alice, receiver):
    hook, _ = add_webhook(actor=root, url=receiver.url, now=at(0))
    told(alice, key="a")
    receiver.answers, receiver.retry_after = 429, "3600"
    assert deliver(now=at(2)) == 0
    receiver.answers = 200
    assert deliver(now=at(10)) == 0
    pause_webhook(actor=root, webhook=hook, now=at(11))
    resume_webhook(actor=root, webhook=hook, now=at(12))
    assert deliver(now=at(13)) == 1


def test_nor_does_who_resumes_a_chat_but_another_name_ends_no_rest(alice, receiver):
    channel = add_channel(actor=alice, url=receiver.url, dialect="slack", now=at(0))
    news = News(alice.pk, NoticeKind.JOB_FAILED, "thing:1", "train has failed", "", "/", "a")
    tell([news], now=at(1))
    receiver.answers, receiver.retry_after = 429, "3600"
    assert deliver(now=at(5)) == 0 and len(receiver.got) == 1
    receiver.answers = 200
    change_channel(actor=alice, channel=channel, name="phone", now=at(10))
    change_channel(actor=alice, channel=channel, is_paused=True, now=at(11))
    channel.refresh_from_db()
    assert channel.rests_until == at(3605)
    change_channel(actor=alice, channel=channel, is_paused=False, now=at(12))
    assert deliver(now=at(13)) == 1
