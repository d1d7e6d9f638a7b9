"""A session's card: more time is one press away, with what it means for others."""

from __future__ import annotations

import html
import re

import pytest
from django.urls import reverse
from django.utils import timezone

from scheduler.selectors.jobs import end_sentence_of, wait_sentence_of
from scheduler.services.jobs import cancel_job
from tests import scenes

pytestmark = pytest.mark.django_db


@pytest.fixture
def lab(root, alice, project):
    """A session of alice's that runs, of two hours."""
    cluster, now = scenes.build_cluster(root, nodes=1, gpus=2), timezone.now()
    job = scenes.submit(
        alice, project, name="lab", script="", session="shell", time_limit="2h", now=now
    )
    attempt = scenes.start(job, cluster.node(1), now=now)
    scenes.sync(cluster.node(1), scenes.running(attempt), now=now, protocol=3)
    return job


def extend_link(client, address):
    page = client.get(address).content.decode()
    found = re.search(r'href="([^"]*)"><svg(?:(?!</a>).)*Extend</a>', page)
    return html.unescape(found[1]) if found else ""


def test_extend_stands_on_every_card_and_ends_on_the_sessions_page(client, alice, lab):
    client.force_login(alice)
    change = reverse("jobs:change", args=[lab.pk]) + "?time_limit=3h"
    own = reverse("sessions:detail", args=[lab.pk])
    for address in (own, reverse("sessions:list"), reverse("home")):
        assert extend_link(client, address) == change, address
    page = client.get(change).content.decode()
    assert "What it does" in page and "Extend to 3h" in page
    done = client.post(reverse("jobs:change", args=[lab.pk]), {"time_limit": "3h"})
    assert done.status_code == 302 and done.url == own
    lab.refresh_from_db()
    assert lab.time_limit_s == 3 * 3600
    assert extend_link(client, own).endswith("?time_limit=4h")


def test_who_may_not_change_it_is_not_offered_to(client, bob, lead, carol, lab, other_project):
    own = reverse("sessions:detail", args=[lab.pk])
    for person, offered in ((bob, False), (lead, True)):
        client.force_login(person)
        assert bool(extend_link(client, own)) is offered
        page = client.get(own).content.decode()
        # How to come in is told to whoever may.
        assert "connect-url" not in page and "Only its owner can come in" in page
    client.force_login(lab.owner)
    page = client.get(own).content.decode()
    assert "connect-url" in page and "Only its owner can come in" not in page
    client.force_login(carol)
    assert client.get(own).status_code == 404


def test_no_session_is_extended_beyond_what_sessions_may_run(client, alice, lab, settings):
    settings.TRAINYARD = {**settings.TRAINYARD, "session_longest_s": 9000}
    client.force_login(alice)
    own = reverse("sessions:detail", args=[lab.pk])
    assert extend_link(client, own).endswith("?time_limit=2h30m")
    change = reverse("jobs:change", args=[lab.pk])
    for send in (client.get, client.post):
        text = send(change, {"time_limit": "3h"}).content.decode()
        assert "sessions may run for 2h30m at most here" in text
    lab.refresh_from_db()
    assert lab.time_limit_s == 7200
    assert client.post(change, {"time_limit": "2h30m"}).status_code == 302
    assert extend_link(client, own) == ""


def test_a_session_that_waits_or_has_ended_says_why(client, alice, project, lab):
    """On the list too, where one stays while it waits; its job's page leads to it."""
    waits = scenes.submit(alice, project, name="later", script="", session="shell", gpus_per_node=2)
    waits.wait_reason, waits.wait_facts = "capacity_busy", {"start_p50_at": 1, "start_p90_at": 2}
    waits.save()
    client.force_login(alice)
    page = client.get(reverse("sessions:list")).content.decode()
    assert html.escape(wait_sentence_of(waits)) in page and "<dt>Starts</dt>" in page
    own = reverse("sessions:detail", args=[lab.pk])
    assert f'href="{own}"' in client.get(reverse("jobs:detail", args=[lab.pk])).content.decode()
    cancel_job(actor=alice, job=waits)
    waits.refresh_from_db()
    assert end_sentence_of(waits) in client.get(reverse("sessions:list")).content.decode()
