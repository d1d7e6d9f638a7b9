"""The pages of chats and of quiet hours."""

from __future__ import annotations

import pytest
from django.urls import reverse

from scheduler.models import Delivery, NewsHours, Webhook
from scheduler.services.inbox import add_channel
from tests.scenes import at

pytestmark = [pytest.mark.django_db, pytest.mark.once]
HOSTILE = "<b>room</b>\u202e"


def test_a_chat_is_added_tried_changed_paused_and_removed(client, alice, receiver):
    client.force_login(alice)
    url = reverse("channels:list")
    assert "No chat is told anything" in client.get(url).content.decode()
    sent = {"dialect": "slack", "url": receiver.url, "name": "my <b>room</b>"}
    made = client.post(url, {**sent, "kinds": ["job_failed"]}, follow=True)
    page = made.content.decode()
    assert "is told from now on" in page and "my &lt;b&gt;room" in page and "room=1" not in page
    channel = Webhook.objects.get()

    def act(word: str) -> str:
        address = reverse("channels:act", args=[channel.pk, word])
        return client.post(address, follow=True).content.decode()

    assert "has taken the message (it answered 204)" in act("test")
    assert "wait 10 seconds" in act("test") and len(receiver.got) == 1
    there = reverse("channels:detail", args=[channel.pk])
    client.post(there, {"name": "other", "kinds": ["job_failed", "budget"]})
    channel.refresh_from_db()
    assert (channel.name, channel.kinds) == ("other", ["budget", "job_failed"])
    assert "paused" in act("pause") and "told again" in act("resume")
    assert "forgotten" in act("remove") and not Webhook.objects.exists()
    assert client.get(there).status_code == 404


def test_what_was_refused_or_given_up_is_seen(client, alice):
    client.force_login(alice)
    channel = add_channel(actor=alice, url="https://hooks.slack.com/x", dialect="slack")
    for number, kind in ((1, "several"), (2, "job_failed")):
        Delivery.objects.create(
            webhook=channel,
            key=f"k{number}",
            kind=kind,
            body="{}",
            created_at=at(0),
            not_before=at(0),
            tries=8,
            status=404,
            given_up_at=at(9),
        )
    page = client.get(reverse("channels:detail", args=[channel.pk])).content.decode()
    assert page.count("answered 404") == 2 and "Several pieces of news" in page
    assert 'class="badtxt">2' in client.get(reverse("channels:list")).content.decode()


def test_what_is_wrong_is_at_its_field_and_the_address_comes_not_back(client, alice, lead, team):
    client.force_login(alice)
    url = reverse("channels:list")
    bad = client.post(url, {"dialect": "slack", "url": "https://evil.example/hunter2"})
    page = bad.content.decode()
    assert bad.status_code == 422 and "TRAINYARD_CHAT_HOSTS" in page and "hunter2" not in page
    assert "news of team" not in page
    client.force_login(lead)
    assert "news of team vision" in client.get(url).content.decode()
    refused = client.post(
        url,
        {
            "dialect": "slack",
            "url": "https://hooks.slack.com/x",
            "team": team.slug,
            "kinds": ["budget"],
        },
    )
    assert refused.status_code == 422 and "Not everybody in the team" in refused.content.decode()
    client.post(url, {"dialect": "slack", "url": "https://hooks.slack.com/x", "team": team.slug})
    assert Webhook.objects.get().team == team


def test_hours_are_chosen_in_the_zone_of_the_page(client, alice):
    client.force_login(alice)
    client.cookies["zone"] = "Europe/Berlin"
    url = reverse("notification_hours")
    assert 'value="Europe/Berlin"' in client.get(url).content.decode()
    sent = {"mail": "daily", "digest_at": "08:30", "zone": "Europe/Berlin"}
    half = client.post(url, {**sent, "quiet_from": "22:00"})
    assert half.status_code == 422 and "Give both times" in half.content.decode()
    nowhere = client.post(url, {**sent, "zone": "Mars/Base"})
    assert nowhere.status_code == 422 and "Europe/Berlin or UTC" in nowhere.content.decode()
    assert not NewsHours.objects.exists()
    quiet = {"quiet_from": "00:00", "quiet_until": "23:59", "urgent": ["job_preempted"]}
    page = client.post(url, {**sent, **quiet}, follow=True).content.decode()
    assert 'value="23:59"' in page and page.count(" checked") == 1
    row = NewsHours.objects.get()
    assert (row.mail, row.zone, row.urgent) == ("daily", "Europe/Berlin", ["job_preempted"])
    client.post(url, {**sent, "mail": "at_once"})
    row.refresh_from_db()
    assert row.quiet_from is None and row.mail == "at_once" and row.urgent == []
