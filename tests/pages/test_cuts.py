"""No list ends without a word: each says that there is more, and leads to it."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.urls import reverse
from django.utils import timezone

from accounts.services import issue_service_token, make_service_account
from portal.pages.people import services
from scheduler.models import Delivery, JobEvent, NodeEvent
from scheduler.services.composing.drafts import save_draft
from scheduler.services.inbox import add_webhook
from scheduler.services.jobs import cancel_job
from tests import scenes

pytestmark = pytest.mark.django_db


def text_of(client, address: str) -> str:
    page = client.get(address)
    assert page.status_code == 200
    return page.content.decode()


def link(text: str, word: str) -> str:
    """Where a button of a pager leads."""
    (found,) = re.findall(rf'<a class="btn sm"[^>]* href="([^"]*)">{word}</a>', text)
    return unescape(found)


def test_each_account_of_a_program_turns_the_leaves_of_its_own_tokens(
    client, lead, bob, team, monkeypatch
):
    monkeypatch.setattr(services, "TOKENS_SHOWN", 2)
    accounts = [make_service_account(actor=lead, team=team, name=name) for name in ("ci", "cd")]
    for account in accounts:
        for number in range(3):
            name = f"{account.pk}-{number}"
            issue_service_token(actor=lead, account=account, name=name, scopes=["jobs:read"])
    client.force_login(bob)
    address = reverse("teams:services", args=[team.slug])
    text = text_of(client, address)
    assert text.count("1 to 2 of 3") == 2
    first = accounts[0]
    later = text_of(client, f"{address}?tokens-{first.pk}=2")
    assert later.count("3 to 3 of 3") == 1 and later.count("1 to 2 of 3") == 1


def test_the_events_of_a_job_and_of_a_node_go_on_behind_the_newest(client, alice, root, project):
    cluster = scenes.build_cluster(root, nodes=1)
    job = scenes.submit(alice, project)
    node, now = cluster.node(1), timezone.now()
    JobEvent.objects.bulk_create(
        JobEvent(job=job, kind="released", at=now, detail={"number": number})
        for number in range(250)
    )
    NodeEvent.objects.bulk_create(
        NodeEvent(node=node, kind="enrolled_again", at=now, detail={}) for _ in range(60)
    )
    client.force_login(alice)
    for address, rows in (
        (reverse("jobs:events", args=[job.pk]), job.events.count()),
        (reverse("nodes:detail", args=[node.name]), node.events.count()),
    ):
        page = client.get(address)
        seen = [*page.context["events"]]
        text = page.content.decode()
        assert f"the newest {len(seen)}" in text and len(seen) < rows
        page = client.get(f"{address}{link(text, 'Older')}")
        seen += page.context["events"]
        assert len({line.event.pk for line in seen}) == len(seen) == rows
        assert link(page.content.decode(), "Newest") == "?"
        assert "is not known here" in text_of(client, f"{address}?older=zz")


def test_home_says_that_more_of_ones_jobs_wait_and_that_there_are_more_drafts(
    client, alice, project, root
):
    scenes.build_cluster(root, nodes=1)
    for number in range(13):
        scenes.submit(alice, project, name=f"j{number}")
    for number in range(4):
        save_draft(actor=alice, key=f"k{number}", fields={"name": f"d{number}"})
    client.force_login(alice)
    text = text_of(client, reverse("home"))
    assert "more than 12 waiting" in text and "12+" in text
    assert text.count("more drafts") == 1
    (address,) = re.findall(r'href="([^"]*)">All that wait<', text)
    assert len(client.get(unescape(address)).context["rows"]) == 13
    assert "more drafts" in text_of(client, reverse("jobs:submit"))


def test_own_sessions_are_shown_however_many_others_have(client, alice, bob, project, root):
    """Those of others in leaves, and what has ended behind the newest of it."""
    scenes.build_cluster(root, nodes=1)

    def session(person):
        return scenes.submit(person, project, script="", session="shell")

    mine = session(alice)
    for _ in range(61):
        session(bob)
    client.force_login(alice)
    page = client.get(reverse("sessions:list"))
    assert [card.session.pk for card in page.context["cards"]] == [mine.pk]
    assert "1 to 30 of 61" in page.content.decode()
    for _ in range(13):
        cancel_job(actor=alice, job=session(alice))
    text = text_of(client, reverse("sessions:list"))
    older = client.get(f"{reverse('sessions:list')}{link(text, 'Older')}")
    assert len(older.context["ended"]) == 1


def test_what_programs_were_told_goes_on_behind_the_newest(client, root):
    client.force_login(root)
    hook, _ = add_webhook(actor=root, url="https://chat.example.org/hook")
    now = timezone.now()
    Delivery.objects.bulk_create(
        Delivery(
            webhook=hook, kind="budget", key=f"k{n}", body="{}", created_at=now, not_before=now
        )
        for n in range(51)
    )
    address = reverse("webhooks:list")
    text = text_of(client, address)
    assert "the newest 50" in text
    older = client.get(f"{address}{link(text, 'Older')}")
    assert len(older.context["deliveries"]) == 1
