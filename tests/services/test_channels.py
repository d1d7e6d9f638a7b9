"""Chats are told what their person or team is told: safe to read, together, once; by whom."""

from __future__ import annotations

import json
from datetime import time, timedelta

import pytest

from accounts.models import AuditEvent, Membership, Role
from scheduler.models import Delivery, WaitingNews, Webhook
from scheduler.selectors.inbox import get_visible_channel, visible_channels, visible_webhooks
from scheduler.services.errors import Conflict, Forbidden, Invalid, NotFound
from scheduler.services.inbox import (
    News,
    add_channel,
    add_webhook,
    change_channel,
    mute,
    remove_channel,
    set_hours,
    tell,
    try_channel,
)
from scheduler.services.inbox.chat.gathering import take_up_channels, write_messages
from scheduler.services.inbox.delivering import MOST_TRIES, deliver
from scheduler.services.inbox.digesting import prune_waiting
from scheduler.states import NoticeKind
from tests import scenes
from tests.scenes import at

pytestmark = pytest.mark.django_db
SLACK = "https://hooks.slack.com/services/T0/B1/secret"


def told(
    person, key="a", *, kind="job_failed", second=1, subject="thing:1", title="train has failed"
):
    news = News(person.pk, NoticeKind(kind), subject, title, "exit 1", "/jobs/1/", key)
    tell([news], now=at(second))


def texts(receiver) -> list[str]:
    return [json.loads(body)["text"] for _, _, body in receiver.got]


class TestPersonal:
    def test_one_thing_is_one_message_with_its_link_and_without_a_signature(self, alice, receiver):
        add_channel(actor=alice, url=receiver.url, dialect="slack", now=at(0))
        told(alice)
        assert deliver(now=at(5)) == 1
        assert deliver(now=at(6)) == 0
        [(path, headers, body)] = receiver.got
        assert path == "/hook?room=1" and "X-Trainyard-Signature" not in headers
        text = json.loads(body)["text"]
        assert text.startswith("train has failed\nexit 1\n<http") and text.endswith(
            "/jobs/1/|Open>"
        )

    def test_many_things_of_one_look_are_one_message(self, alice, receiver):
        add_channel(actor=alice, url=receiver.url, dialect="slack", now=at(0))
        for number in range(20):
            told(alice, f"k{number}", title=f"job {number}")
        assert deliver(now=at(5)) == 1
        (text,) = texts(receiver)
        assert text.startswith("20 pieces of news") and text.count("•") == 15
        assert "and 5 more" in text

    def test_only_ones_own_the_kinds_chosen_and_nothing_muted_or_of_before(
        self, alice, bob, receiver
    ):
        told(alice, "old", second=-100)
        add_channel(actor=alice, url=receiver.url, dialect="slack", kinds=["job_failed"], now=at(0))
        told(bob, "of-bob")
        told(alice, "budget", kind="budget")
        told(alice, "silent", subject="job:2")
        mute(actor=alice, subject="job:2", now=at(2))
        told(alice, "a")
        assert deliver(now=at(5)) == 1
        assert list(WaitingNews.objects.values_list("key", flat=True)) == ["a"]

    def test_what_was_written_late_is_told_once(self, alice, receiver):
        add_channel(actor=alice, url=receiver.url, dialect="slack", now=at(0))
        told(alice, "a", second=50)
        assert deliver(now=at(60)) == 1
        told(alice, "b", second=40)
        assert deliver(now=at(61)) == 1
        assert deliver(now=at(62)) == 0
        assert prune_waiting(now=at(86_500)) == 2

    def test_quiet_hours_hold_all_back_but_what_is_urgent(self, alice, receiver):
        """at(0) is noon in UTC."""
        add_channel(actor=alice, url=receiver.url, dialect="slack", now=at(0))
        set_hours(
            actor=alice,
            quiet=(time(11), time(13)),
            zone="UTC",
            urgent=["job_preempted"],
            now=at(0),
        )
        told(alice, "a")
        told(alice, "b")
        told(alice, "c", kind="job_preempted", title="train was interrupted")
        assert deliver(now=at(5)) == 1
        assert "interrupted" in texts(receiver)[0] and "failed" not in texts(receiver)[0]
        assert deliver(now=at(3599)) == 0
        assert deliver(now=at(3601)) == 1
        assert texts(receiver)[1].startswith("2 pieces of news")

    def test_what_is_muted_in_the_night_is_not_told_in_the_morning(self, alice, receiver):
        add_channel(actor=alice, url=receiver.url, dialect="slack", now=at(0))
        set_hours(actor=alice, quiet=(time(11), time(13)), now=at(0))
        told(alice)
        assert deliver(now=at(5)) == 0
        mute(actor=alice, subject="thing:1", now=at(6))
        assert deliver(now=at(3601)) == 0 and not receiver.got
        assert not WaitingNews.objects.filter(taken_at=None).exists()

    def test_who_ends_the_quiet_is_told_at_once(self, alice, receiver):
        add_channel(actor=alice, url=receiver.url, dialect="slack", now=at(0))
        set_hours(actor=alice, quiet=(time(11), time(13)), now=at(0))
        told(alice)
        assert deliver(now=at(5)) == 0
        set_hours(actor=alice, quiet=(), now=at(6))
        assert deliver(now=at(7)) == 1

    def test_a_pause_and_what_was_told_meanwhile(self, alice, receiver):
        channel = add_channel(actor=alice, url=receiver.url, dialect="slack", now=at(0))
        change_channel(actor=alice, channel=channel, is_paused=True, now=at(1))
        told(alice, "meanwhile", second=2)
        assert deliver(now=at(3)) == 0
        change_channel(actor=alice, channel=channel, is_paused=False, now=at(4))
        told(alice, "after", second=5)
        assert deliver(now=at(6)) == 1
        assert list(WaitingNews.objects.values_list("key", flat=True)) == ["after"]

    def test_who_is_gone_is_told_nothing_more(self, alice, receiver):
        add_channel(actor=alice, url=receiver.url, dialect="slack", now=at(0))
        told(alice)
        receiver.answers = 500
        deliver(now=at(5))
        type(alice).objects.filter(pk=alice.pk).update(is_active=False)
        told(alice, "b")
        assert deliver(now=at(9_999)) == 0 and len(receiver.got) == 1


