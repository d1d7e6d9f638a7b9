"""Whose turn it is among the addresses that programs are told at, and what they are told of."""

from __future__ import annotations

import pytest

from scheduler.models import Delivery, Notification
from scheduler.services.inbox import News, add_webhook, delivering, tell
from scheduler.services.inbox.taking_up import take_up
from scheduler.states import NoticeKind
from tests.scenes import at

pytestmark = pytest.mark.django_db


def test_what_is_due_is_found_in_two_looks_however_many_addresses(
    root, alice, django_assert_num_queries, monkeypatch
):
    """One of each in turn, at most so many of each; who was tried before comes last."""
    monkeypatch.setattr(delivering, "_BATCH", 2)
    hooks = [
        add_webhook(actor=root, url=f"http://127.0.0.1:9/?{n}", kinds=[], now=at(0))[0]
        for n in range(3)
    ]
    for number in range(3):
        tell(
            [News(alice.pk, NoticeKind.JOB_FAILED, "job:1", "t", "x", "/jobs/1/", f"n{number}")],
            now=at(1),
        )
    monkeypatch.setattr(delivering, "_AT_MOST_S", -1.0)
    delivering.deliver(now=at(2))
    hooks[0].deliveries.filter(key="n0").update(tries=1)
    due = Delivery.objects.filter(sent_at=None)
    with django_assert_num_queries(2):
        found = delivering.in_turn(due)
    keys = dict(Delivery.objects.values_list("pk", "key"))
    last, *others = (hook.pk for hook in hooks)
    turns = [(keys[pk], hook) for pk, hook in found]
    assert turns == [(key, hook) for key in ("n0", "n1") for hook in (*others, last)]


def told(person, key, second):
    tell(
        [News(person.pk, NoticeKind.JOB_FAILED, "job:1", "t", "x", "/jobs/1/", key)], now=at(second)
    )


def test_what_is_long_over_is_not_read_at_each_look(root, alice, django_assert_max_num_queries):
    hook, _ = add_webhook(actor=root, url="https://chat.example.org/", now=at(-86_400))
    told(alice, "old", -80_000)
    take_up(hook, at(0))
    hook.refresh_from_db()
    # Told late, as its transaction took so long: beside what is as old as it.
    told(alice, "new", 30)
    told(alice, "slow", -560)
    with django_assert_max_num_queries(10) as captured:
        take_up(hook, at(31))
    assert sorted(row.key for row in Delivery.objects.all()) == ["new", "old", "slow"]
    floor = Notification.objects.get(key="old").pk
    assert any(f'"scheduler_notification"."id" > {floor}' in one["sql"] for one in captured)
