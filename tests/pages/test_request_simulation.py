"""What a grant would do, on the request's page: at once, or by itself as soon as it is known."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from scheduler.models import OutboundMail, WhatIf
from scheduler.services.requesting.foreseeing.whatif import ask_whatif
from scheduler.services.sharing.limits import set_quota
from tests import factories, requesting, scenes

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=4)


def test_the_waits_of_each_team_are_in_the_table(client, cluster, root, alice, lead, team, project):
    set_quota(actor=root, owner=team, maximum=2)
    now = timezone.now()
    for _ in range(2):
        job = scenes.submit(alice, project, now=now - timedelta(days=1), gpus_per_node=2)
        begin = now - timedelta(days=1)
        type(job).objects.filter(pk=job.pk).update(
            queued_at=begin, started_at=begin, ended_at=begin + timedelta(hours=2)
        )
    asked = requesting.ask(alice, team, kind="maximum", now=now)
    client.force_login(lead)
    client.post(f"/requests/{asked.pk}/whatif/")
    page = client.get(f"/requests/{asked.pk}/").content.decode()
    assert '<span class="nw">1 h /</span> <span class="nw">1 h 48 min</span>' in page
    assert '<span class="nw">0 s /</span> <span class="nw">0 s</span>' in page
    assert "vision</bdi> waits" in page and "of 2 jobs: half at most / nine of ten at most" in page
    assert "More cost a month, if used in full" in page
    # What is in use is held against what is asked to be higher.
    requesting.ask(alice, team, kind="guaranteed", now=now)
    page = client.get("/approvals/").content.decode()
    assert all(f'0<span class="sub">{what}' in page for what in ("2 at most", "0 guaranteed"))


def test_a_long_simulation_comes_to_the_page_by_itself(
    client, cluster, root, alice, lead, team, project
):
    set_quota(actor=root, owner=team, maximum=1)
    asked = requesting.ask(alice, team, kind="maximum", now=timezone.now())
    row = ask_whatif(actor=lead, request=asked)
    client.force_login(lead)
    here = f"/requests/{asked.pk}/?part=whatif"
    part = client.get(here).content.decode()
    assert 'id="whatif"' in part
    assert "<html" not in part
    assert f'hx-get="{here}"' in part
    assert "waiting, 0 of 3 replays done" in part
    WhatIf.objects.filter(pk=row.pk).update(progress="empty", finished_at=timezone.now())
    assert "hx-get" not in client.get(here).content.decode()
    client.force_login(factories.person("stranger"))
    assert client.get(here).status_code == 404


def test_what_is_asked_for_reads_as_more(client, cluster, root, alice, lead, team, project):
    set_quota(actor=root, owner=team, maximum=8)
    asked = requesting.ask(alice, team, kind="maximum", amount=8, now=timezone.now())
    here = f"/requests/{asked.pk}/"
    for person, url in ((alice, "/requests/"), (alice, here), (lead, "/approvals/"), (lead, here)):
        client.force_login(person)
        page = client.get(url).content.decode()
        assert "+8" in page and ">8<" not in page, url
    assert "<h1>+8 · A higher maximum of GPUs for" in page
    assert "<dt>How many</dt><dd>+8, from 8 to 16</dd>" in page
    client.force_login(alice)
    assert "<span>+8 · A higher maximum" in client.get("/requests/new/").content.decode()
    mail = OutboundMail.objects.get(person=lead)
    assert "for vision waits for you: +8 until " in mail.text
    # Once it is decided nobody is told of a limit that has changed by it.
    agreed = requesting.decide(lead, asked, now=timezone.now())
    requesting.decide(root, agreed, now=timezone.now())
    assert "from 8 to 16" not in client.get(here).content.decode()


def test_what_a_budget_has_left_is_never_less_than_nothing(
    client, cluster, root, alice, lead, team, project
):
    asked = requesting.ask(alice, project, now=timezone.now())
    row = ask_whatif(actor=lead, request=asked)
    client.force_login(lead)
    client.post(f"/requests/{asked.pk}/whatif/")
    row.refresh_from_db()
    choices = len(row.answer["question"]["amounts"])
    row.answer |= {
        "budget_money_left": ["-3.89"] * choices,
        "budget_hours_left": [-4] * choices,
    }
    row.save(update_fields=["answer"])
    page = client.get(f"/requests/{asked.pk}/").content.decode()
    assert page.count("3.89 EUR over") == choices == page.count(">4 over<")
    assert "−3.89" not in page