class TestTeams:
    @pytest.fixture
    def job(self, root, alice, project):
        scenes.build_cluster(root)
        return scenes.submit(alice, project)

    def test_a_team_hears_of_its_jobs_and_of_nothing_that_not_everybody_may_read(
        self, job, alice, lead, carol, receiver
    ):
        add_channel(actor=lead, url=receiver.url, dialect="slack", team=job.project.team, now=at(0))
        told(alice, "a", subject=f"job:{job.pk}", title="ours")
        told(alice, "b", subject=f"job:{job.pk}", kind="budget", title="money")
        told(lead, "c", subject="request:1", kind="request_waiting", title="asked")
        told(carol, "d", subject="job:987654", title="theirs")
        assert deliver(now=at(5)) == 1
        (text,) = texts(receiver)
        assert text.startswith("ours\n")

    def test_another_teams_channel_is_told_nothing(self, job, alice, root, other_team, receiver):
        add_channel(actor=root, url=receiver.url, dialect="slack", team=other_team, now=at(0))
        told(alice, subject=f"job:{job.pk}")
        assert deliver(now=at(5)) == 0

    def test_quiet_hours_and_mutes_are_ones_own(self, job, alice, lead, receiver):
        add_channel(actor=lead, url=receiver.url, dialect="slack", team=job.project.team, now=at(0))
        set_hours(actor=alice, quiet=(time(11), time(13)), now=at(0))
        told(alice, subject=f"job:{job.pk}")
        mute(actor=alice, subject=f"job:{job.pk}", now=at(2))
        assert deliver(now=at(5)) == 1

    def test_leads_alone_set_one_up_and_what_not_all_may_read_is_no_kind_of_it(
        self, team, alice, lead, carol
    ):
        with pytest.raises(Forbidden):
            add_channel(actor=alice, url=SLACK, dialect="slack", team=team)
        with pytest.raises(Invalid, match="Not everybody") as refused:
            add_channel(actor=lead, url=SLACK, dialect="slack", team=team, kinds=["budget"])
        assert refused.value.field == "kinds"
        channel = add_channel(actor=lead, url=SLACK, dialect="slack", team=team)
        for stranger in (alice, carol):
            assert not visible_channels(stranger).exists()
            with pytest.raises(NotFound):
                get_visible_channel(stranger, channel.pk)
        Membership.objects.filter(user=alice).update(role=Role.MEMBER)
        with pytest.raises(Forbidden):
            remove_channel(actor=alice, channel=channel)


def test_the_address_is_kept_sealed_and_said_nowhere(alice):
    channel = add_channel(actor=alice, url=SLACK, dialect="slack", name="my room")
    channel.refresh_from_db()
    assert channel.host == "hooks.slack.com" and channel.url == "https://hooks.slack.com/"
    assert b"B1" not in bytes(channel.sealed)
    remove_channel(actor=alice, channel=channel)
    events = AuditEvent.objects.filter(action__startswith="channel.")
    assert [one.action for one in events.order_by("id")] == ["channel.add", "channel.remove"]
    assert not any("services" in f"{one.before}{one.after}{one.subject_label}" for one in events)


