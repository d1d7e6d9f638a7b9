"""The page of webhooks: a secret shown once, what became of each delivery, sent again."""

from __future__ import annotations

import pytest
from django.urls import reverse

from scheduler.models import Delivery, Webhook
from tests.factories import told
from tests.scenes import at

pytestmark = [pytest.mark.django_db, pytest.mark.once]


def test_a_webhook_is_added_seen_and_paused(client, root, django_assert_max_num_queries):
    client.force_login(root)
    url = reverse("webhooks:list")
    assert "No program is told anything" in client.get(url).content.decode()
    address = "https://chat.example.org/services/T0/B1"
    made = client.post(url, {"url": address, "kinds": ["budget"]})
    assert made.status_code == 200 and made.context["secret"] in made.content.decode()
    hook = Webhook.objects.get()
    for number in range(3):
        told(hook, f"k{number}", at(0), tries=1, status=503)
    with django_assert_max_num_queries(8):
        page = client.get(url).content.decode()
    assert "chat.example.org" in page and "/services/T0" not in page
    assert made.context["secret"] not in page and "answered 503" in page
    again = client.post(reverse("webhooks:again", args=[Delivery.objects.last().pk]), follow=True)
    assert "sent within half a minute" in again.content.decode()
    client.post(reverse("webhooks:act", args=[hook.pk, "pause"]))
    hook.refresh_from_db()
    assert hook.paused_at is not None
    later = client.post(reverse("webhooks:again", args=[Delivery.objects.last().pk]), follow=True)
    assert "once the webhook is resumed" in later.content.decode()
    assert client.post(reverse("webhooks:act", args=[hook.pk, "explode"])).status_code == 404
    bad = client.post(url, {"url": "chat", "kinds": []})
    assert bad.status_code == 422 and "whole address" in bad.content.decode()