@pytest.mark.parametrize(
    ("fields", "field", "remedy"),
    [
        ({"url": "http://hooks.slack.com.evil.example/x"}, "url", "TRAINYARD_CHAT_HOSTS"),
        ({"url": "https://10.0.0.7/hook"}, "url", "TRAINYARD_WEBHOOK_NETWORKS"),
        ({"url": "https://xlogic.azure.com/hook"}, "url", "TRAINYARD_CHAT_HOSTS"),
        ({"url": "slack"}, "url", "whole address"),
        ({"dialect": "signed"}, "dialect", "slack, teams"),
        ({"kinds": ["gossip"]}, "kinds", "gossip"),
        ({"name": "x" * 61}, "name", "60"),
    ],
)
def test_what_is_wrong_is_named(alice, fields, field, remedy):
    with pytest.raises(Invalid) as refused:
        add_channel(actor=alice, **{"url": SLACK, "dialect": "slack"} | fields)
    assert refused.value.field == field and remedy in refused.value.detail
    assert not Webhook.objects.exists()


def test_a_host_below_one_that_is_allowed_and_a_few_for_each(alice):
    for number in range(5):
        url = f"https://prod-{number}.westeurope.logic.azure.com:443/workflows/x?sig=y"
        add_channel(actor=alice, url=url, dialect="teams")
        with pytest.raises(Conflict):
            add_channel(actor=alice, url=url, dialect="teams")
    with pytest.raises(Conflict, match="5 channels"):
        add_channel(actor=alice, url=SLACK, dialect="slack")


def test_a_host_that_is_allowed_no_more_is_called_no_more(alice, receiver, settings):
    add_channel(actor=alice, url=receiver.url, dialect="slack", now=at(0))
    told(alice)
    settings.CHAT_HOSTS = ()
    assert deliver(now=at(5)) == 0 and not receiver.got
    assert "TRAINYARD_CHAT_HOSTS" in Delivery.objects.get().trouble


def test_a_refusal_is_tried_later_and_given_up_where_it_can_be_seen(alice, receiver):
    add_channel(actor=alice, url=receiver.url, dialect="slack", now=at(0))
    told(alice)
    receiver.answers, now = 404, at(1)
    for _ in range(MOST_TRIES):
        deliver(now=now)
        now += timedelta(hours=12)
    (channel,) = visible_channels(alice)
    assert (channel.sent, channel.waiting, channel.lost) == (0, 0, 1)
    assert Delivery.objects.get().status == 404


def test_a_test_says_what_was_answered_and_rests(alice, lead, receiver):
    channel = add_channel(actor=alice, url=receiver.url, dialect="slack", now=at(0))
    found = try_channel(actor=alice, channel=channel, now=at(1))
    assert found.is_there and found.status == 204 and "taken" in found.said
    assert texts(receiver)[0].startswith("Trainyard can write here")
    with pytest.raises(Conflict, match="wait 10 seconds"):
        try_channel(actor=alice, channel=channel, now=at(2))
    receiver.answers = 404
    lost = try_channel(actor=alice, channel=channel, now=at(20))
    assert not lost.is_there and "answered 404" in lost.said and "new one" in lost.said
    receiver.answers = 0
    silent = try_channel(actor=alice, channel=channel, now=at(40))
    assert silent.status is None and "no answer" in silent.said and "room=1" not in silent.said
    assert not Delivery.objects.exists()


def test_programs_and_chats_do_not_see_each_other(alice, root, receiver):
    add_channel(actor=alice, url=receiver.url, dialect="slack", now=at(0))
    assert not visible_webhooks(root).exists()
    hook, _ = add_webhook(actor=root, url=receiver.url, now=at(0))
    told(alice)
    assert deliver(now=at(5)) == 2
    assert [one.pk for one in visible_webhooks(root)] == [hook.pk]
    assert visible_webhooks(root)[0].sent == 1
    with pytest.raises(NotFound):
        get_visible_channel(alice, hook.pk)


def test_statements_do_not_grow_with_people(
    root, team, alice, bob, receiver, django_assert_num_queries, django_assert_max_num_queries
):
    def look(second):
        take_up_channels(now=at(second))
        write_messages(now=at(second))

    add_channel(actor=alice, url=receiver.url, dialect="slack", now=at(0))
    told(alice)
    with django_assert_max_num_queries(20) as few:
        look(5)
    for number in range(4):
        one = type(alice).objects.create(username=f"p{number}", email=f"p{number}@example.org")
        add_channel(actor=one, url=receiver.url, dialect="slack", now=at(6))
        told(one, f"k{number}", second=7)
    told(alice, "b", second=7)
    with django_assert_num_queries(len(few)):
        look(8)
